"""One more line on a page: the boxes of its words within the line's box, and how it is drawn.

Letters have one width (ours): a word's box then says how many letters it may have and nothing else. A completion's word
is given the width of the longest candidate, so that no box distinguishes completions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import ImageDraw, ImageFont
from PIL.Image import Image

from audit.corpus.documents import Box

LEADING = 1.25
"""The line's height over the size of its letters: ascent and descent of Pillow's own font."""
ADVANCE = 0.6
"""The width of a letter's cell over the size of the letters (ours: as in fonts of one width)."""
_BASELINE = 1 / LEADING
_SHRINKING = 0.95
"""Of letters that are too wide for a cell, again and again (ours)."""
_DARK = 128
"""Mean luminance, 0 to 255, under which the paper is dark and is written on in white."""


@dataclass(frozen=True)
class WordCell:
    """The cell of one word in a line.

    Attributes:
        text: what is written there; None leaves it blank.
        fitting: what may be written there: the cell is as wide as the longest.
    """

    text: str | None
    fitting: tuple[str, ...]

    @property
    def letters(self) -> int:
        """Its width in letters."""
        return max(map(len, self.fitting))


def line_width(cells: Sequence[WordCell], height: float) -> int:
    """The width of a line of this height, in whole pixels; words are one letter's width apart."""
    return math.ceil(_letters(cells) * ADVANCE * height / LEADING)


def word_boxes(box: Box, cells: Sequence[WordCell]) -> tuple[Box, ...]:
    """The box of each word of a line that fills `box`, in pixels, to a tenth; what is written does not change them."""
    x0, y0, x1, y1 = box
    step = (x1 - x0) / _letters(cells)
    boxes = []
    start = 0
    for cell in cells:
        left, right = x0 + start * step, x0 + (start + cell.letters) * step
        boxes.append((round(left, 1), y0, round(right, 1), y1))
        start += cell.letters + 1
    return tuple(boxes)


def draw_line(page: Image, box: Box, cells: Sequence[WordCell]) -> Image:
    """A copy of `page` with the line in `box`: no pixel outside it changes.

    Args:
        page: RGB.
        box: of the whole line, pixels of the page.
        cells: the words, left to right.
    """
    x0, y0 = math.floor(box[0]), math.floor(box[1])
    x1, y1 = math.ceil(box[2]), math.ceil(box[3])
    strip = page.crop((x0, y0, x1, y1))
    colour = "black" if _luminance(strip) >= _DARK else "white"
    brush = ImageDraw.Draw(strip)
    font = _font(box, cells)
    baseline = box[1] - y0 + _BASELINE * (box[3] - box[1])
    for cell, (left, *_) in zip(cells, word_boxes(box, cells), strict=True):
        if cell.text is not None:
            brush.text((left - x0, baseline), cell.text, fill=colour, font=font, anchor="ls")
    copy = page.copy()
    copy.paste(strip, (x0, y0))
    return copy


def _letters(cells: Sequence[WordCell]) -> int:
    return sum(cell.letters for cell in cells) + len(cells) - 1


def _font(box: Box, cells: Sequence[WordCell]) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Letters as large as the line allows; smaller where a word of wide letters would leave its cell."""
    size = (box[3] - box[1]) / LEADING
    rooms = [
        (text, right - left)
        for cell, (left, _, right, _) in zip(cells, word_boxes(box, cells), strict=True)
        for text in cell.fitting
    ]
    font = ImageFont.load_default(size)
    # Widths are those of hinted letters: they do not shrink evenly with the size.
    while size > 1 and any(font.getbbox(text, anchor="ls")[2] > room for text, room in rooms):
        size *= _SHRINKING
        font = ImageFont.load_default(size)
    return font


def _luminance(strip: Image) -> float:
    pixels = strip.convert("L").resize((1, 1))
    value = pixels.getpixel((0, 0))
    assert isinstance(value, int | float)
    return float(value)
