"""Draw figures with matplotlib as SVG: colour-blind-safe, and readable in grey by shape and lightness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from audit.attacks.figure_text import Form
from audit.measurements import Estimate, Histogram, Unresolved
from audit.report.canvas import INK, RC, STYLES, add_legend, as_svg, blank_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = (("#0072B2", "#0072B2"), ("#e3e7eb", "#6b7785"), ("#f0c9a8", "#D55E00"), ("#b7e0d2", "#009E73"))
"""Fill and edge of each kind of bar: the first is dark, the others are light (hatching is slow to draw in a PDF)."""
BARS_HEIGHT, LINES_HEIGHT = 2.2, 2.5
"""Inches: a figure of bars, and a row of panels with lines, where nothing else is asked for."""


@dataclass(frozen=True)
class Point:
    """A value with its interval, as a fraction."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, item: Estimate | Unresolved | None) -> Point | None:
        """Return a measurement for drawing; None where it is no estimate."""
        if not isinstance(item, Estimate):
            return None
        return cls(item.value, item.low, item.high)


@dataclass(frozen=True)
class FigureLine:
    """One line: its label, and for each position on the axis a point (None where nothing was measured: a gap)."""

    label: str
    positions: tuple[float, ...]
    points: tuple[Point | None, ...]


@dataclass(frozen=True)
class LinePanel:
    """One diagram of lines; shares and differences of shares are shown as percent; a `limit` is drawn across.

    Where `diagonal` is set, a thin line is drawn where axis and quantity are equal.
    """

    title: str
    axis: str
    quantity: str
    lines: tuple[FigureLine, ...]
    form: Form = "number"
    limit: float | None = None
    diagonal: bool = False


def _marked(style: Mapping[str, Any]) -> dict[str, Any]:
    """The marker of a style."""
    fill = style["color"] if style["fill"] else "white"
    return {"marker": style["marker"], "color": style["color"], "markerfacecolor": fill}


def distribution(name: str, histogram: Histogram, labels: Mapping[str, str], height: float | None = None) -> str:
    """Draw a distribution: a panel for the part of a series' name before ", ", a kind of bar for the rest.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        histogram: counts of units; each series is drawn as shares of its own total, which the title states.
        labels: of the parts of the series' names.
        height: of the figure, in inches.
    """
    import matplotlib as mpl

    split = {key: tuple(key.split(", ", 1)) if ", " in key else ("", key) for key in histogram.counts}
    titles = {
        panel: f"{labels.get(panel, panel)} (n = {' / '.join(_totals(histogram, panel, split))})"
        for panel, _ in split.values()
    }
    kinds = list(dict.fromkeys(kind for _, kind in split.values()))
    with mpl.rc_context(RC):
        figure = blank_figure(height or BARS_HEIGHT)
        axes = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for axis, (panel, title) in zip(axes, titles.items(), strict=True):
            drawn = {kinds.index(split[key][1]): key for key in histogram.counts if split[key][0] == panel}
            for index, key in drawn.items():
                _draw_bars(axis, histogram, key, index, len(kinds), labels.get(kinds[index], kinds[index]))
            axis.set_title(title)
            axis.set_xlabel(histogram.quantity)
            axis.grid(axis="y")
        axes[0].set_ylabel("per cent")
        add_legend(figure, axes[0])
        parts = [*titles.values(), *(labels.get(kind, kind) for kind in kinds)]
        return as_svg(figure, name, f"Bars of a distribution of {histogram.quantity}: {'; '.join(parts)}.")


def _totals(histogram: Histogram, panel: str, split: Mapping[str, tuple[str, ...]]) -> list[str]:
    own = [counts for key, counts in histogram.counts.items() if split[key][0] == panel]
    return list(dict.fromkeys(f"{sum(counts):,}" for counts in own))


def _draw_bars(axis: Axes, histogram: Histogram, key: str, index: int, n_kinds: int, label: str) -> None:
    fill, edge = BARS[index % len(BARS)]
    counts = histogram.counts[key]
    widths = [(right - left) * 0.86 / n_kinds for left, right in pairwise(histogram.edges)]
    starts = [left + (right - left) * 0.07 for left, right in pairwise(histogram.edges)]
    axis.bar(
        [start + width * index for start, width in zip(starts, widths, strict=True)],
        [100 * count / (sum(counts) or 1) for count in counts],
        widths,
        align="edge",
        color=fill,
        edgecolor=edge,
        linewidth=0.7,
        label=label,
    )


def lines(name: str, panels: Sequence[LinePanel], height: float | None = None) -> str:
    """Draw lines with a light band for their pointwise intervals, two panels in a row.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        panels: all with the same axis; a label has the same look in all of them, by the order in which they appear.
        height: of one row of panels, in inches.
    """
    import matplotlib as mpl

    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines if len(panel.lines) > 1))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(RC):
        figure = blank_figure(0.3 + (height or LINES_HEIGHT) * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for index, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            _draw_lines(axis, panel, labels)
            if all(float(x).is_integer() for line in panel.lines for x in line.positions):
                axis.xaxis.get_major_locator().set_params(integer=True)
            # One axis for all: it is named under the last panel of each column.
            axis.set_xlabel(panel.axis if index + columns >= len(panels) else "")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        add_legend(figure, *axes[: len(panels)])
        told = "; ".join(filter(None, (*labels, *(" ".join(panel.title.split()) for panel in panels))))
        return as_svg(figure, name, f"Lines with bands for their intervals, across: {panels[0].axis}. {told}.")


def _draw_lines(axis: Axes, panel: LinePanel, labels: Sequence[str]) -> None:
    scale = 100 if panel.form in ("share", "points") else 1
    gap = Point(math.nan, math.nan, math.nan)
    for line in panel.lines:
        if not line.points:
            continue
        style = STYLES[labels.index(line.label) % len(STYLES)] if line.label in labels else STYLES[0]
        points = [point or gap for point in line.points]
        lows, highs = [scale * point.low for point in points], [scale * point.high for point in points]
        axis.fill_between(line.positions, lows, highs, color=style["color"], alpha=0.12, linewidth=0)
        axis.plot(
            line.positions,
            [scale * point.value for point in points],
            linestyle=style["line"],
            linewidth=1.3,
            markersize=3.2,
            label=line.label if line.label in labels else None,
            **_marked(style),
        )
    _line_axes(axis, panel, scale)


def _line_axes(axis: Axes, panel: LinePanel, scale: float) -> None:
    """Show the range of what was measured with 0 in it, "no difference" and the limit as lines across."""
    points = [point for line in panel.lines for point in line.points if point is not None]
    marks = [0.0] if panel.limit is None else [0.0, panel.limit]
    bottom = scale * min(marks + [point.low for point in points])
    top = scale * max(marks + [point.high for point in points])
    air = 0.05 * ((top - bottom) or 1.0)
    axis.set_ylim(bottom - air if bottom < 0 else -0.4 * air, top + air)
    if panel.form in ("ratio", "points"):
        axis.axhline(1.0 if panel.form == "ratio" else 0.0, color="#8a96a3", linewidth=0.8)
    if panel.diagonal:
        axis.axline((0, 0), slope=1, color="#8a96a3", linewidth=0.8)
        axis.set_xlim(-2, 102)
    if panel.limit is not None:
        axis.axhline(scale * panel.limit, color=INK, linewidth=1.2, linestyle=(0, (6, 2)))
        _name_limit(axis, scale * panel.limit)
    axis.set_title(panel.title)
    axis.set_ylabel(panel.quantity)
    axis.grid(visible=True)


def _name_limit(axis: Axes, height: float) -> None:
    axis.annotate("limit", (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom")
