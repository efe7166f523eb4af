"""Checkpoints of one training run: leak and usefulness against epoch (Dentan et al. 2024, figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from audit.attacks.reporting import AttackReport
from audit.errors import DocauditError
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Verdict
from audit.record import AuditRecord, Completed
from audit.report import compact, figures, numbers
from audit.report.attack_figures import as_point
from audit.report.attack_text import UTILITY, report_of
from audit.report.files import remove, write_pages
from audit.report.jinja import environment, template_errors
from audit.report.sweep_page import Stop, check_comparable, weaknesses

HTML_NAME = "trend.html"
PDF_NAME = "trend.pdf"
FIGURE_HEIGHT = 6.1
"""Inches for all panels together (chosen here: what the first page has left under the sentences of two limits)."""
Find = Callable[[Stop], Estimate | Unresolved | None]


@dataclass(frozen=True)
class TrendColumn:
    """A column of the table: its heading, the report that says how its numbers are printed, and their source."""

    label: str
    report: AttackReport
    find: Find


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint in the table."""

    x: str
    label: str
    verdict: str
    cells: tuple[compact.TableCell, ...]


def write(records: Sequence[tuple[float, str, AuditRecord, Verdict]], axis: str, out: Path) -> list[str]:
    """Write `trend.html` and `trend.pdf` into `out`, each whole or not at all.

    Args:
        records: position on the axis, name of the checkpoint, its record, and the verdict of one policy.
        axis: the unit of the positions: "epoch".
        out: an existing folder.

    Returns:
        Warnings, one line each: why there is no PDF, and what weakens the comparison.

    Raises:
        RecordError: the records cannot be compared, with every difference.
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    stops = [Stop(*entry) for entry in sorted(records, key=lambda entry: entry[0])]
    check_comparable(stops)
    try:
        text = html(stops, axis)
    except DocauditError:
        remove(out / HTML_NAME, out / PDF_NAME)
        raise
    return [*weaknesses(stops), *write_pages(text, out / HTML_NAME, out / PDF_NAME)]


def html(stops: Sequence[Stop], axis: str) -> str:
    """Draw the whole page.

    Args:
        stops: in the order of the axis, comparable, at least one.
        axis: the unit of their positions.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates = environment()
        limits = [decision.limit for decision in stops[0].verdict.decisions]
        ran = [item.attack for stop in stops for item in stop.record.attacks if isinstance(item, Completed)]
        reports = {name: report_of(name) for name in dict.fromkeys([*ran, *(limit.attack for limit in limits)])}
        useful = list(dict.fromkeys(item.name for stop in stops for item in stop.record.utility))
        columns = _columns(reports, limits, useful)
        panels = _panels(stops, axis, reports, limits, useful)
        return templates.get_template("trend.html").render(
            stops=stops,
            first=stops[0],
            axis=axis,
            finished=max(stop.record.timing.finished for stop in stops),
            sentences=[
                *(limit_sentence(limit, reports[limit.attack], stops, axis) for limit in limits),
                *(sentence for name in useful if (sentence := _best(name, stops, axis))),
            ],
            figure=_figure(panels),
            columns=[column.label for column in columns],
            rows=[_row(stop, columns) for stop in stops],
            gaps=_gaps(stops, columns),
            weaknesses=weaknesses(stops),
        )


def _figure(panels: Sequence[figures.LinePanel]) -> Markup:
    """All panels, as high as leaves them on the first page."""
    rows = -(-len(panels) // 2)
    return Markup(figures.lines("trend", panels, min(1.7, FIGURE_HEIGHT / rows))) if panels else Markup()


def limit_sentence(limit: Limit, report: AttackReport, stops: Sequence[Stop], axis: str) -> str:
    """Return what the verdicts say about one limit, no more: "from ... on" only when none after it says less."""
    outcomes = [decision.outcome if (decision := stop.decision(limit)) else "not run" for stop in stops]
    over = [stop for stop, outcome in zip(stops, outcomes, strict=True) if outcome in ("violated", "waived")]
    bound = limit.max if limit.max is not None else (limit.min or 0.0)
    side = "over" if limit.max is not None else "under"
    head = f"“{report.label(limit.metric)}” is confirmed {side} its limit of "
    head += numbers.limit_text(bound, report.form(limit.metric))
    rest = _unconfirmed(outcomes.count("passed"), len(stops) - len(over))
    if not over:
        return f"{head} at none of {len(stops)} checkpoints; {rest}."
    first, last = numbers.axis_value(over[0].x), numbers.axis_value(stops[-1].x)
    count = f"{len(over)} of {len(stops)} checkpoints"
    if len(over) == len(stops):
        return f"{head} at every checkpoint, from {axis} {first} on ({count})."
    if over == list(stops[-len(over) :]):
        where = f"from {axis} {first} on" if len(over) > 1 else f"at the last checkpoint, {axis} {last}"
        return f"{head} {where} ({count}); before that, {rest}."
    listed = ", ".join(numbers.axis_value(stop.x) for stop in over)
    return f"{head} at {count} ({axis} {listed}); elsewhere, {rest}."


def _unconfirmed(passed: int, others: int) -> str:
    """Checkpoints whose limit is not confirmed to be broken: "met" only where the verdict says so."""
    if passed == others:
        return "it is met" if others == 1 else f"it is met at all {others}"
    if passed == 0:
        return "it is undecided or not checked"
    return f"it is met at {passed} and undecided or not checked at {others - passed}"


def _best(name: str, stops: Sequence[Stop], axis: str) -> str:
    """The checkpoint where the model was most useful, with its verdict; empty when that was measured nowhere."""
    measured = [(item, stop) for stop in stops if isinstance(item := stop.useful(name), Estimate)]
    if not measured or len(stops) < 2:
        return ""
    item, stop = max(measured, key=lambda pair: pair[0].value)
    form = UTILITY.form(name)
    return (
        f"“{UTILITY.family(name)}” is highest at {axis} {numbers.axis_value(stop.x)}, {numbers.show(item.value, form)} "
        f"({numbers.interval(item, form)}), where the verdict is {stop.verdict.overall}."
    )


def _panels(
    stops: Sequence[Stop],
    axis: str,
    reports: Mapping[str, AttackReport],
    limits: Sequence[Limit],
    useful: Sequence[str],
) -> list[figures.LinePanel]:
    """Usefulness, then the panels of each attack's report, then every limited number with its limit."""
    panels = [_panel(UTILITY.family(name), axis, UTILITY, {"": name}, stops, Stop.useful) for name in useful]
    for attack, report in reports.items():
        for spec in report.trend.panels:
            names = {series.label: series.metric for series in spec.series}
            panels.append(_panel(spec.title, axis, report, names, stops, partial(Stop.measured, attack=attack)))
    panels += [_limited(limit, axis, reports[limit.attack], stops) for limit in limits]
    return [panel for panel in panels if any(point for line in panel.lines for point in line.points)]


def _limited(limit: Limit, axis: str, report: AttackReport, stops: Sequence[Stop]) -> figures.LinePanel:
    title = report.short(limit.metric)
    bound = limit.max if limit.max is not None else limit.min
    return _panel(title, axis, report, {"": limit.metric}, stops, partial(Stop.measured, attack=limit.attack), bound)


def _panel(
    title: str,
    axis: str,
    report: AttackReport,
    names: Mapping[str, str],
    stops: Sequence[Stop],
    find: Callable[..., Estimate | Unresolved | None],
    limit: float | None = None,
) -> figures.LinePanel:
    """One line for each label and measurement in `names`."""
    form = report.form(next(iter(names.values())))
    quantity = {"share": "per cent", "points": "points", "ratio": "factor", "number": ""}[form]
    positions = tuple(stop.x for stop in stops)
    drawn = tuple(
        figures.FigureLine(label, positions, tuple(as_point(find(stop, name=metric)) for stop in stops))
        for label, metric in names.items()
    )
    return figures.LinePanel(title, axis, quantity, drawn, form, limit)


def _columns(reports: Mapping[str, AttackReport], limits: Sequence[Limit], useful: Sequence[str]) -> list[TrendColumn]:
    """Usefulness, the columns of each attack's report, and the limited numbers."""
    named = [
        (attack, column.metric, column.label) for attack, report in reports.items() for column in report.trend.shown
    ]
    named += [(limit.attack, limit.metric, reports[limit.attack].short(limit.metric)) for limit in limits]
    return [
        *(TrendColumn(UTILITY.family(name), UTILITY, partial(Stop.useful, name=name)) for name in useful),
        *(
            TrendColumn(label, reports[attack], partial(Stop.measured, attack=attack, name=metric))
            for attack, metric, label in named
        ),
    ]


def _row(stop: Stop, columns: Sequence[TrendColumn]) -> CheckpointRow:
    cells = tuple(compact.cell(column.find(stop), column.report) for column in columns)
    return CheckpointRow(numbers.axis_value(stop.x), stop.label, stop.verdict.overall, cells)


def _gaps(stops: Sequence[Stop], columns: Sequence[TrendColumn]) -> list[str]:
    """Why numbers in the table are missing."""
    missing = [item for stop in stops for column in columns if isinstance(item := column.find(stop), Unresolved)]
    return list(dict.fromkeys(compact.gap(item) for item in missing))
