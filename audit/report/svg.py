"""Lay diagrams out in rows below a legend, and write them as SVG.

Axes, signs and letters are drawn by `templates/figure.svg`; the places are counted here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from audit.files import table_beside
from audit.report.templates import environment

WIDTH = 6.9
"""Inches: the width of an A4 page between its margins."""
STYLE: dict[str, Any] = table_beside(__file__, "figures.toml")
"""Letters, distances in points, and the look of each series of lines and kind of bars; `figure.svg`
draws with it."""
FONT_SIZE: float = STYLE["size"]
"""Size of all letters in points: nothing in a report is smaller."""
ABOVE = float(STYLE["above"])
"""Height of letters above their line."""
BELOW = float(STYLE["below"])
"""Depth of letters below their line."""
LINE = float(STYLE["line"])
"""Distance between the lines of a title."""
ROW = float(STYLE["row"])
"""Height of a row of the legend."""
PAD = float(STYLE["pad"])
"""Air around a diagram."""
LEGEND = 92
"""Letters that go into one line of a legend; more take two lines (chosen here: what fits with six
signs)."""
LEGEND_EDGE = 8.1
"""Points from the edge of the figure to the legend."""
BESIDE_SIGN = 36.9
"""Points that a column of the legend takes beside its widest label."""
GAP = 3.5
"""Points between an axis and its values."""
AXIS_NAME = 4 + ABOVE + BELOW
"""Points that the name of an axis takes."""
UNLISTED_LETTER = 1139
"""Width of a letter that the table of widths lacks, in 2048ths of its size."""
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
        integers: mark integers alone on the axis across.
        upright: draw lines at the marks across too.
        named: write its values and its quantity beside it.
    """

    title: str
    axis: str
    quantity: str
    x: Span
    y: Span
    draw: Callable[[At], list[Shape]]
    integers: bool = False
    upright: bool = False
    named: bool = True
    limit: float | None = None


class LegendEntry(NamedTuple):
    """A label of the legend: where its line begins, and the parts of its sign."""

    x: float
    baseline: float
    label: str
    sign: list[tuple[float, float, str, str]]


class Box(NamedTuple):
    """The edges of a diagram on the page, in points."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Diagram:
    """What the template draws of a frame, in points of the page.

    Attributes:
        across, up: places of the marks on either axis, with their words.
        shapes: its content.
        limit: the height of the limit; None where it has none.
        beside: the left edge of the words beside it.
    """

    frame: Frame
    left: float
    top: float
    right: float
    bottom: float
    across: Marks
    up: Marks
    shapes: list[Shape]
    limit: float | None
    beside: float


def marks(low: float, high: float, most: int, integers: bool = False) -> Marks:
    """Return round values between two others with their words.

    They are as many as there is room for, and two where they can be.

    Args:
        low: the least value.
        high: the largest value.
        most: number of values that there is room for.
        integers: whether only integers are taken.
    """
    raw = (high - low) / max(1, min(9, most))
    scale = 10.0 ** math.floor(math.log10(raw))
    steps = _round_steps(scale, integers)
    wide_enough = (step for step in steps if step >= raw * (1 - 1e-9))
    widest = min(wide_enough, default=steps[0])
    values: list[float] = []
    for step in steps:
        if step <= widest and len(values) < 2:
            values = _multiples(step, low, high)
    digits = next(n for n in range(20) if _need_no_more_digits(values, n, 1e-3 * scale))
    return [(value, _write_mark(value, digits)) for value in values]


def _round_steps(scale: float, integers: bool) -> list[float]:
    """Return distances of marks that read well, the widest first."""
    steps = [scale * step for step in (10, 5, 2.5, 2, 1, 0.5, 0.25, 0.2, 0.1)]
    if not integers:
        return steps
    return [step for step in steps if step % 1 == 0] or [1.0]


def _multiples(step: float, low: float, high: float) -> list[float]:
    """Return the multiples of a step from `low` to `high`."""
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [factor * step for factor in range(first, last + 1)]


def _need_no_more_digits(values: Iterable[float], digits: int, tolerance: float) -> bool:
    """Test whether all values stay the same, within a tolerance, at so many decimals."""
    return all(abs(value - round(value, digits)) < tolerance for value in values)


def _write_mark(value: float, digits: int) -> str:
    """Write a value of an axis with a true minus sign, and never as minus zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\u2212")


def text_width(text: str) -> float:
    """Return the width of a text in points."""
    return sum(map(_letter_width, text)) * FONT_SIZE / 2048


def _letter_width(letter: str) -> int:
    """Return the width of a letter in thousandths of the font size."""
    code = ord(letter)
    if code >= 127:
        return UNLISTED_LETTER
    width: int = STYLE["widths"][code - 32]
    return width


def as_svg(
    frames: Sequence[Frame], name: str, height: float, legend: Signs, told: str, columns: int
) -> str:
    """Draw diagrams of one size in rows, below a legend.

    Args:
        frames: the diagrams.
        name: prefix of every id of the SVG; unique in the report.
        height: height of the figure, in inches.
        legend: the sign of each label.
        told: the alternative text.
        columns: number of diagrams in a row.
    """
    content = {
        "diagrams": _place_diagrams(frames, 72 * height, _legend_height(legend), columns),
        "legend": _place_legend(legend),
        "width": 72 * WIDTH,
        "height": 72 * height,
        "style": STYLE,
    }
    return environment().get_template("figure.svg").render(content, name=name, told=told)


def _count_legend_lines(legend: Signs) -> int:
    """Count the lines of a legend: 1 where its labels are short enough for one, else 2."""
    return 1 if sum(map(len, legend)) <= LEGEND else 2


def _legend_height(legend: Signs) -> float:
    """Return the height of the legend in points; 0 where there is none."""
    if not legend:
        return 0.0
    n_lines = min(_count_legend_lines(legend), len(legend))
    return 7.2 + ABOVE + BELOW + ROW * (n_lines - 1) + 2 * PAD


def _place_legend(legend: Signs) -> list[LegendEntry]:
    """Place the labels of a legend in columns, from left to right, of one line or of two."""
    labels = [*legend]
    n_lines = _count_legend_lines(legend)
    entries: list[LegendEntry] = []
    x = LEGEND_EDGE
    for start in range(0, len(labels), n_lines):
        column = labels[start : start + n_lines]
        for line, label in enumerate(column):
            baseline = LEGEND_EDGE + ABOVE + line * ROW
            entries.append(LegendEntry(x, baseline, label, legend[label]))
        x += BESIDE_SIGN + max(map(text_width, column))
    return entries


def _place_diagrams(
    frames: Sequence[Frame], height: float, top: float, columns: int
) -> list[Diagram]:
    """Place diagrams of one size in rows.

    Args:
        frames: the diagrams.
        height: height of the figure, in points.
        top: where the first row begins, in points.
        columns: number of diagrams in a row.
    """
    rows = [frames[start : start + columns] for start in range(0, len(frames), columns)]
    spaces_above = [_space_above(row) for row in rows]
    spaces_below = [_space_below(row) for row in rows]
    tall = (height - top - sum(spaces_above) - sum(spaces_below)) / len(rows)
    room = int(tall / (2 * FONT_SIZE))
    values = [marks(*frame.y, room) for frame in frames]
    words = [_space_beside(*pair) for pair in zip(frames, values, strict=True)]
    spaces_beside = [PAD + max(words[column::columns]) for column in range(columns)]
    wide = (72 * WIDTH - sum(spaces_beside) - PAD * columns) / columns
    diagrams: list[Diagram] = []
    for index, frame in enumerate(frames):
        row, column = divmod(index, columns)
        left = sum(spaces_beside[: column + 1]) + column * (wide + PAD)
        begin = top + sum(spaces_above[: row + 1]) + sum(spaces_below[:row]) + row * tall
        box = Box(left, begin, left + wide, begin + tall)
        diagrams.append(_place_content(frame, box, values[index], left - words[index]))
    return diagrams


def _space_above(row: Iterable[Frame]) -> float:
    """Return the room that the titles of a row of diagrams take."""
    return PAD + ABOVE + 6 + max(map(_extra_title_height, row))


def _extra_title_height(frame: Frame) -> float:
    """Return what a title takes beyond its first line."""
    n_breaks = frame.title.count("\n")
    if n_breaks == 0:
        return 0.0
    return n_breaks * LINE + 0.67


def _space_below(row: Iterable[Frame]) -> float:
    """Return the room that the values below a row of diagrams take, and the name of their axis."""
    space = PAD + GAP + ABOVE + BELOW
    if any(frame.axis for frame in row):
        space += AXIS_NAME
    return space


def _space_beside(frame: Frame, values: Marks) -> float:
    """Return the room that the values beside a diagram take, and the name of their quantity."""
    if not frame.named:
        return 0.0
    space = GAP + max((text_width(word) for _, word in values), default=0.0)
    if frame.quantity:
        space += AXIS_NAME
    return space


def _place_content(frame: Frame, box: Box, values: Marks, beside: float) -> Diagram:
    """Turn what a frame shows into points of the page.

    Args:
        frame: the diagram.
        box: its edges on the page.
        values: the marks of its upright axis.
        beside: the left edge of the words beside it.
    """
    x_low, x_high = frame.x
    y_low, y_high = frame.y

    def across(x: float) -> float:
        """Return the horizontal position of a value in points."""
        return box.left + (x - x_low) / (x_high - x_low) * (box.right - box.left)

    def up(y: float) -> float:
        """Return the vertical position of a value in points."""
        return box.bottom - (y - y_low) / (y_high - y_low) * (box.bottom - box.top)

    room = int((box.right - box.left) / 27)
    places = marks(x_low, x_high, room, frame.integers)
    return Diagram(
        frame,
        *box,
        across=[(across(x), word) for x, word in places],
        up=[(up(y), word) for y, word in values],
        shapes=frame.draw(lambda x, y: f"{across(x):.2f} {up(y):.2f}"),
        limit=None if frame.limit is None else up(frame.limit),
        beside=beside,
    )
