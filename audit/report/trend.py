"""Checkpoints of one training run: leak and usefulness against epoch.

As in figure 7 of Dentan et al. 2024.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from audit.attacks import text_of
from audit.attacks.text import AttackText
from audit.errors import DocauditError
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Verdict
from audit.record import AuditRecord
from audit.report import figures, numbers, tables
from audit.report.checkpoints import (
    AXIS_WORDS,
    Stop,
    answer,
    check_comparable,
    noun_of,
    weaknesses,
)
from audit.report.files import TREND_NAMES, remove_stale, write_pages
from audit.report.labels import UTILITY
from audit.report.templates import environment, template_errors

PDF_NAME, HTML_NAME = TREND_NAMES
MOST_COLUMNS = 5
"""Checkpoints beside each other (chosen here): what fits on the page at this size of type."""
MOST_PANELS = 12
"""Panels of one figure (chosen here): what a page holds at this size of type."""
PAGE_HEIGHT = 8.8
"""Inches that the panels on one page take (chosen here)."""
ROW_HEIGHT = 1.9
"""Inches that one row of panels takes where there are few (chosen here)."""
TITLE_WIDTH = 38
"""Letters of a line of a panel's title."""
USEFULNESS = "What the model is good for"
FORM_WORDS = {"share": "per cent", "points": "points", "ratio": "factor", "count": "", "number": ""}
"""What an upright axis says of numbers of a form."""


@dataclass(frozen=True)
class Quantity:
    """A number that is followed over the checkpoints; `attack` is empty for usefulness."""

    attack: str
    name: str
    text: AttackText
    limit: Limit | None = None

    def find(self, stop: Stop) -> Estimate | Unresolved | None:
        """Return the measurement of this quantity at a checkpoint; None where it has none."""
        return stop.measured(self.attack, self.name) if self.attack else stop.useful(self.name)

    @property
    def title(self) -> str:
        """Return the heading of the rows that it stands among."""
        if not self.attack:
            return USEFULNESS
        return self.text.title or self.attack

    @property
    def bound(self) -> str:
        """Return the limit on this quantity in words; empty where it has none."""
        if self.limit is None:
            return ""
        side = "most" if self.limit.max is not None else "least"
        form = self.text.metric(self.name).form
        return f"limit: at {side} {numbers.limit_text(_bound_of_limit(self.limit), form)}"

    def outcome(self, stop: Stop) -> str:
        """Return the outcome of this quantity's limit at a checkpoint; empty without a limit."""
        decision = None if self.limit is None else stop.decision(self.limit)
        if decision is None:
            return ""
        return decision.word


def write(
    records: Sequence[tuple[float, str, AuditRecord, Verdict]], axis: str, out: Path
) -> list[str]:
    """Write `trend.html` and `trend.pdf` into `out`, each whole or not at all.

    Args:
        records: position on the axis, name of the checkpoint, its record, and the verdict of one
            policy.
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
    except DocauditError as error:
        remove_stale(out / HTML_NAME, out / PDF_NAME, after=error)
        raise
    return [*weaknesses(stops), *write_pages(text, out / HTML_NAME, out / PDF_NAME)]


def html(stops: Sequence[Stop], axis: str) -> str:
    """Draw the trend of the checkpoints as one HTML page.

    Args:
        stops: in the order of the axis, comparable, at least one.
        axis: the unit of their positions.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        limits = _applicable_limits(stops)
        texts = _attack_texts(stops, limits)
        useful = _usefulness_measures(stops)
        positions = [(stop.x, stop.label, stop.verdict) for stop in stops]
        template = environment().get_template("trend.html")
        return template.render(
            stops=stops,
            first=stops[0],
            axis=axis,
            answer=answer(axis, positions),
            finished=max(stop.record.timing.finished for stop in stops),
            figures=_draw_panels(panels_of(stops, axis, texts, limits, useful)),
            **numbers_context(stops, axis),
        )


def numbers_context(stops: Sequence[Stop], axis: str) -> dict[str, Any]:
    """Prepare what the table of numbers shows of a trend, and the sentences on its limits."""
    limits = _applicable_limits(stops)
    texts = _attack_texts(stops, limits)
    quantities = _quantities(texts, limits, _usefulness_measures(stops))
    return {
        "sentences": [limit_sentence(limit, texts[limit.attack], stops, axis) for limit in limits],
        "blocks": _blocks_of(stops),
        "measured": [quantity for quantity in quantities if _is_measured(quantity, stops)],
        "cell": tables.cell,
        "gaps": list(dict.fromkeys(_missing_numbers(stops, quantities))),
        "weaknesses": weaknesses(stops),
        "noun": noun_of(axis),
    }


def plans_of(stops: Sequence[Stop]) -> list[PanelPlan]:
    """Plan the panels of a trend, those without a number among them."""
    limits = _applicable_limits(stops)
    return _plan_panels(_attack_texts(stops, limits), limits, _usefulness_measures(stops))


def _plan_panels(
    texts: Mapping[str, AttackText], limits: Sequence[Limit], useful: Sequence[str]
) -> list[PanelPlan]:
    """Plan the panels of usefulness, then those of the attacks."""
    plans = [PanelPlan("", UTILITY.metric(name).label, UTILITY, {"": name}) for name in useful]
    return plans + _plan_attacks(texts, limits)


def _attack_texts(stops: Sequence[Stop], limits: Sequence[Limit]) -> dict[str, AttackText]:
    """Return the texts of each attack that ran at a checkpoint or that a limit is on."""
    names: dict[str, None] = {}
    for stop in stops:
        names.update(dict.fromkeys(result.attack for result in stop.record.completed.values()))
    names.update(dict.fromkeys(limit.attack for limit in limits))
    return {name: text_of(name) for name in names}


def _usefulness_measures(stops: Sequence[Stop]) -> list[str]:
    """List the measures of usefulness that were taken at any checkpoint."""
    names: dict[str, None] = {}
    for stop in stops:
        names.update(dict.fromkeys(item.name for item in stop.record.utility))
    return [*names]


def _blocks_of(stops: Sequence[Stop]) -> list[Sequence[Stop]]:
    """Divide checkpoints into tables of about as many columns, as few as fit on the page."""
    n_tables = -(-len(stops) // MOST_COLUMNS)
    columns = -(-len(stops) // n_tables)
    return [stops[start : start + columns] for start in range(0, len(stops), columns)]


def _is_measured(quantity: Quantity, stops: Sequence[Stop]) -> bool:
    """Test whether any checkpoint has an estimate of a quantity."""
    return any(isinstance(quantity.find(stop), Estimate) for stop in stops)


def _quantities(
    texts: Mapping[str, AttackText], limits: Sequence[Limit], useful: Sequence[str]
) -> list[Quantity]:
    """List usefulness.

    Then by attack the limited numbers, and those that its text names for a trend.
    """
    quantities = [Quantity("", name, UTILITY) for name in useful]
    for attack, text in texts.items():
        bounds = {limit.metric: limit for limit in limits if limit.attack == attack}
        names = dict.fromkeys([*bounds, *(column.metric for column in text.trend.shown)])
        quantities += [Quantity(attack, name, text, bounds.get(name)) for name in names]
    return quantities


def _missing_numbers(stops: Sequence[Stop], quantities: Sequence[Quantity]) -> Iterator[str]:
    """Say why numbers are missing, each with its label."""
    for quantity in quantities:
        for stop in stops:
            item = quantity.find(stop)
            if isinstance(item, Unresolved):
                yield f"{quantity.text.label(quantity.name)}: {tables.gap(item)}"


def _bound_of_limit(limit: Limit) -> float:
    """Return the maximum of a limit, or its minimum where it has no maximum."""
    return limit.max if limit.max is not None else (limit.min or 0.0)


def _draw_panels(panels: Sequence[figures.LinePanel]) -> list[Markup]:
    """Draw the panels, as few to a figure as fit on a page."""
    if not panels:
        return []
    count = -(-len(panels) // MOST_PANELS)
    size = -(-len(panels) // count)
    size += size % 2
    drawn: list[Markup] = []
    for start in range(0, len(panels), size):
        on_page = panels[start : start + size]
        height = min(ROW_HEIGHT, PAGE_HEIGHT / -(-len(on_page) // 2))
        drawn.append(Markup(figures.lines(f"trend{len(drawn) + 1}", on_page, height)))
    return drawn


def _applicable_limits(stops: Sequence[Stop]) -> list[Limit]:
    """List the limits that apply at one checkpoint at least."""
    applicable: set[Limit] = set()
    for stop in stops:
        applicable.update(
            decision.limit
            for decision in stop.verdict.decisions
            if decision.outcome not in ("inapplicable", "not run")
        )
    limits = [decision.limit for decision in stops[0].verdict.decisions]
    return [limit for limit in limits if limit in applicable]


def limit_sentence(limit: Limit, report: AttackText, stops: Sequence[Stop], axis: str) -> str:
    """Return at which checkpoints the verdicts confirm a leak over one limit.

    The table says what became of others.
    """
    over = [stop for stop in stops if _confirms_leak_over(stop, limit)]
    bound = numbers.limit_text(_bound_of_limit(limit), report.metric(limit.metric).form)
    side = "over" if limit.max is not None else "under"
    places = ", ".join(numbers.axis_value(stop.x) for stop in over)
    noun = noun_of(axis)
    where = f"none of {len(stops)} {noun}"
    if over:
        where = f"{len(over)} of {len(stops)} {noun} ({AXIS_WORDS.get(axis, axis)} {places})"
    return f"“{report.label(limit.metric)}” is confirmed {side} its limit of {bound} at {where}."


def _confirms_leak_over(stop: Stop, limit: Limit) -> bool:
    """Test whether the verdict on a checkpoint confirms a leak over a limit."""
    decision = stop.decision(limit)
    return decision is not None and decision.outcome in ("violated", "waived")


@dataclass(frozen=True)
class PanelPlan:
    """What one panel shows.

    Attributes:
        attack: empty for usefulness.
        metrics: by label of a line, the name of its number.
        limit: a value that is drawn across; None: there is none.
    """

    attack: str
    title: str
    text: AttackText
    metrics: Mapping[str, str]
    limit: float | None = None


def panels_of(
    stops: Sequence[Stop],
    axis: str,
    texts: Mapping[str, AttackText],
    limits: Sequence[Limit],
    useful: Sequence[str],
) -> list[figures.LinePanel]:
    """Return the panels of a trend.

    Usefulness comes first, then the panels of each attack's report, then limited numbers that none
    of these show.

    A panel without a point is left out. A limit is drawn where its number is, as no number is drawn
    twice.
    """
    plans = _plan_panels(texts, limits, useful)
    panels = [_panel(plan, axis, stops) for plan in plans]
    return [panel for panel in panels if _has_point(panel)]


def _plan_attacks(texts: Mapping[str, AttackText], limits: Sequence[Limit]) -> list[PanelPlan]:
    """Plan the panels of all attacks, then those of limited numbers that none of these show."""
    bounds = {(limit.attack, limit.metric): _bound_of_limit(limit) for limit in limits}
    plans: list[PanelPlan] = []
    planned: set[tuple[str, str]] = set()
    for attack, text in texts.items():
        for plan in _plan_attack(attack, text, bounds):
            plans.append(plan)
            planned.update((attack, metric) for metric in plan.metrics.values())
    for (attack, metric), bound in bounds.items():
        if (attack, metric) not in planned:
            text = texts[attack]
            plans.append(PanelPlan(attack, text.label(metric), text, {"": metric}, bound))
    return plans


def _plan_attack(
    attack: str, text: AttackText, bounds: Mapping[tuple[str, str], float]
) -> Iterator[PanelPlan]:
    """Yield the panels that an attack's text asks for, each number in the first of them."""
    drawn: set[str] = set()
    for spec in text.trend.panels:
        metrics = {line.label: line.metric for line in spec.series if line.metric not in drawn}
        if metrics:
            limited = [name for name in metrics.values() if (attack, name) in bounds]
            limit = bounds[(attack, limited[0])] if limited else None
            yield PanelPlan(attack, spec.title, text, metrics, limit)
            drawn.update(metrics.values())


def _has_point(panel: figures.LinePanel) -> bool:
    """Test whether any line of a panel has a point to draw."""
    return any(any(line.points) for line in panel.lines)


def _panel(plan: PanelPlan, axis: str, stops: Sequence[Stop]) -> figures.LinePanel:
    """Make a panel with a line for each of the planned numbers."""
    lines: list[figures.FigureLine] = []
    positions = tuple(stop.x for stop in stops)
    for label, name in plan.metrics.items():
        number = Quantity(plan.attack, name, plan.text)
        points = tuple(figures.Point.of(number.find(stop)) for stop in stops)
        lines.append(figures.FigureLine(label, positions, points))
    form = plan.text.metric(next(iter(plan.metrics.values()))).form
    title = textwrap.fill(plan.title[:1].upper() + plan.title[1:], TITLE_WIDTH)
    return figures.LinePanel(title, axis, FORM_WORDS[form], tuple(lines), form, plan.limit)
