"""The figures of a trend: every number against the axis, each once, with its limit across."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from markupsafe import Markup

from audit.attacks.text import AttackText
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit
from audit.report import figures
from audit.report.labels import UTILITY
from audit.report.sweep_page import Stop

MOST_PANELS = 12
"""Panels of one figure (chosen here): what a page holds at this size of type."""
PAGE_HEIGHT, ROW_HEIGHT = 8.8, 1.9
"""Inches: of the panels on one page, and of one row of them where there are few (chosen here)."""
TITLE_WIDTH = 38
"""Letters of a line of a panel's title."""


def draw_panels(panels: Sequence[figures.LinePanel]) -> list[Markup]:
    """Draw the panels, as few to a figure as fit on a page."""
    if not panels:
        return []
    count = -(-len(panels) // MOST_PANELS)
    size = -(-len(panels) // count)
    size += size % 2
    shares = [panels[start : start + size] for start in range(0, len(panels), size)]
    return [_draw(number, share) for number, share in enumerate(shares, start=1)]


def _draw(number: int, panels: Sequence[figures.LinePanel]) -> Markup:
    rows = -(-len(panels) // 2)
    return Markup(figures.lines(f"trend{number}", panels, min(ROW_HEIGHT, PAGE_HEIGHT / rows)))


def panels_of(
    stops: Sequence[Stop],
    axis: str,
    reports: Mapping[str, AttackText],
    limits: Sequence[Limit],
    useful: Sequence[str],
) -> list[figures.LinePanel]:
    """Return usefulness, then the panels of each attack's report, then limited numbers that none of these show.

    A panel without a point is left out. A limit is drawn where its number is, as no number is drawn twice.
    """
    panels = [_panel(UTILITY.family(name), axis, UTILITY, {"": name}, stops, Stop.useful) for name in useful]
    bounds = {(limit.attack, limit.metric): _bound(limit) for limit in limits}
    drawn: set[tuple[str, str]] = set()
    for attack, report in reports.items():
        find = partial(Stop.measured, attack=attack)
        for spec in report.trend.panels:
            names = {series.label: series.metric for series in spec.series if (attack, series.metric) not in drawn}
            if names:
                shown = [(attack, metric) for metric in names.values()]
                limit = next((bounds[key] for key in shown if key in bounds), None)
                panels.append(_panel(spec.title, axis, report, names, stops, find, limit))
                drawn |= {*shown}
    for (attack, metric), bound in bounds.items():
        if (attack, metric) not in drawn:
            report, find = reports[attack], partial(Stop.measured, attack=attack)
            panels.append(_panel(report.label(metric), axis, report, {"": metric}, stops, find, bound))
    return [panel for panel in panels if any(point for line in panel.lines for point in line.points)]


def _bound(limit: Limit) -> float | None:
    return limit.max if limit.max is not None else limit.min


def _panel(
    title: str,
    axis: str,
    report: AttackText,
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
        figures.FigureLine(label, positions, tuple(figures.Point.of(find(stop, name=metric)) for stop in stops))
        for label, metric in names.items()
    )
    wrapped = textwrap.fill(title[:1].upper() + title[1:], TITLE_WIDTH)
    return figures.LinePanel(wrapped, axis, quantity, drawn, form, limit)
