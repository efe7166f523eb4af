"""Checkpoints of one training run: leak and usefulness against epoch (Dentan et al. 2024, figure 7)."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from audit.attacks import text_of
from audit.attacks.text import AttackText
from audit.errors import DocauditError
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Verdict
from audit.record import AuditRecord
from audit.report import figures, numbers, tables
from audit.report.answer import UTILITY
from audit.report.checkpoints import AXIS_WORDS, Stop, answer, check_comparable, weaknesses
from audit.report.files import TREND_NAMES, remove_stale, write_pages
from audit.report.templates import environment, template_errors

PDF_NAME, HTML_NAME = TREND_NAMES
MOST_COLUMNS = 5
"""Checkpoints beside each other (chosen here): what fits on the page at this size of type."""
MOST_PANELS = 12
"""Panels of one figure (chosen here): what a page holds at this size of type."""
PAGE_HEIGHT, ROW_HEIGHT = 8.8, 1.9
"""Inches: of the panels on one page, and of one row of them where there are few (chosen here)."""
TITLE_WIDTH = 38
"""Letters of a line of a panel's title."""
USEFULNESS = "What the model is good for"


@dataclass(frozen=True)
class Quantity:
    """A number that is followed over the checkpoints; `attack` is empty for usefulness."""

    attack: str
    name: str
    text: AttackText
    limit: Limit | None = None

    def find(self, stop: Stop) -> Estimate | Unresolved | None:
        """Return its measurement at a checkpoint."""
        return stop.measured(self.attack, self.name) if self.attack else stop.useful(self.name)

    @property
    def title(self) -> str:
        """Return the heading of the rows that it stands among."""
        return (self.text.title or self.attack) if self.attack else USEFULNESS

    @property
    def bound(self) -> str:
        """Return its limit in words; empty where it has none."""
        if self.limit is None:
            return ""
        side = "most" if self.limit.max is not None else "least"
        return f"limit: at {side} {numbers.limit_text(_bound(self.limit), self.text.metric(self.name).form)}"

    def outcome(self, stop: Stop) -> str:
        """Return what became of its limit at a checkpoint; empty where it has none."""
        decision = None if self.limit is None else stop.decision(self.limit)
        return "" if decision is None else {"passed": "met"}.get(decision.outcome, decision.outcome)


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
    """Draw the whole page.

    Args:
        stops: in the order of the axis, comparable, at least one.
        axis: the unit of their positions.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        limits = _applicable_limits(stops)
        ran = [item.attack for stop in stops for item in stop.record.completed.values()]
        texts = {
            name: text_of(name)
            for name in dict.fromkeys([*ran, *(limit.attack for limit in limits)])
        }
        useful = list(dict.fromkeys(item.name for stop in stops for item in stop.record.utility))
        quantities = _quantities(texts, limits, useful)
        columns = -(-len(stops) // -(-len(stops) // MOST_COLUMNS))
        return (
            environment()
            .get_template("trend.html")
            .render(
                stops=stops,
                first=stops[0],
                axis=axis,
                answer=answer(axis, [(stop.x, stop.label, stop.verdict) for stop in stops]),
                finished=max(stop.record.timing.finished for stop in stops),
                sentences=[
                    limit_sentence(limit, texts[limit.attack], stops, axis) for limit in limits
                ],
                figures=_draw_panels(panels_of(stops, axis, texts, limits, useful)),
                blocks=[stops[start : start + columns] for start in range(0, len(stops), columns)],
                measured=[
                    one
                    for one in quantities
                    if any(isinstance(one.find(stop), Estimate) for stop in stops)
                ],
                cell=tables.cell,
                gaps=list(dict.fromkeys(_missing_numbers(stops, quantities))),
                weaknesses=weaknesses(stops),
            )
        )


def _quantities(
    texts: Mapping[str, AttackText], limits: Sequence[Limit], useful: Sequence[str]
) -> list[Quantity]:
    """List usefulness.

    Then by attack the limited numbers, and those that its text names for a trend.
    """
    found = [Quantity("", name, UTILITY) for name in useful]
    for attack, text in texts.items():
        own = {limit.metric: limit for limit in limits if limit.attack == attack}
        names = dict.fromkeys([*own, *(column.metric for column in text.trend.shown)])
        found += [Quantity(attack, name, text, own.get(name)) for name in names]
    return found


def _missing_numbers(stops: Sequence[Stop], quantities: Sequence[Quantity]) -> Iterator[str]:
    """Say why numbers are missing, each with its label."""
    for one in quantities:
        for item in map(one.find, stops):
            if isinstance(item, Unresolved):
                yield f"{one.text.label(one.name)}: {tables.gap(item)}"


def _bound(limit: Limit) -> float:
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
        own = panels[start : start + size]
        height = min(ROW_HEIGHT, PAGE_HEIGHT / -(-len(own) // 2))
        drawn.append(Markup(figures.lines(f"trend{len(drawn) + 1}", own, height)))
    return drawn


def _applicable_limits(stops: Sequence[Stop]) -> list[Limit]:
    """List the limits that apply at one checkpoint at least."""
    decisions = [decision for stop in stops for decision in stop.verdict.decisions]
    held = {
        decision.limit
        for decision in decisions
        if decision.outcome not in ("inapplicable", "not run")
    }
    return [decision.limit for decision in stops[0].verdict.decisions if decision.limit in held]


def limit_sentence(limit: Limit, report: AttackText, stops: Sequence[Stop], axis: str) -> str:
    """Return at which checkpoints the verdicts confirm a leak over one limit.

    The table says what became of others.
    """
    over = [
        stop
        for stop in stops
        if (one := stop.decision(limit)) and one.outcome in ("violated", "waived")
    ]
    bound = numbers.limit_text(_bound(limit), report.metric(limit.metric).form)
    side = "over" if limit.max is not None else "under"
    places = ", ".join(numbers.axis_value(stop.x) for stop in over)
    where = f"none of {len(stops)} checkpoints"
    if over:
        where = f"{len(over)} of {len(stops)} checkpoints ({AXIS_WORDS.get(axis, axis)} {places})"
    return f"“{report.label(limit.metric)}” is confirmed {side} its limit of {bound} at {where}."


def panels_of(
    stops: Sequence[Stop],
    axis: str,
    reports: Mapping[str, AttackText],
    limits: Sequence[Limit],
    useful: Sequence[str],
) -> list[figures.LinePanel]:
    """Return usefulness, then the panels of each attack's report, then limited numbers that none of these show.

    A panel without a point is left out. A limit is drawn where its number is, as no number is drawn
    twice.
    """
    panels = [
        _panel(UTILITY.metric(name).label, axis, UTILITY, {"": name}, stops, Stop.useful)
        for name in useful
    ]
    bounds = {(limit.attack, limit.metric): _bound(limit) for limit in limits}
    drawn: set[tuple[str, str]] = set()
    for attack, report in reports.items():
        find = partial(Stop.measured, attack=attack)
        for spec in report.trend.panels:
            names = {
                series.label: series.metric
                for series in spec.series
                if (attack, series.metric) not in drawn
            }
            if names:
                shown = [(attack, metric) for metric in names.values()]
                limit = next((bounds[key] for key in shown if key in bounds), None)
                panels.append(_panel(spec.title, axis, report, names, stops, find, limit))
                drawn |= {*shown}
    for (attack, metric), bound in bounds.items():
        if (attack, metric) not in drawn:
            report, find = reports[attack], partial(Stop.measured, attack=attack)
            panels.append(
                _panel(report.label(metric), axis, report, {"": metric}, stops, find, bound)
            )
    return [
        panel for panel in panels if any(point for line in panel.lines for point in line.points)
    ]


def _panel(
    title: str,
    axis: str,
    report: AttackText,
    names: Mapping[str, str],
    stops: Sequence[Stop],
    find: Callable[..., Estimate | Unresolved | None],
    limit: float | None = None,
) -> figures.LinePanel:
    """Make a panel with a line for each label and measurement in `names`."""
    form = report.metric(next(iter(names.values()))).form
    quantity = {"share": "per cent", "points": "points", "ratio": "factor", "number": ""}[form]
    positions = tuple(stop.x for stop in stops)
    drawn = tuple(
        figures.FigureLine(
            label, positions, tuple(figures.Point.of(find(stop, name=metric)) for stop in stops)
        )
        for label, metric in names.items()
    )
    wrapped = textwrap.fill(title[:1].upper() + title[1:], TITLE_WIDTH)
    return figures.LinePanel(wrapped, axis, quantity, drawn, form, limit)
