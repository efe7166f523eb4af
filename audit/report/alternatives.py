"""Figures in words, for who cannot see them: what is drawn, and the numbers one reads off it first.

Intervals stay out: the tables and captions beside a figure have them, and an alternative text is heard from end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from audit.measurements import Histogram
from audit.report import numbers

if TYPE_CHECKING:
    from audit.report.figures import FigureLine, LinePanel, Panel, Point


def of_rows(rows: Sequence[str], panels: Sequence[Panel]) -> str:
    """Dots by kind of value: each series of each panel with its value in every row."""
    parts = []
    for panel in panels:
        for series in panel.series:
            read = [f"{row} {_percent(point)}" for row, point in zip(rows, series.points, strict=True) if point]
            parts.append(_sentence(panel.title, series.label, ", ".join(read) or "nothing measured"))
    return f"Dots with intervals, in per cent. {' '.join(parts)}"


def of_bars(histogram: Histogram, labels: Mapping[str, str]) -> str:
    """A distribution: where each series lies, and the bar that holds most of it."""
    parts = []
    for name, counts in histogram.counts.items():
        total = sum(counts)
        label = ", ".join(labels.get(part, part) for part in name.split(", ", 1))
        if not total:
            parts.append(_sentence(label, "", "nothing measured"))
            continue
        bars = list(pairwise(histogram.edges))
        held = [bar for bar, count in zip(bars, counts, strict=True) if count]
        most = max(range(len(counts)), key=lambda index: counts[index])
        lies = f"n = {total:,}, from {numbers.plain(held[0][0])} to {numbers.plain(held[-1][1])}"
        fullest = f"{numbers.show(counts[most] / total, 'share')} between {_between(bars[most])}"
        parts.append(_sentence(label, "", f"{lies}, of these {fullest}"))
    return f"Bars of a distribution of {histogram.quantity}. {' '.join(parts)}"


def of_lines(panels: Sequence[LinePanel]) -> str:
    """Lines: each with its first and its last value, and the limit of its panel."""
    parts = []
    for panel in panels:
        for line in panel.lines:
            label = line.label if len(panel.lines) > 1 else ""
            parts.append(_sentence(panel.title, label, _course(line, panel)))
        if panel.limit is not None:
            parts.append(f"Limit: {numbers.show(panel.limit, panel.form)}.")
    return f"Lines with bands for their intervals, across: {panels[0].axis}. {' '.join(parts)}"


def _course(line: FigureLine, panel: LinePanel) -> str:
    found = [(x, point) for x, point in zip(line.positions, line.points, strict=True) if point is not None]
    if not found:
        return "nothing measured"
    ends = [found[0], found[-1]] if len(found) > 1 else found
    return ", ".join(f"{numbers.show(point.value, panel.form)} at {numbers.plain(x, 3)}" for x, point in ends)


def _sentence(title: str, label: str, text: str) -> str:
    head = ", ".join(part for part in (title, label) if part)
    return f"{head}: {text}." if head else f"{text}."


def _percent(point: Point) -> str:
    return f"{100 * point.value:.0f}"


def _between(bar: tuple[float, float]) -> str:
    return f"{numbers.plain(bar[0])} and {numbers.plain(bar[1])}"
