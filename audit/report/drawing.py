"""Pieces of plain SVG: real text, so that a screen reader and a search in the PDF find it; everything is escaped."""

from __future__ import annotations

from typing import Literal

from markupsafe import Markup

WIDTH = 558.0
"""Units across a drawing, for the width of an A4 page between its margins: a text of size 10 prints at 9 pt."""
INK = "#1d2733"
MUTED = "#4b5763"
FONTS = "docaudit Sans, Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif"


def svg(name: str, height: float, alternative: str, content: Markup) -> Markup:
    """The SVG element of a drawing.

    Args:
        name: unique in the report, its id.
        height: in units of which `WIDTH` go across.
        alternative: what it shows, for readers who cannot see it.
        content: what is drawn.
    """
    return Markup(
        '<svg id="{}" class="drawing" viewBox="0 0 {} {}" role="img" aria-label="{}" '
        'xmlns="http://www.w3.org/2000/svg" font-family="{}">{}</svg>'
    ).format(name, number(WIDTH), number(height), alternative, FONTS, content)


def text(
    x: float,
    y: float,
    line: str,
    *,
    size: float,
    bold: bool = False,
    fill: str = INK,
    anchor: Literal["start", "middle", "end"] = "start",
) -> Markup:
    """A line of text whose baseline begins, is centred or ends at (`x`, `y`); nothing for an empty one."""
    if not line:
        return Markup()
    weight = Markup(' font-weight="bold"') if bold else Markup()
    anchored = Markup(' text-anchor="{}"').format(anchor) if anchor != "start" else Markup()
    return Markup('<text x="{}" y="{}" font-size="{}" fill="{}"{}{}>{}</text>').format(
        number(x), number(y), number(size), fill, weight, anchored, line
    )


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"
