"""Figures as SVG to put into the page: colour-blind-safe (Okabe and Ito 2008), readable in grey by shape and lightness.

The output depends on the data alone (see `canvas`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from audit.attacks.reporting import Form
from audit.measurements import Histogram
from audit.report import alternatives
from audit.report.canvas import FAINT, FONT_SIZE, RC, as_svg, blank_figure
from audit.report.drawing import INK
from audit.report.remembered import drawn_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "fill": True, "line": "-"},
    {"color": "#D55E00", "marker": "s", "fill": False, "line": "--"},
    {"color": "#6b7785", "marker": "D", "fill": True, "line": ":"},
    {"color": "#009E73", "marker": "^", "fill": False, "line": "-."},
    {"color": "#CC79A7", "marker": "v", "fill": True, "line": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#8a6d00", "marker": "P", "fill": False, "line": (0, (1, 1))},
)
"""One for each series: hue, marker, filled or open, and the line's dashes."""
BARS = (("#0072B2", "#0072B2"), ("#e3e7eb", "#6b7785"), ("#f0c9a8", "#D55E00"), ("#b7e0d2", "#009E73"))
"""Fill and edge of each kind of bar: the first is dark, the others are light (hatching is slow to draw in a PDF)."""
BARS_HEIGHT, LINES_HEIGHT = 2.2, 2.5
"""Inches: a figure of bars, and a row of panels with lines, where nothing else is asked for (chosen here)."""
LEGEND = 92
"""Letters that go into one line of a legend; more take two lines (chosen here: what fits with six signs)."""


@dataclass(frozen=True)
class Point:
    """A value with its interval, as a fraction."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """One kind of marker: its label, and a point for each row of the panel (None where nothing was measured)."""

    label: str
    points: tuple[Point | None, ...]


@dataclass(frozen=True)
class Panel:
    """One diagram of a figure, with its own axis."""

    title: str
    series: tuple[Series, ...]


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


@drawn_once
def by_category(name: str, rows: Sequence[str], panels: Sequence[Panel]) -> str:
    """Dots with intervals, one row a category, panels side by side; values are fractions, shown as percent.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        rows: labels, top to bottom.
        panels: each series has one point for each row.
    """
    import matplotlib as mpl

    with mpl.rc_context(RC):
        figure = blank_figure(0.75 + 0.36 * len(rows))
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            _draw_rows(axis, rows, panel)
        axes[0].set_yticks(range(len(rows)), rows)
        axes[0].set_ylim(len(rows) - 0.5, -0.5)
        _legend(figure, axes[0])
        return as_svg(figure, name, alternatives.of_rows(rows, panels))


def _draw_rows(axis: Axes, rows: Sequence[str], panel: Panel) -> None:
    step = 0.52 / max(1, len(panel.series) - 1)
    for index, (series, style) in enumerate(zip(panel.series, STYLES, strict=False)):
        shown = [(row, point) for row, point in enumerate(series.points) if point is not None]
        values = [100 * point.value for _, point in shown]
        below = [100 * max(0.0, point.value - point.low) for _, point in shown]
        over = [100 * max(0.0, point.high - point.value) for _, point in shown]
        axis.errorbar(
            values,
            [row - 0.26 + step * index for row, _ in shown],
            xerr=[below, over],
            linestyle="none",
            marker=style["marker"],
            markersize=4.2,
            color=style["color"],
            markerfacecolor=style["color"] if style["fill"] else "white",
            elinewidth=1.1,
            capsize=2,
            label=series.label,
        )
    for row in range(1, len(rows)):
        axis.axhline(row - 0.5, color=FAINT, linewidth=0.5)
    axis.set_xlim(-2, 102)
    axis.set_xlabel("per cent")
    axis.set_title(panel.title, loc="left", fontsize="medium", fontweight="bold")
    axis.grid(axis="x", color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)


@drawn_once
def distribution(name: str, histogram: Histogram, labels: Mapping[str, str], height: float = BARS_HEIGHT) -> str:
    """Bars of a distribution: a panel for the part of a series' name before ", ", a kind of bar for the rest.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        histogram: counts of units; each series is drawn as shares of its own total, which the title states.
        labels: of the parts of the series' names.
        height: of the figure, in inches.
    """
    import matplotlib as mpl

    split = {key: tuple(key.split(", ", 1)) if ", " in key else ("", key) for key in histogram.counts}
    titles = list(dict.fromkeys(panel for panel, _ in split.values()))
    kinds = list(dict.fromkeys(kind for _, kind in split.values()))
    with mpl.rc_context(RC):
        figure = blank_figure(height)
        axes = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for axis, title in zip(axes, titles, strict=True):
            drawn = {split[key][1]: counts for key, counts in histogram.counts.items() if split[key][0] == title}
            totals = list(dict.fromkeys(f"{sum(counts):,}" for counts in drawn.values()))
            _draw_bars(axis, histogram.edges, drawn, kinds, labels)
            axis.set_title(
                f"{labels.get(title, title)} (n = {' / '.join(totals)})",
                loc="left",
                fontsize="medium",
                fontweight="bold",
            )
            axis.set_xlabel(histogram.quantity)
        axes[0].set_ylabel("per cent")
        _legend(figure, axes[0])
        return as_svg(figure, name, alternatives.of_bars(histogram, labels))


def _draw_bars(
    axis: Axes,
    edges: Sequence[float],
    drawn: dict[str, tuple[int, ...]],
    kinds: Sequence[str],
    labels: Mapping[str, str],
) -> None:
    for kind, counts in drawn.items():
        index = kinds.index(kind)
        fill, edge = BARS[index % len(BARS)]
        total = sum(counts) or 1
        widths = [(right - left) * 0.86 / len(kinds) for left, right in pairwise(edges)]
        starts = [left + (right - left) * 0.07 for left, right in pairwise(edges)]
        axis.bar(
            [start + width * index for start, width in zip(starts, widths, strict=True)],
            [100 * count / total for count in counts],
            widths,
            align="edge",
            color=fill,
            edgecolor=edge,
            linewidth=0.7,
            label=labels.get(kind, kind),
        )
    axis.grid(axis="y", color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)


@drawn_once
def lines(name: str, panels: Sequence[LinePanel], height: float = LINES_HEIGHT, size: float = FONT_SIZE) -> str:
    """Lines with a light band for their pointwise intervals, two panels in a row.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        panels: all with the same axis; a label has the same look in all of them, by the order in which they appear.
        height: of one row of panels, in inches.
        size: of all text, in points.
    """
    import matplotlib as mpl

    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines if len(panel.lines) > 1))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context({**RC, "font.size": size}):
        figure = blank_figure(0.3 + height * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for index, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            _draw_lines(axis, panel, labels)
            if all(float(x).is_integer() for line in panel.lines for x in line.positions):
                axis.xaxis.get_major_locator().set_params(integer=True)
            # One axis for all: it is named under the last panel of each column.
            axis.set_xlabel(panel.axis if index + columns >= len(panels) else "")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        _legend(figure, *axes[: len(panels)])
        return as_svg(figure, name, alternatives.of_lines(panels))


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
            marker=style["marker"],
            markersize=3.2,
            color=style["color"],
            markerfacecolor=style["color"] if style["fill"] else "white",
            label=line.label if line.label in labels else None,
        )
    _line_axes(axis, panel, scale)


def _line_axes(axis: Axes, panel: LinePanel, scale: float) -> None:
    """The range of what was measured with 0 in it; what means "no difference", and the limit, as lines across."""
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
        axis.annotate(
            "limit",
            (1, scale * panel.limit),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="right",
        )
    axis.set_title(panel.title, loc="left", fontsize="medium", fontweight="bold")
    axis.set_ylabel(panel.quantity)
    axis.grid(color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)


def _legend(figure: Figure, *axes: Axes) -> None:
    """One entry for each label of these axes, above all panels; none where nothing is labelled."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=len(entries) if sum(map(len, entries)) <= LEGEND else -(-len(entries) // 2),
        frameon=False,
        handletextpad=0.5,
        columnspacing=1.6,
    )
