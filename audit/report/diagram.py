"""The diagram of what two models answer: only one, both, only the other, neither (Pinto et al. 2024, 3.1).

A Euler diagram laid out along a line, so that lengths are true: the first model's bracket spans its own part and the
shared one, the second model's the shared one and its own. Parts differ in lightness, outline, position
and printed number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.attacks.reporting import OverlapRow
from audit.measurements import Estimate
from audit.report import numbers
from audit.report.attack_text import ResultIndex
from audit.report.drawing import INK, MUTED, WIDTH, number, svg, text

ROW = 136.0
"""Height of one comparison, in units of the drawing (chosen here, as all sizes below)."""
BAR = 17.0
LEAST = 1.6
"""The least width of a part that is not empty: one question of thousands is still seen."""
SIDE = 1.0
LETTER = 5.6
"""More than the mean width of a letter at size 10 in the fonts of a drawing."""
PARTS = ("only_first", "both", "only_second", "neither")
FILLS = {"only_first": "#0b4f7d", "both": "#8fa3b5", "only_second": "#ffffff", "neither": "none"}
DASHES = {"only_second": "3 2", "neither": "1 2.5"}


@dataclass(frozen=True)
class Share:
    """A part of the questions: its share of all, the number as printed, and its interval (or nothing)."""

    value: float
    printed: str
    between: str = ""


@dataclass(frozen=True)
class Overlap:
    """Comparison of what two models answer of the same questions.

    Attributes:
        label: which questions.
        units: their number, as text.
        first, second: what each model answers.
        parts: only the first, both, only the second, neither, by the names in `PARTS`.
        net: the net difference as text; empty when it was not measured.
    """

    label: str
    units: str
    first: Share
    second: Share
    parts: dict[str, Share]
    net: str


def overlaps(rows: Sequence[OverlapRow], index: ResultIndex) -> list[Overlap]:
    """Return the specified comparisons of which the record holds all four numbers."""
    compared = []
    for row in rows:
        names = (row.first, row.second, row.only_first, row.only_second)
        estimates = [item for item in map(index.get, names) if item is not None]
        if len(estimates) == len(names) and len({item.n for item in estimates}) == 1:
            compared.append(_overlap(row.label, *estimates, net=index.get(row.net)))
    return compared


def _overlap(
    label: str, first: Estimate, second: Estimate, only_first: Estimate, only_second: Estimate, *, net: Estimate | None
) -> Overlap:
    both = max(0.0, first.value - only_first.value)
    neither = max(0.0, 1.0 - first.value - only_second.value)
    return Overlap(
        label=label,
        units=f"{first.n:,} {first.unit}",
        first=_measured(first),
        second=_measured(second),
        parts={
            "only_first": _measured(only_first),
            "both": _derived(both, first.n),
            "only_second": _measured(only_second),
            "neither": _derived(neither, first.n),
        },
        net=f"net {numbers.show(net.value, 'points')} ({numbers.between(net, 'points')})" if net else "",
    )


def _measured(item: Estimate) -> Share:
    hits = numbers.exact_count(item)
    printed = numbers.show(item.value, "share") if hits is None else f"{hits:,}"
    between = numbers.interval(item, "share")
    return Share(item.value, printed, between if hits is None else f"{numbers.show(item.value, 'share')}; {between}")


def _derived(value: float, n: int) -> Share:
    """What follows from two measured shares: a count of questions, when it is a whole number."""
    hits = numbers.count_of(min(1.0, value), n)
    return Share(value, numbers.show(value, "share") if hits is None else f"{hits:,}")


def draw(name: str, rows: Sequence[Overlap], labels: Mapping[str, str]) -> Markup:
    """The diagram as SVG; empty without rows.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        rows: drawn one under the other at one scale, their shared parts beginning at one position.
        labels: of `first`, `second` and the names in `PARTS`.
    """
    if not rows:
        return Markup()
    left = max(row.parts["only_first"].value for row in rows)
    right = max(row.parts["both"].value + row.parts["only_second"].value for row in rows)
    extent = left + right
    scale = (WIDTH - 2 * SIDE - 4 * LEAST) / extent if extent else 0.0
    start = SIDE + 2 * LEAST + left * scale
    drawn = [_row(row, labels, start, scale, index * ROW) for index, row in enumerate(rows)]
    foot = _foot(extent, len(rows) * ROW)
    return svg(name, len(rows) * ROW + 8, _alternative(rows, labels), Markup("").join([*drawn, foot]))


def _foot(extent: float, y: float) -> Markup:
    if not extent:
        return Markup()
    note = f"All bars at one scale: the whole width is {numbers.show(extent, 'share')} of the questions."
    return text(0, y, note, size=10, fill=MUTED)


def _row(row: Overlap, labels: Mapping[str, str], start: float, scale: float, top: float) -> Markup:
    widths = {part: _width(row.parts[part].value, scale) for part in PARTS[:3]}
    lefts = {
        "only_first": start - widths["only_first"],
        "both": start,
        "only_second": start + widths["both"],
    }
    middle = lefts["only_second"]
    y = top + 37
    return Markup("").join(
        [
            text(0, top + 11, f"{row.label}: {row.units}", size=11, bold=True),
            text(WIDTH, top + 11, row.net, size=11, bold=True, anchor="end") if row.net else Markup(),
            _bracket(lefts["only_first"], middle, y - 4, -1),
            _text_within(lefts["only_first"], y - 12, _labelled(labels["first"], row.first)),
            *(_box(part, lefts[part], y, widths[part], BAR) for part in PARTS[:3] if widths[part]),
            _bracket(start, middle + widths["only_second"], y + BAR + 4, 1),
            _text_within(start, y + BAR + 19, _labelled(labels["second"], row.second)),
            _keys(row, labels, y + BAR + 34),
        ]
    )


def _width(value: float, scale: float) -> float:
    return max(LEAST, value * scale) if value > 0 else 0.0


def _text_within(x: float, y: float, line: str) -> Markup:
    """A line of text that begins at `x`, or ends at the edge where it would run over it."""
    over = x + LETTER * len(line) > WIDTH
    return text(WIDTH if over else x, y, line, size=10, anchor="end" if over else "start")


def _labelled(label: str, share: Share) -> str:
    return f"{label}: {share.printed}" + (f" ({share.between})" if share.between else "")


def _bracket(left: float, right: float, y: float, direction: int) -> Markup:
    """A line over or under a stretch, with its ends turned to the bar."""
    if right <= left:
        return Markup()
    ends = f"v{-3 * direction}"
    path = f"M{number(left)} {number(y)} {ends} M{number(left)} {number(y)} H{number(right)} {ends}"
    return Markup('<path d="{}" fill="none" stroke="{}" stroke-width="1"/>').format(path, INK)


def _box(part: str, x: float, y: float, width: float, height: float) -> Markup:
    dash = Markup(' stroke-dasharray="{}"').format(DASHES[part]) if part in DASHES else Markup()
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="{}" stroke-width="0.8"{}/>').format(
        number(x), number(y), number(width), number(height), FILLS[part], INK, dash
    )


def _keys(row: Overlap, labels: Mapping[str, str], y: float) -> Markup:
    """A sample of each part with its number under the bar, in the order of the bar."""
    column = WIDTH / len(PARTS)
    drawn = []
    for index, part in enumerate(PARTS):
        x = index * column
        share = row.parts[part]
        drawn += [
            _box(part, x + 0.5, y - 8, 9, 9),
            text(x + 14, y, share.printed, size=10.5, bold=True),
            text(x + 14, y + 12, labels[part], size=10, fill=MUTED),
            text(x + 14, y + 24, f"({share.between})" if share.between else "", size=10, fill=MUTED),
        ]
    return Markup("").join(drawn)


def _alternative(rows: Sequence[Overlap], labels: Mapping[str, str]) -> str:
    """What the drawing shows, for who cannot see it."""
    sentences = []
    for row in rows:
        parts = ", ".join(f"{labels[part]} {row.parts[part].printed}" for part in PARTS)
        both = f"{labels['first']} {row.first.printed}, {labels['second']} {row.second.printed}"
        sentences.append(f"{row.label}, {row.units}: {both}; of these {parts}" + (f"; {row.net}" if row.net else ""))
    return ". ".join(sentences) + "."
