"""Draw the numbers of a record as figures.

They are colour-blind-safe, and readable in grey by shape and lightness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from markupsafe import Markup

from audit.attacks.figure_text import CurveFigure, CurvePanel, Form, HistogramFigure
from audit.attacks.figure_text import Figure as FigureSpec
from audit.measurements import Breakdown, Curve, Estimate, Histogram, Unresolved
from audit.record import Result
from audit.report import svg
from audit.report.svg import STYLE, At, Frame, Shape, Signs, Span

BARS_HEIGHT = 2.2
"""Inches: the height of a figure of bars, where no other is asked for."""
LINES_HEIGHT = 2.5
"""Inches: the height of a row of panels with lines, where no other is asked for."""
PERCENT_FORMS = ("share", "points")
"""Forms of numbers that are drawn as percent."""
RETURNED = "returned"
"""The histogram of documents by how many of their values came back."""
NO_DIFFERENCE = {"ratio": 1.0, "points": 0.0}
"""By form, the value at which nothing differs: a line is drawn there."""


@dataclass(frozen=True)
class Point:
    """A value with its interval, as a fraction."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, item: Estimate | Unresolved | None) -> Point | None:
        """Return a measurement for drawing; None where it is no estimate."""
        return cls(item.value, item.low, item.high) if isinstance(item, Estimate) else None


@dataclass(frozen=True)
class FigureLine:
    """One line: its label, and a point for each position on the axis.

    A point is None where nothing was measured: a gap.
    """

    label: str
    positions: tuple[float, ...]
    points: tuple[Point | None, ...]

    def runs(self) -> Iterator[list[tuple[float, Point]]]:
        """Yield the points between two gaps, each with its position."""
        run: list[tuple[float, Point]] = []
        for position, point in zip(self.positions, self.points, strict=True):
            if point is not None:
                run.append((position, point))
            elif run:
                yield run
                run = []
        if run:
            yield run


@dataclass(frozen=True)
class LinePanel:
    """One diagram of lines.

    Shares and differences of shares are shown as percent; a `limit` is drawn across.

    Where `diagonal` is set, a thin line is drawn where axis and quantity are equal, and a dashed
    one `beyond` it.
    """

    title: str
    axis: str
    quantity: str
    lines: tuple[FigureLine, ...]
    form: Form = "number"
    limit: float | None = None
    diagonal: bool = False
    beyond: float | None = None

    @property
    def scale(self) -> float:
        """Return the factor that the panel's numbers are multiplied by."""
        return 100.0 if self.form in PERCENT_FORMS else 1.0


class SeriesName(NamedTuple):
    """The parts of the name of a histogram's series: its panel, and its kind of bars."""

    panel: str
    kind: str

    @classmethod
    def of(cls, name: str) -> SeriesName:
        """Split a series name into panel and kind at ", "; without it the panel has no name."""
        panel, separator, kind = name.partition(", ")
        return cls(panel, kind) if separator else cls("", name)


def distribution(
    name: str, histogram: Histogram, labels: Mapping[str, str], height: float | None = None
) -> str:
    """Draw a distribution as bars.

    The part of a series' name before ", " names its panel, what is behind it its kind of bars.

    Args:
        name: prefix of every id of the SVG; unique in the report.
        histogram: counts of units; each series is drawn as shares of its own total, which the title
            states.
        labels: labels of the parts of the series' names.
        height: height of the figure, in inches.
    """
    names = {key: SeriesName.of(key) for key in histogram.counts}
    kinds = _kinds_of(names.values())
    titles = _panel_titles(histogram, names, labels)
    shares = {key: _percentages(counts) for key, counts in histogram.counts.items()}
    top = 1.05 * max(0.0, *chain.from_iterable(shares.values())) or 1.0
    frames: list[Frame] = []
    legend: Signs = {}
    for panel, title in titles.items():
        bars = {
            kinds.index(names[key].kind): heights
            for key, heights in shares.items()
            if names[key].panel == panel
        }
        if not frames:
            legend = _bars_legend(bars, kinds, labels)
        # All panels have the same axis: its values stand beside the first.
        frames.append(_bars_frame(title, histogram, bars, len(kinds), top, named=not frames))
    kind_labels = [labels.get(kind, kind) for kind in kinds]
    described = [*titles.values(), *kind_labels]
    text = f"Bars of a distribution of {histogram.quantity}: {'; '.join(described)}."
    return svg.as_svg(frames, name, height or BARS_HEIGHT, legend, text, len(frames))


def _kinds_of(names: Iterable[SeriesName]) -> list[str]:
    """List the kinds of bars, each once."""
    return list(dict.fromkeys(name.kind for name in names))


def _panel_titles(
    histogram: Histogram, names: Mapping[str, SeriesName], labels: Mapping[str, str]
) -> dict[str, str]:
    """Return the title of each panel: its label, and how many units its series count."""
    totals: dict[str, list[str]] = {}
    for key, series in names.items():
        total = f"{sum(histogram.counts[key]):,}"
        panel_totals = totals.setdefault(series.panel, [])
        if total not in panel_totals:
            panel_totals.append(total)
    return {
        panel: f"{labels.get(panel, panel)} (n = {' / '.join(panel_totals)})"
        for panel, panel_totals in totals.items()
    }


def _percentages(counts: Sequence[int]) -> list[float]:
    """Return counts as percent of their sum."""
    total = sum(counts) or 1
    return [100 * count / total for count in counts]


def _bars_legend(bars: Iterable[int], kinds: Sequence[str], labels: Mapping[str, str]) -> Signs:
    """Return a small bar as the sign of each kind of bars, given by its number."""
    legend: Signs = {}
    for kind in bars:
        label = labels.get(kinds[kind], kinds[kind])
        legend[label] = [(0.0, 0.0, "h18v-6.3h-18z", _bar_look(kind))]
    return legend


def _bar_look(kind: int) -> str:
    """Return the look of the bars of a kind, given by its number; the looks repeat."""
    looks: list[str] = STYLE["bars"]
    return looks[kind % len(looks)]


def _bars_frame(
    title: str,
    histogram: Histogram,
    bars: Mapping[int, Sequence[float]],
    n_kinds: int,
    top: float,
    named: bool,
) -> Frame:
    """Make the diagram of one panel of a distribution.

    Args:
        title: its title.
        histogram: the distribution.
        bars: by number of their kind, the heights of the bars.
        n_kinds: number of kinds in all panels.
        top: the largest value that is shown.
        named: whether the values of its upright axis are written.
    """
    ends: list[BarEnds] = []
    for kind in bars:
        ends += _bar_ends(histogram.edges, kind, n_kinds)
    return Frame(
        title,
        histogram.quantity,
        "per cent",
        x=_widened(min(end.left for end in ends), max(end.right for end in ends)),
        y=(0.0, top),
        draw=partial(_draw_bars, histogram.edges, bars, n_kinds),
        integers=all(edge % 1 == 0.5 for edge in histogram.edges),
        named=named,
    )


def _widened(low: float, high: float) -> Span:
    """Return the range of an axis with a margin on both ends; a single value gets one too."""
    air = 0.05 * (high - low) if high > low else 0.055 * (abs(low) or 1)
    return low - air, high + air


class BarEnds(NamedTuple):
    """Where a bar begins and ends on the axis."""

    left: float
    right: float


def _bar_ends(edges: Sequence[float], kind: int, n_kinds: int) -> list[BarEnds]:
    """Return where the bars of one kind begin and end.

    All kinds stand beside each other between two edges.
    """
    ends: list[BarEnds] = []
    for left, right in pairwise(edges):
        start = left + (right - left) * 0.07
        width = (right - left) * 0.86 / n_kinds
        ends.append(BarEnds(start + width * kind, start + width * (kind + 1)))
    return ends


def _draw_bars(
    edges: Sequence[float], bars: Mapping[int, Sequence[float]], n_kinds: int, at: At
) -> list[Shape]:
    """Draw the bars of each kind as one path."""
    shapes: list[Shape] = []
    for kind, heights in bars.items():
        path = ""
        for (x, end), y in zip(_bar_ends(edges, kind, n_kinds), heights, strict=True):
            path += f"M{at(x, 0)}L{at(end, 0)}L{at(end, y)}L{at(x, y)}z"
        shapes.append((path, _bar_look(kind)))
    return shapes


def lines(name: str, panels: Sequence[LinePanel], height: float | None = None) -> str:
    """Draw lines with a light band for their pointwise intervals, two panels in a row.

    Args:
        name: prefix of every id of the SVG; unique in the report.
        panels: panels with the same axis; a label has the same look in all of them, by the order in
            which they appear.
        height: height of one row of panels, in inches.
    """
    labels = _compared_labels(panels)
    columns = min(2, len(panels))
    frames: list[Frame] = []
    legend: Signs = {}
    for index, panel in enumerate(panels):
        looks = {line.label: _line_look(line.label, labels) for line in panel.lines}
        for line in panel.lines:
            if line.points and line.label in labels:
                legend[line.label] = _line_sign(looks[line.label])
        # One axis for all: it is named under the last panel of each column.
        axis = panel.axis if index + columns >= len(panels) else ""
        frames.append(_lines_frame(panel, looks, axis))
    titles = [" ".join(panel.title.split()) for panel in panels]
    described = "; ".join(filter(None, [*labels, *titles]))
    text = f"Lines with bands for their intervals, across: {panels[0].axis}. {described}."
    rows = -(-len(panels) // columns)
    return svg.as_svg(frames, name, 0.3 + (height or LINES_HEIGHT) * rows, legend, text, columns)


def _compared_labels(panels: Sequence[LinePanel]) -> list[str]:
    """List the labels of lines that stand in a panel with others, each once."""
    labels: dict[str, None] = {}
    for panel in panels:
        if len(panel.lines) > 1:
            labels.update(dict.fromkeys(line.label for line in panel.lines))
    return [*labels]


def _line_look(label: str, labels: Sequence[str]) -> Mapping[str, str]:
    """Return how the line of a label is drawn: a line that stands alone as the first."""
    looks: list[dict[str, str]] = STYLE["lines"]
    position = labels.index(label) if label in labels else 0
    return looks[position % len(looks)]


def _line_sign(look: Mapping[str, str]) -> list[tuple[float, float, str, str]]:
    """Return the legend's sign of a line: a piece of it, then its mark."""
    return [(0.0, 3.15, "h18", look["line"]), (9.0, 3.15, look["sign"], look["mark"])]


def _lines_frame(panel: LinePanel, looks: Mapping[str, Mapping[str, str]], axis: str) -> Frame:
    """Make the diagram of one panel; `axis` is empty where the axis is not named."""
    positions = list(chain.from_iterable(line.positions for line in panel.lines))
    x = (-2.0, 102.0) if panel.diagonal else _widened(min(positions), max(positions))
    y = _range_of(panel)
    return Frame(
        panel.title,
        axis,
        panel.quantity,
        x,
        y,
        draw=partial(_draw_lines, panel, looks, x, y),
        integers=all(float(position).is_integer() for position in positions),
        upright=True,
        limit=None if panel.limit is None else panel.scale * panel.limit,
    )


def _draw_lines(
    panel: LinePanel, looks: Mapping[str, Mapping[str, str]], x: Span, y: Span, at: At
) -> list[Shape]:
    """Draw bands, then lines with their signs, then "no difference" and the diagonal."""
    bands: list[Shape] = []
    strokes: list[Shape] = []
    for line in panel.lines:
        look = looks[line.label]
        path = ""
        signs = ""
        for run in line.runs():
            values = [at(x, panel.scale * point.value) for x, point in run]
            lows = [at(x, panel.scale * point.low) for x, point in run]
            highs = [at(x, panel.scale * point.high) for x, point in run]
            path += f"M{'L'.join(values)}"
            signs += "".join(f"M{place}{look['sign']}" for place in values)
            bands.append((f"M{'L'.join([*lows, *highs[::-1]])}z", look["band"]))
        strokes.append((path, look["line"]))
        strokes.append((signs, look["mark"]))
    return [*bands, *strokes, *_reference_lines(panel, x, y, at)]


def _reference_lines(panel: LinePanel, x: Span, y: Span, at: At) -> Iterator[Shape]:
    """Yield the line at "no difference" and the diagonal, where the panel has them."""
    level = NO_DIFFERENCE.get(panel.form)
    if level is not None:
        yield f"M{at(x[0], level)}L{at(x[1], level)}", STYLE["level"]
    if panel.diagonal:
        start = max(x[0], y[0])
        end = min(x[1], y[1])
        yield f"M{at(start, start)}L{at(end, end)}", STYLE["level"]
        if panel.beyond is not None:
            above = panel.scale * panel.beyond
            top = min(x[1], y[1] - above)
            yield f"M{at(start, start + above)}L{at(top, top + above)}", STYLE["beyond"]


def _range_of(panel: LinePanel) -> Span:
    """Return the range of a panel's measured numbers, with 0 and the limit in it."""
    points: list[Point] = []
    for line in panel.lines:
        points += filter(None, line.points)
    limit = panel.limit or 0.0
    bottom = panel.scale * min(0.0, limit, *(point.low for point in points))
    top = panel.scale * max(0.0, limit, *(point.high for point in points))
    air = 0.05 * ((top - bottom) or 1.0)
    return bottom - air if bottom < 0 else -0.4 * air, top + air


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, and a caption that says what it shows."""

    number: int
    svg: Markup
    caption: str
    spec: FigureSpec


MOST_IN_A_BAR = 0.9
"""Share of all units in one bar of a histogram above which it shows nothing that its number does
not."""
TOP = 0.95
"""Share of documents found from which a curve of false alarms looks like a right angle."""


def draw(
    specs: Sequence[FigureSpec],
    result: Result,
    drawn: int,
    limits: Mapping[str, float] = {},
) -> tuple[DrawnFigure, ...]:
    """Draw the figures that the record can fill, numbered from `drawn` + 1.

    Args:
        specs: specifications of the attack's report.
        result: the numbers.
        drawn: how many figures the report already has.
        limits: the policy's limits on metrics of the attack, for panels that show one.
    """
    made: list[DrawnFigure] = []
    for spec in specs:
        number = drawn + len(made) + 1
        drawing = _figure(spec, result, f"figure{number}", limits)
        if drawing:
            made.append(DrawnFigure(number, Markup(drawing), spec.caption, spec))
    return tuple(made)


def of_method(result: Result, method: str, documents: Breakdown | None = None) -> Result:
    """Return a result whose histograms and curves are those of one method, under bare names.

    Args:
        result: the numbers; a drawing of a method is named BARE.METHOD.
        method: the end of that name, with its dot; empty: those with bare names.
        documents: documents by how many of their values came back, by the same method.
    """
    histograms = {item.name: item for item in result.histograms}
    curves = {item.name: item for item in result.curves}
    chosen_bars = [
        replace(histograms.get(f"{name}{method}", item), name=name)
        for name, item in histograms.items()
        if _is_bare(name, histograms)
    ]
    if documents is not None:
        chosen_bars = [_by_hits(item, documents) for item in chosen_bars]
    chosen_curves = [
        replace(curves.get(f"{name}{method}", item), name=name)
        for name, item in curves.items()
        if _is_bare(name, curves)
    ]
    return replace(result, histograms=tuple(chosen_bars), curves=tuple(chosen_curves))


def _by_hits(histogram: Histogram, documents: Breakdown) -> Histogram:
    """Return the histogram of documents by their values, with the counts of one method."""
    if histogram.name != RETURNED or set(histogram.counts) != {"member", "held-out"}:
        return histogram
    edges = tuple(number - 0.5 for number in range(len(documents.groups) + 1))
    counts = {
        "member": tuple(round(group.member.hits) for group in documents.groups),
        "held-out": tuple(round(group.heldout.hits) for group in documents.groups),
    }
    return replace(histogram, edges=edges, counts=counts)


def _is_bare(name: str, names: Collection[str]) -> bool:
    """Tell whether a name is no other one with a method at its end."""
    bare, dot, _ = name.partition(".")
    return not dot or bare not in names


def unspecified(result: Result, specs: Sequence[FigureSpec]) -> list[FigureSpec]:
    """Return figures for the histograms and curves that no specification names."""
    specified: set[str] = set()
    for spec in specs:
        specified.update(_numbers_of(spec))
    bars = [
        HistogramFigure(histogram=histogram.name, caption=histogram.quantity)
        for histogram in result.histograms
        if histogram.name not in specified
    ]
    curves = [
        CurveFigure(panels=(CurvePanel(curve=curve.name),), caption=curve.quantity)
        for curve in result.curves
        if curve.name not in specified
    ]
    return [*bars, *curves]


def _numbers_of(spec: FigureSpec) -> list[str]:
    """List the histograms or curves that a specification draws, by name."""
    if isinstance(spec, HistogramFigure):
        return [spec.histogram]
    return [panel.curve for panel in spec.panels]


def _figure(spec: FigureSpec, result: Result, name: str, limits: Mapping[str, float]) -> str:
    """Draw the figure of a specification as SVG; empty when the record has nothing for it."""
    if isinstance(spec, HistogramFigure):
        return _histogram_figure(spec, result, name)
    return _curve_figure(spec, result, name, limits)


def _histogram_figure(spec: HistogramFigure, result: Result, name: str) -> str:
    """Draw a histogram; empty where the record lacks it, or nearly all lies in one bar."""
    for histogram in result.histograms:
        if histogram.name == spec.histogram:
            if _fullest_bar(histogram) > MOST_IN_A_BAR:
                return ""
            return distribution(name, histogram, spec.labels, spec.height)
    return ""


def _curve_figure(spec: CurveFigure, result: Result, name: str, limits: Mapping[str, float]) -> str:
    """Draw the curves that have points; empty where each looks like a right angle."""
    curves = {curve.name: curve for curve in result.curves if any(curve.series.values())}
    panels = [
        _curve_panel(curves[panel.curve], panel, spec.series, limits)
        for panel in spec.panels
        if panel.curve in curves
    ]
    if all(map(_is_right_angle, panels)):
        return ""
    return lines(name, panels, spec.height)


def _fullest_bar(histogram: Histogram) -> float:
    """Return the share of all units that lie in one bar.

    1 where there are none, for then nothing is to be seen.
    """
    bars = [sum(bar) for bar in zip(*histogram.counts.values(), strict=True)]
    return max(bars) / sum(bars) if sum(bars) and len(bars) > 1 else 1.0


def _is_right_angle(panel: LinePanel) -> bool:
    """Test whether a curve over a diagonal is at its top from the first step on.

    The number alone says as much.
    """
    if not panel.diagonal:
        return False
    for line in panel.lines:
        for x, point in zip(line.positions, line.points, strict=True):
            if x > 0 and point is not None and point.value < TOP:
                return False
    return True


def _curve_panel(
    curve: Curve, spec: CurvePanel, labels: Mapping[str, str], limits: Mapping[str, float]
) -> LinePanel:
    """Make a panel of a curve.

    Its series in the specified order, so that each has the same look in every panel.
    """
    lines: list[FigureLine] = []
    for series in dict.fromkeys([*labels, *curve.series]):
        points = curve.series.get(series, ())
        lines.append(
            FigureLine(
                labels.get(series, series),
                tuple(spec.x_scale * point.x for point in points),
                tuple(Point(point.value, point.low, point.high) for point in points),
            )
        )
    axis = curve.axis if spec.axis is None else spec.axis
    quantity = curve.quantity if spec.quantity is None else spec.quantity
    return LinePanel(
        spec.title,
        axis,
        quantity,
        tuple(lines),
        spec.form,
        diagonal=spec.diagonal,
        beyond=limits.get(spec.beyond),
    )
