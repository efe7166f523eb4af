"""Pages drawn with a real font, straight or as a scan that lies askew.

Their boxes are what an OCR would give.
"""

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView

LINE = 60
MARGIN = 90
SPACE = 14


def page(
    lines: Sequence[str],
    *,
    angle: float = 0.0,
    letters: int = 30,
    shown: Sequence[int] | None = None,
) -> PageView:
    """One page view of these lines; words are divided at spaces.

    Args:
        lines: the text.
        angle: degrees, counter-clockwise; boxes are upright and hold the turned word.
        letters: the size of the font.
        shown: the words that are drawn; None: all. The others have their boxes and leave the paper
            white.
    """
    font = ImageFont.load_default(letters)
    places: list[tuple[str, tuple[float, float], Box]] = []
    for number, line in enumerate(lines):
        x = float(MARGIN)
        y = float(MARGIN + LINE * number)
        for text in line.split():
            box = font.getbbox(text)
            places.append((text, (x, y), (x + box[0], y + box[1], x + box[2], y + box[3])))
            x += font.getlength(text) + SPACE
    size = (int(max(box[2] for *_, box in places)) + MARGIN, MARGIN * 2 + LINE * len(lines))
    image = Image.new("RGB", size, "white")
    brush = ImageDraw.Draw(image)
    for index, (text, corner, _) in enumerate(places):
        if shown is None or index in shown:
            brush.text(corner, text, fill="black", font=font)
    turned = image.rotate(angle, Image.Resampling.BICUBIC, fillcolor="white")
    return PageView(
        tuple(Word(text, _turned(box, angle, size)) for text, _, box in places),
        size,
        lambda: turned,
    )


def ink(view: PageView) -> np.ndarray:
    """Where the page is not paper: (height, width), bool."""
    return np.asarray(view.image).min(axis=2) < 250


def _turned(box: Box, angle: float, size: tuple[int, int]) -> Box:
    turn = math.radians(angle)
    middle = (size[0] / 2, size[1] / 2)
    corners = [(x - middle[0], y - middle[1]) for x in box[::2] for y in box[1::2]]
    xs = [middle[0] + x * math.cos(turn) + y * math.sin(turn) for x, y in corners]
    ys = [middle[1] - x * math.sin(turn) + y * math.cos(turn) for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)
