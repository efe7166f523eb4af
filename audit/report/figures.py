"""Draw figures with matplotlib as SVG: colour-blind-safe, and readable in grey by shape and lightness."""

from __future__ import annotations

import io
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from audit.attacks.figure_text import CurveFigure, CurvePanel, Form, HistogramFigure
from audit.attacks.figure_text import Figure as FigureSpec
from audit.files import shipped_folder
from audit.measurements import Curve, Estimate, Histogram, Unresolved
from audit.record import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONTS = "docaudit Sans, Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif"
WIDTH = 6.9
"""Inches: the width of an A4 page between its margins."""
STYLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "figures.toml").read_text(encoding="utf-8"))
"""Settings of matplotlib, and the look of each series of lines and kind of bars."""
RC: dict[str, Any] = STYLE["rc"]
INK, FONT_SIZE = RC["text.color"], RC["font.size"]
"""Colour of text and size of all letters in points: nothing in a report is smaller."""
LEGEND = 92
"""Letters that go into one line of a legend; more take two lines (chosen here: what fits with six signs)."""


def add_legend(figure: Figure, *axes: Axes) -> None:
    """Add one entry for each label of these axes, above all panels; none where nothing is labelled."""
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


def blank_figure(height: float) -> Figure:
    """Make a figure outside pyplot's global state."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    _register_typeface()
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


@cache
def _register_typeface() -> None:
    """Let matplotlib measure text in the typeface that the reports are printed in."""
    from matplotlib.font_manager import fontManager

    for style in ("Regular", "Bold"):
        fontManager.addfont(shipped_folder("templates") / "fonts" / f"LiberationSans-{style}.ttf")


def as_svg(figure: Figure, name: str, alternative: str) -> str:
    """Return the SVG element with its alternative text, without prologue, ids prefixed for a page of figures."""
    stream = io.StringIO()
    figure.savefig(
        stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    text = stream.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|(?<=>)\s+(?=<)", "", text, flags=re.DOTALL)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"(?<=font-family: )'[^;\"]*", FONTS, text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(alternative)}"', 1)


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
    totals: dict[str, dict[str, None]] = {}
    for key, (panel, _) in split.items():
        totals.setdefault(panel, {})[f"{sum(histogram.counts[key]):,}"] = None
    titles = {panel: f"{labels.get(panel, panel)} (n = {' / '.join(counts)})" for panel, counts in totals.items()}
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
            if all(edge % 1 == 0.5 for edge in histogram.edges):
                axis.xaxis.get_major_locator().set_params(integer=True)
            axis.grid(axis="y")
        axes[0].set_ylabel("per cent")
        add_legend(figure, axes[0])
        parts = [*titles.values(), *(labels.get(kind, kind) for kind in kinds)]
        return as_svg(figure, name, f"Bars of a distribution of {histogram.quantity}: {'; '.join(parts)}.")


def _draw_bars(axis: Axes, histogram: Histogram, key: str, index: int, n_kinds: int, label: str) -> None:
    style = STYLE["bars"][index % len(STYLE["bars"])]
    counts = histogram.counts[key]
    widths = [(right - left) * 0.86 / n_kinds for left, right in pairwise(histogram.edges)]
    starts = [left + (right - left) * 0.07 for left, right in pairwise(histogram.edges)]
    axis.bar(
        [start + width * index for start, width in zip(starts, widths, strict=True)],
        [100 * count / (sum(counts) or 1) for count in counts],
        widths,
        align="edge",
        color=style["fill"],
        edgecolor=style["edge"],
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
        number = labels.index(line.label) if line.label in labels else 0
        style = STYLE["lines"][number % len(STYLE["lines"])]
        points = [point or gap for point in line.points]
        lows, highs = [scale * point.low for point in points], [scale * point.high for point in points]
        axis.fill_between(line.positions, lows, highs, color=style["color"], alpha=0.12, linewidth=0)
        axis.plot(
            line.positions,
            [scale * point.value for point in points],
            linestyle=style["line"] if isinstance(style["line"], str) else (0, style["line"]),
            linewidth=1.3,
            markersize=3.2,
            label=line.label if line.label in labels else None,
            marker=style["marker"],
            color=style["color"],
            markerfacecolor=style["color"] if style["fill"] else "white",
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
        axis.annotate("limit", (1, scale * panel.limit), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axis.set_title(panel.title)
    axis.set_ylabel(panel.quantity)
    axis.grid(visible=True)


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, and a caption that says what it shows."""

    number: int
    svg: Markup
    caption: str
    spec: FigureSpec


MOST_IN_A_BAR = 0.9
"""Share of all units in one bar of a histogram above which it shows nothing that its number does not."""
TOP = 0.95
"""Share of documents found from which a curve of false alarms looks like a right angle."""


def draw(specs: Sequence[FigureSpec], result: Result, drawn: int) -> tuple[DrawnFigure, ...]:
    """Draw the figures that the record can fill, numbered from `drawn` + 1.

    Args:
        specs: specifications of the attack's report.
        result: the numbers.
        drawn: how many figures the report already has.
    """
    made: list[DrawnFigure] = []
    for spec in specs:
        number = drawn + len(made) + 1
        svg = _figure(spec, result, f"figure{number}")
        if svg:
            made.append(DrawnFigure(number, Markup(svg), spec.caption, spec))
    return tuple(made)


def unspecified(result: Result, specs: Sequence[FigureSpec]) -> list[FigureSpec]:
    """Return figures for the histograms and curves that no specification names."""
    named = {spec.histogram for spec in specs if isinstance(spec, HistogramFigure)}
    named |= {panel.curve for spec in specs if isinstance(spec, CurveFigure) for panel in spec.panels}
    bars = (HistogramFigure(histogram=one.name, caption=one.quantity) for one in result.histograms)
    curves = (CurveFigure(panels=(CurvePanel(curve=one.name),), caption=one.quantity) for one in result.curves)
    return [
        *(spec for spec in bars if spec.histogram not in named),
        *(spec for spec in curves if spec.panels[0].curve not in named),
    ]


def _figure(spec: FigureSpec, result: Result, name: str) -> str:
    """Draw one figure as HTML; empty when the record has nothing for it."""
    match spec:
        case HistogramFigure():
            histogram = next((item for item in result.histograms if item.name == spec.histogram), None)
            if histogram is None or _fullest_bar(histogram) > MOST_IN_A_BAR:
                return ""
            return distribution(name, histogram, spec.labels, spec.height)
        case CurveFigure():
            curves = {curve.name: curve for curve in result.curves if any(curve.series.values())}
            panels = [_curve_panel(curves[one.curve], one, spec.series) for one in spec.panels if one.curve in curves]
            return "" if all(map(_is_right_angle, panels)) else lines(name, panels, spec.height)


def _fullest_bar(histogram: Histogram) -> float:
    """Return the share of all units that lie in one bar; 1 where there are none, for then nothing is to be seen."""
    bars = [sum(bar) for bar in zip(*histogram.counts.values(), strict=True)]
    return max(bars) / sum(bars) if sum(bars) and len(bars) > 1 else 1.0


def _is_right_angle(panel: LinePanel) -> bool:
    """Test whether a curve over a diagonal is at its top from the first step on: the number alone says as much."""
    placed = [pair for line in panel.lines for pair in zip(line.positions, line.points, strict=True)]
    return panel.diagonal and all(point.value >= TOP for x, point in placed if x > 0 and point is not None)


def _curve_panel(curve: Curve, spec: CurvePanel, labels: Mapping[str, str]) -> LinePanel:
    """Make a panel of a curve; its series in the specified order, so that each has the same look in every panel."""
    lines = [
        FigureLine(
            labels.get(series, series),
            tuple(spec.x_scale * point.x for point in curve.series.get(series, ())),
            tuple(Point(point.value, point.low, point.high) for point in curve.series.get(series, ())),
        )
        for series in dict.fromkeys([*labels, *curve.series])
    ]
    axis = curve.axis if spec.axis is None else spec.axis
    quantity = curve.quantity if spec.quantity is None else spec.quantity
    return LinePanel(spec.title, axis, quantity, tuple(lines), spec.form, diagonal=spec.diagonal)
