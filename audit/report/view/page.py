"""Draw the page of a folder's audits as one HTML file that fetches nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from audit.attacks import text_of
from audit.attacks.text import sentence_case
from audit.compare.comparison import OUTCOMES, RULE
from audit.errors import command_line
from audit.files import shipped_folder
from audit.measurements import Estimate
from audit.report import numbers
from audit.report.answer import decides_most
from audit.report.checkpoints import Answer, Stop, answer
from audit.report.decision import DecisionView, decision_view
from audit.report.facts.definitions import title_of
from audit.report.html import join_scripts
from audit.report.tables import OUTCOME_LABELS, DecisionRow, decision_row
from audit.report.templates import environment, template_errors
from audit.report.trend import PanelPlan, Quantity, numbers_context, plans_of
from audit.report.view.audits import Audits, Pair, Run, Series

NAME = "index.html"
LIBRARY = ("uPlot.iife.min.js", "uPlot.min.css")
"""The files of the library that draws charts: its code and its style."""
ROOM = 1000.0
"""Lines of text for the answer of a scan: a screen holds all of them."""
SHORTENED = 24
"""Letters of a scan's name below a chart."""


@dataclass(frozen=True)
class LimitRow:
    """A limit of a scan, with the title of its attack."""

    title: str
    row: DecisionRow


@dataclass(frozen=True)
class RunView:
    """One scan as the page shows it.

    Attributes:
        decision: page one of its report.
        limits: those that apply to it.
        first_step: the one thing to do about undecided limits; empty where none is.
        command: that draws its report.
    """

    run: Run
    decision: DecisionView
    limits: tuple[LimitRow, ...]
    first_step: str
    command: str


@dataclass(frozen=True)
class SeriesView:
    """A series as the page shows it.

    Attributes:
        title: its heading.
        numbers: what the table of numbers shows.
        answer: the last checkpoint that passes; None where the scans are of no training.
        charts: how many charts the page draws.
    """

    series: Series
    title: str
    numbers: Mapping[str, Any]
    answer: Answer | None
    charts: int


@dataclass(frozen=True)
class PairView:
    """Two scans compared, as the page shows them, with the command that compares them closer."""

    pair: Pair
    command: str


def render(audits: Audits) -> str:
    """Draw the page.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        charts = {str(series.number): charts_of(series) for series in audits.series}
        script = join_scripts(f"vendor/uplot/{LIBRARY[0]}", "tables.js", "view.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        style = shipped_folder("templates") / "vendor" / "uplot" / LIBRARY[1]
        return (
            environment()
            .get_template("view.html")
            .render(
                audits=audits,
                runs=[run_view(run) for run in audits.runs],
                series=[
                    _series_view(item, len(charts[str(item.number)])) for item in audits.series
                ],
                pairs=[_pair_view(pair) for pair in audits.pairs],
                charts=charts,
                series_of=_series_by_run(audits.series),
                compared=OUTCOMES,
                rule=RULE,
                title_of=title_of,
                outcome_labels=OUTCOME_LABELS,
                library_style=Markup(style.read_text(encoding="utf-8")),
                script=Markup(script),
                script_hash=f"sha256-{digest}",
            )
        )


def run_view(run: Run) -> RunView:
    """Lay out one scan."""
    limits: list[LimitRow] = []
    for decision in run.verdict.decisions:
        if decision.outcome != "inapplicable":
            text = text_of(decision.limit.attack)
            title = text.title or decision.limit.attack
            limits.append(LimitRow(title, decision_row(decision, text)))
    order = [*OUTCOME_LABELS]
    limits.sort(key=lambda limit: order.index(limit.row.decision.outcome))
    return RunView(
        run=run,
        decision=decision_view(run.facts, ROOM),
        limits=tuple(limits),
        first_step=decides_most(run.facts),
        command=command_line("report", run.name),
    )


def _series_view(series: Series, n_charts: int) -> SeriesView:
    """Lay out one series."""
    last_passing = None
    if series.is_training:
        positions = [(stop.x, stop.label, stop.verdict) for stop in series.stops]
        last_passing = answer(series.axis, positions)
    context = numbers_context(series.stops, series.axis)
    return SeriesView(series, _title(series), context, last_passing, n_charts)


def _title(series: Series) -> str:
    """Return the heading of a series: checkpoints by their folder, others by their data set."""
    if not series.is_training:
        return f"Scans over time: {series.runs[0].record.corpus.name}"
    return f"Checkpoints by {series.axis}: {series.folder}"


def _pair_view(pair: Pair) -> PairView:
    """Lay out two scans compared."""
    return PairView(pair, command_line("diff", pair.old.name, pair.new.name))


def _series_by_run(series: Sequence[Series]) -> dict[int, int]:
    """Return the number of its series by the number of a scan; a scan alone is in none."""
    numbers_by_run: dict[int, int] = {}
    for item in series:
        for run in item.runs:
            numbers_by_run[run.number] = item.number
    return numbers_by_run


def charts_of(series: Series) -> list[dict[str, Any]]:
    """Return the charts of a series as data, each with what its library needs."""
    charts = [_chart(plan, series) for plan in plans_of(series.stops)]
    return [chart for chart in charts if _has_point(chart)]


def _has_point(chart: Mapping[str, Any]) -> bool:
    """Test whether any line of a chart has a point."""
    values: set[float | None] = set()
    for line in chart["lines"]:
        values.update(line["value"])
    return values - {None} != set()


def _chart(plan: PanelPlan, series: Series) -> dict[str, Any]:
    """Return one chart as data: shares in per cent, and None where nothing was measured."""
    form = plan.text.metric(next(iter(plan.metrics.values()))).form
    scale = numbers.scale_of(form)
    limit = None
    limit_text = ""
    if plan.limit is not None:
        limit = scale * plan.limit
        limit_text = numbers.limit_text(plan.limit, form)
    lines = []
    for label, name in plan.metrics.items():
        quantity = Quantity(plan.attack, name, plan.text)
        lines.append(_line(label, quantity, series.stops))
    return {
        "attack": title_of(plan.attack) if plan.attack else "",
        "title": sentence_case(plan.title),
        "axis": sentence_case(series.axis),
        "places": [stop.x for stop in series.stops],
        "names": [_shorten(stop.label) for stop in series.stops],
        "unit": numbers.UNIT_LABELS[form],
        "limit": limit,
        "limit_text": limit_text,
        "lines": lines,
    }


def _line(label: str, quantity: Quantity, stops: Sequence[Stop]) -> dict[str, Any]:
    """Return one line of a chart: values, both ends of their intervals, and each in words."""
    form = quantity.text.metric(quantity.name).form
    scale = numbers.scale_of(form)
    line: dict[str, Any] = {"label": label, "value": [], "low": [], "high": [], "text": []}
    for stop in stops:
        item = quantity.find(stop)
        if isinstance(item, Estimate):
            drawn = numbers.cut(item, form)
            line["value"].append(scale * drawn.value)
            line["low"].append(scale * drawn.low)
            line["high"].append(scale * drawn.high)
            between = numbers.interval(item, form)
            line["text"].append(f"{numbers.show(drawn.value, form)} ({between})")
        else:
            for part in ("value", "low", "high"):
                line[part].append(None)
            line["text"].append("not measured")
    return line


def _shorten(name: str) -> str:
    """Return the end of a name, which tells scans of one folder apart."""
    if len(name) <= SHORTENED:
        return name
    return f"…{name[1 - SHORTENED :]}"
