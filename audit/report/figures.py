"""Draw figures as SVG: colour-blind-safe, and readable in grey by shape and lightness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from markupsafe import Markup

from audit.attacks.figure_text import CurveFigure, CurvePanel, Form, HistogramFigure
from audit.attacks.figure_text import Figure as FigureSpec
from audit.files import table_beside
from audit.measurements import Curve, Estimate, Histogram, Unresolved
from audit.record import Result
from audit.report.templates import environment

WIDTH = 6.9
"""Inches: the width of an A4 page between its margins."""
STYLE: dict[str, Any] = table_beside(__file__, "figures.toml")
"""Letters, distances in points, and the look of each series of lines and kind of bars; `figure.svg`
draws with it."""
FONT_SIZE: float = STYLE["size"]
"""Size of all letters in points: nothing in a report is smaller."""
ABOVE, BELOW, LINE, ROW, PAD = (
    float(STYLE[name]) for name in ("above", "below", "line", "row", "pad")
)
LEGEND = 92
"""Letters that go into one line of a legend; more take two lines (chosen here: what fits with six
signs)."""
Signs = dict[str, list[tuple[float, float, str, str]]]
"""By label, how far right and up of a baseline each part of its sign begins, its path from there,
and its look."""
Shape = tuple[str, str]
"""An SVG path and its look."""
Span = tuple[float, float]
At = Callable[[float, float], str]
"""Writes the place on the page of a point of a diagram."""
Marks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Frame:
    """A diagram to be drawn.

    Attributes:
        x, y: the least and the largest value that are shown.
        draw: makes its content.
        whole: mark integers alone on the axis across.
        upright: draw lines at the marks across too.
        named: write its values and its quantity beside it.
    """

    title: str
    axis: str
    quantity: str
    x: Span
    y: Span
    draw: Callable[[At], list[Shape]]
    whole: bool = False
    upright: bool = False
    named: bool = True
    limit: float | None = None


def marks(low: float, high: float, most: int, whole: bool = False) -> Marks:
    """Return round values between two others with their words: as many as there is room for, two where they can be."""
    raw = (high - low) / max(1, min(9, most))
    scale = 10.0 ** math.floor(math.log10(raw))
    steps = [scale * step for step in (10, 5, 2.5, 2, 1, 0.5, 0.25, 0.2, 0.1)]
    steps = [step for step in steps if not whole or step % 1 == 0] or [1.0]
    enough = min((step for step in steps if step >= raw * (1 - 1e-9)), default=steps[0])
    found: list[float] = []
    for step in (step for step in steps if step <= enough and len(found) < 2):
        found = [
            one * step
            for one in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        ]
    digits = next(
        n for n in range(20) if all(abs(one - round(one, n)) < 1e-3 * scale for one in found)
    )
    return [(one, f"{round(one, digits) + 0.0:.{digits}f}".replace("-", "\u2212")) for one in found]


def _wide(text: str) -> float:
    return (
        sum(STYLE["widths"][ord(one) - 32] if ord(one) < 127 else 1139 for one in text)
        * FONT_SIZE
        / 2048
    )


def as_svg(
    frames: Sequence[Frame], name: str, height: float, legend: Signs, told: str, columns: int
) -> str:
    """Draw diagrams of one size in rows, below a legend.

    Args:
        frames: the diagrams.
        name: unique in the report; prefixes every id of the SVG.
        height: of the figure, in inches.
        legend: the sign of each label.
        told: the alternative text.
        columns: of diagrams.
    """
    lines = 1 if sum(map(len, legend)) <= LEGEND else 2
    entries, x = [], 8.1
    for start in range(0, len(legend), lines):
        labels = [*legend][start : start + lines]
        entries += [
            (x, 8.1 + ABOVE + line * ROW, label, legend[label]) for line, label in enumerate(labels)
        ]
        x += 36.9 + max(map(_wide, labels))
    top = 7.2 + ABOVE + BELOW + ROW * (min(lines, len(legend)) - 1) + 2 * PAD if legend else 0.0
    rows = [frames[start : start + columns] for start in range(0, len(frames), columns)]
    titles = [
        max(one.title.count("\n") * LINE + 0.67 * ("\n" in one.title) for one in row)
        for row in rows
    ]
    tops = [PAD + ABOVE + 6 + title for title in titles]
    bottoms = [
        PAD + 3.5 + ABOVE + BELOW + (4 + ABOVE + BELOW) * any(one.axis for one in row)
        for row in rows
    ]
    tall = (72 * height - top - sum(tops) - sum(bottoms)) / len(rows)
    up = [marks(*one.y, int(tall / (2 * FONT_SIZE))) for one in frames]
    besides = [_beside(one, values) for one, values in zip(frames, up, strict=True)]
    lefts = [PAD + max(besides[column::columns]) for column in range(columns)]
    wide = (72 * WIDTH - sum(lefts) - PAD * columns) / columns
    diagrams = []
    for number, one in enumerate(frames):
        row, column = divmod(number, columns)
        left = sum(lefts[: column + 1]) + column * (wide + PAD)
        begin = top + sum(tops[: row + 1]) + sum(bottoms[:row]) + row * tall
        found = _placed(one, left, begin, left + wide, begin + tall, up[number])
        diagrams.append(found | {"beside": left - besides[number]})
    shown = {
        "diagrams": diagrams,
        "legend": entries,
        "width": 72 * WIDTH,
        "height": 72 * height,
        "style": STYLE,
    }
    return environment().get_template("figure.svg").render(shown, name=name, told=told)


def _beside(frame: Frame, values: Marks) -> float:
    words = 3.5 + max((_wide(value) for _, value in values), default=0.0)
    return words + (4 + ABOVE + BELOW) * bool(frame.quantity) if frame.named else 0.0


def _placed(
    frame: Frame, left: float, top: float, right: float, bottom: float, values: Marks
) -> dict[str, Any]:
    """Return what the template draws of a diagram, in points of the page."""

    def across(x: float) -> float:
        return left + (x - frame.x[0]) / (frame.x[1] - frame.x[0]) * (right - left)

    def up(y: float) -> float:
        return bottom - (y - frame.y[0]) / (frame.y[1] - frame.y[0]) * (bottom - top)

    return {
        **{"frame": frame, "left": left, "top": top, "right": right, "bottom": bottom},
        "across": [
            (across(x), word) for x, word in marks(*frame.x, int((right - left) / 27), frame.whole)
        ],
        "up": [(up(y), word) for y, word in values],
        "shapes": frame.draw(lambda x, y: f"{across(x):.2f} {up(y):.2f}"),
        "limit": None if frame.limit is None else up(frame.limit),
    }


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
        return cls(item.value, item.low, item.high) if isinstance(item, Estimate) else None


@dataclass(frozen=True)
class FigureLine:
    """One line: its label, and for each position on the axis a point (None where nothing was measured: a gap)."""

    label: str
    positions: tuple[float, ...]
    points: tuple[Point | None, ...]


@dataclass(frozen=True)
class LinePanel:
    """One diagram of lines.

    Shares and differences of shares are shown as percent; a `limit` is drawn across.

    Where `diagonal` is set, a thin line is drawn where axis and quantity are equal.
    """

    title: str
    axis: str
    quantity: str
    lines: tuple[FigureLine, ...]
    form: Form = "number"
    limit: float | None = None
    diagonal: bool = False


def distribution(
    name: str, histogram: Histogram, labels: Mapping[str, str], height: float | None = None
) -> str:
    """Draw a distribution: a panel for the part of a series' name before ", ", a kind of bar for the rest.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        histogram: counts of units; each series is drawn as shares of its own total, which the title
            states.
        labels: of the parts of the series' names.
        height: of the figure, in inches.
    """
    split = {
        key: tuple(key.split(", ", 1)) if ", " in key else ("", key) for key in histogram.counts
    }
    totals: dict[str, dict[str, None]] = {}
    for key, (panel, _) in split.items():
        totals.setdefault(panel, {})[f"{sum(histogram.counts[key]):,}"] = None
    titles = {
        panel: f"{labels.get(panel, panel)} (n = {' / '.join(counts)})"
        for panel, counts in totals.items()
    }
    kinds = list(dict.fromkeys(kind for _, kind in split.values()))
    shares = {
        key: [100 * count / (sum(own) or 1) for count in own]
        for key, own in histogram.counts.items()
    }
    top = 1.05 * max(0.0, *(share for own in shares.values() for share in own)) or 1.0
    whole = all(edge % 1 == 0.5 for edge in histogram.edges)
    frames: list[Frame] = []
    legend: Signs = {}
    for panel, title in titles.items():
        bars = {
            kinds.index(split[key][1]): own for key, own in shares.items() if split[key][0] == panel
        }
        signs = [
            (labels.get(kinds[one], kinds[one]), STYLE["bars"][one % len(STYLE["bars"])])
            for one in bars
        ]
        legend = legend or {label: [(0.0, 0.0, "h18v-6.3h-18z", look)] for label, look in signs}
        sides = [
            side
            for kind in bars
            for ends in _bar_ends(histogram.edges, kind, len(kinds))
            for side in ends
        ]
        draw = partial(_draw_bars, histogram.edges, bars, len(kinds))
        x, y = _widened(min(sides), max(sides)), (0.0, top)
        frames.append(
            Frame(title, histogram.quantity, "per cent", x, y, draw, whole, named=not frames)
        )
    parts = [*titles.values(), *(labels.get(kind, kind) for kind in kinds)]
    told = f"Bars of a distribution of {histogram.quantity}: {'; '.join(parts)}."
    return as_svg(frames, name, height or BARS_HEIGHT, legend, told, len(frames))


def _widened(low: float, high: float) -> tuple[float, float]:
    """Leave air beside the values of an axis; a single value gets some too."""
    air = 0.05 * (high - low) if high > low else 0.055 * (abs(low) or 1)
    return low - air, high + air


def _bar_ends(edges: Sequence[float], kind: int, n_kinds: int) -> list[tuple[float, float]]:
    """Return where the bars of one kind begin and end: all kinds stand beside each other between two edges."""
    starts = [
        (left + (right - left) * 0.07, (right - left) * 0.86 / n_kinds)
        for left, right in pairwise(edges)
    ]
    return [(start + width * kind, start + width * (kind + 1)) for start, width in starts]


def _draw_bars(
    edges: Sequence[float], bars: Mapping[int, Sequence[float]], n_kinds: int, at: At
) -> list[Shape]:
    def path(kind: int, heights: Sequence[float]) -> str:
        pairs = zip(_bar_ends(edges, kind, n_kinds), heights, strict=True)
        return "".join(
            f"M{at(x, 0)}L{at(end, 0)}L{at(end, y)}L{at(x, y)}z" for (x, end), y in pairs
        )

    return [
        (path(kind, heights), STYLE["bars"][kind % len(STYLE["bars"])])
        for kind, heights in bars.items()
    ]


def lines(name: str, panels: Sequence[LinePanel], height: float | None = None) -> str:
    """Draw lines with a light band for their pointwise intervals, two panels in a row.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        panels: all with the same axis; a label has the same look in all of them, by the order in
            which they appear.
        height: of one row of panels, in inches.
    """
    labels = list(
        dict.fromkeys(
            line.label for panel in panels for line in panel.lines if len(panel.lines) > 1
        )
    )
    columns = min(2, len(panels))
    frames: list[Frame] = []
    legend: Signs = {}
    for index, panel in enumerate(panels):
        across = [x for line in panel.lines for x in line.positions]
        looks = {
            line.label: STYLE["lines"][
                labels.index(line.label) % len(STYLE["lines"]) if line.label in labels else 0
            ]
            for line in panel.lines
        }
        for label in (line.label for line in panel.lines if line.points and line.label in labels):
            parts = looks[label]
            legend[label] = [
                (0.0, 3.15, "h18", parts["line"]),
                (9.0, 3.15, parts["sign"], parts["mark"]),
            ]
        x = (-2.0, 102.0) if panel.diagonal else _widened(min(across), max(across))
        scale = 100.0 if panel.form in ("share", "points") else 1.0
        y = _range_of(panel, scale)
        draw = partial(_draw_lines, panel, looks, scale, x, y)
        # One axis for all: it is named under the last panel of each column.
        axis = panel.axis if index + columns >= len(panels) else ""
        limit = None if panel.limit is None else scale * panel.limit
        whole = all(float(one).is_integer() for one in across)
        frames.append(
            Frame(panel.title, axis, panel.quantity, x, y, draw, whole, upright=True, limit=limit)
        )
    told = "; ".join(filter(None, (*labels, *(" ".join(panel.title.split()) for panel in panels))))
    told = f"Lines with bands for their intervals, across: {panels[0].axis}. {told}."
    rows = -(-len(panels) // columns)
    return as_svg(frames, name, 0.3 + (height or LINES_HEIGHT) * rows, legend, told, columns)


def _draw_lines(
    panel: LinePanel, looks: Mapping[str, Mapping[str, str]], scale: float, x: Span, y: Span, at: At
) -> list[Shape]:
    """Draw bands, then lines with their signs, then "no difference" and the diagonal."""
    bands, drawn = [], []
    for line in panel.lines:
        look, path, signs = looks[line.label], "", ""
        for gap, run in groupby(
            zip(line.positions, line.points, strict=True), lambda pair: pair[1] is None
        ):
            pairs = [(place, point) for place, point in run if point is not None]
            low, value, high = (
                [at(place, scale * getattr(point, name)) for place, point in pairs]
                for name in ("low", "value", "high")
            )
            path += "" if gap else f"M{'L'.join(value)}"
            signs += "".join(f"M{one}{look['sign']}" for one in value)
            bands.append(("" if gap else f"M{'L'.join([*low, *high[::-1]])}z", look["band"]))
        drawn += [(path, look["line"]), (signs, look["mark"])]
    level = {"ratio": 1.0, "points": 0.0}.get(panel.form)
    if level is not None:
        drawn.append((f"M{at(x[0], level)}L{at(x[1], level)}", STYLE["level"]))
    if panel.diagonal:
        start, end = max(x[0], y[0]), min(x[1], y[1])
        drawn.append((f"M{at(start, start)}L{at(end, end)}", STYLE["level"]))
    return [*bands, *drawn]


def _range_of(panel: LinePanel, scale: float) -> tuple[float, float]:
    """Return the range of what was measured with 0 in it, and of the limit."""
    points = [point for line in panel.lines for point in line.points if point is not None]
    bottom = scale * min(0.0, panel.limit or 0.0, *(point.low for point in points))
    top = scale * max(0.0, panel.limit or 0.0, *(point.high for point in points))
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
    named |= {
        panel.curve for spec in specs if isinstance(spec, CurveFigure) for panel in spec.panels
    }
    bars = (HistogramFigure(histogram=one.name, caption=one.quantity) for one in result.histograms)
    curves = (
        CurveFigure(panels=(CurvePanel(curve=one.name),), caption=one.quantity)
        for one in result.curves
    )
    return [
        *(spec for spec in bars if spec.histogram not in named),
        *(spec for spec in curves if spec.panels[0].curve not in named),
    ]


def _figure(spec: FigureSpec, result: Result, name: str) -> str:
    """Draw one figure as HTML; empty when the record has nothing for it."""
    match spec:
        case HistogramFigure():
            histogram = next(
                (item for item in result.histograms if item.name == spec.histogram), None
            )
            if histogram is None or _fullest_bar(histogram) > MOST_IN_A_BAR:
                return ""
            return distribution(name, histogram, spec.labels, spec.height)
        case CurveFigure():
            curves = {curve.name: curve for curve in result.curves if any(curve.series.values())}
            panels = [
                _curve_panel(curves[one.curve], one, spec.series)
                for one in spec.panels
                if one.curve in curves
            ]
            return "" if all(map(_is_right_angle, panels)) else lines(name, panels, spec.height)


def _fullest_bar(histogram: Histogram) -> float:
    """Return the share of all units that lie in one bar.

    1 where there are none, for then nothing is to be seen.
    """
    bars = [sum(bar) for bar in zip(*histogram.counts.values(), strict=True)]
    return max(bars) / sum(bars) if sum(bars) and len(bars) > 1 else 1.0


def _is_right_angle(panel: LinePanel) -> bool:
    """Test whether a curve over a diagonal is at its top from the first step on: the number alone says as much."""
    placed = [
        pair for line in panel.lines for pair in zip(line.positions, line.points, strict=True)
    ]
    return panel.diagonal and all(
        point.value >= TOP for x, point in placed if x > 0 and point is not None
    )


def _curve_panel(curve: Curve, spec: CurvePanel, labels: Mapping[str, str]) -> LinePanel:
    """Make a panel of a curve.

    Its series in the specified order, so that each has the same look in every panel.
    """
    lines = [
        FigureLine(
            labels.get(series, series),
            tuple(spec.x_scale * point.x for point in curve.series.get(series, ())),
            tuple(
                Point(point.value, point.low, point.high) for point in curve.series.get(series, ())
            ),
        )
        for series in dict.fromkeys([*labels, *curve.series])
    ]
    axis = curve.axis if spec.axis is None else spec.axis
    quantity = curve.quantity if spec.quantity is None else spec.quantity
    return LinePanel(spec.title, axis, quantity, tuple(lines), spec.form, diagonal=spec.diagonal)
