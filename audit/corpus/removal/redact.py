"""An answer taken out of a page, out of its words and out of its pixels (methods.md#memorisation).

What it takes away is decided by `find_answers`; that it is gone is shown by `audit.corpus.removal.proof`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from PIL import ImageDraw
from PIL.Image import Image
from PIL.ImageFilter import GaussianBlur

from audit.corpus.documents import Box, Word
from audit.corpus.page_view import PageView
from audit.corpus.removal.matching import find_answers

WHITE = (255, 255, 255)
"""The paper's colour."""
GROWTH = 0.15
"""By how much of its line's height a removed word's box grows on every side (methods.md#memorisation)."""
SAME_LINE = 0.5
"""Boxes that share so much of the lower one's height are in one line."""


@dataclass(frozen=True, eq=False)
class Removal:
    """A page without some of its words.

    Attributes:
        view: the page without them; its image is painted or blurred when it is first asked for.
        words: indices of the removed words in the page as it was, ascending.
        boxes: what is painted or blurred, one box for each removed word that has one, in whole pixels of the page;
            empty where the page has no layout.
    """

    view: PageView
    words: tuple[int, ...]
    boxes: tuple[Box, ...]


def remove(view: PageView, answers: Sequence[str], *, blur: float | None = None) -> Removal:
    """The page without the words that hold an answer, their boxes painted white, or blurred.

    What is blurred is not proven gone: `audit.corpus.removal.proof` wants one colour.

    Args:
        view: the page.
        answers: the accepted answers; all are taken away.
        blur: standard deviation in pixels of the page of a Gaussian blur, which then replaces the white
            (Tito et al. 2024, appendix D.1.1: 20); None: the boxes are painted.

    Returns:
        The removal; of no words when no answer is on the page.
    """
    words = find_answers([word.text for word in view.words], answers)
    gone = frozenset(words)
    left = tuple(word for index, word in enumerate(view.words) if index not in gone)
    boxes = tuple(_grown(view, box) for index in words if (box := view.words[index].box) is not None)
    opener = view.open_page
    if opener is not None and boxes:
        opener = partial(_painted, opener, boxes) if blur is None else partial(_blurred, opener, boxes, blur)
    return Removal(replace(view, words=left, open_page=opener), words, boxes)


def cover(view: PageView, words: Iterable[int]) -> PageView:
    """The page with white boxes over these words, as `remove` paints them; its words stay.

    Args:
        view: the page.
        words: indices of its words; those without a box are passed over.
    """
    boxes = tuple(_grown(view, box) for index in words if (box := view.words[index].box) is not None)
    opener = view.open_page
    if opener is not None and boxes:
        opener = partial(_painted, opener, boxes)
    return replace(view, open_page=opener)


def line_height(words: Sequence[Word], box: Box) -> float:
    """The height of the line that `box` is in, pixels: the median of its words', never less than the box's own.

    A dash or a word without tall letters is lower than its line.
    """
    height = box[3] - box[1]
    line = [
        other[3] - other[1]
        for word in words
        if (other := word.box) is not None
        and min(box[3], other[3]) - max(box[1], other[1]) >= SAME_LINE * min(height, other[3] - other[1])
    ]
    return max(height, median(line)) if line else height


def _grown(view: PageView, box: Box) -> Box:
    """The box, grown, in whole pixels, inside the page."""
    margin = GROWTH * line_height(view.words, box)
    x0, y0 = (max(math.floor(value - margin), 0) for value in box[:2])
    x1, y1 = (math.ceil(value + margin) for value in box[2:])
    if view.size is not None:
        x0, x1, y0, y1 = min(x0, view.size[0]), min(x1, view.size[0]), min(y0, view.size[1]), min(y1, view.size[1])
    return float(x0), float(y0), float(x1), float(y1)


def _painted(opener: Callable[[], Image], boxes: Sequence[Box]) -> Image:
    page = opener().copy()
    drawing = ImageDraw.Draw(page)
    for x0, y0, x1, y1 in boxes:
        if x0 < x1 and y0 < y1:  # a rectangle's last row and column are painted too
            drawing.rectangle((x0, y0, x1 - 1, y1 - 1), fill=WHITE)
    return page


def _blurred(opener: Callable[[], Image], boxes: Sequence[Box], radius: float) -> Image:
    """Each box blurred on its own: nothing of it spreads over its edges, and nothing from outside helps to read it."""
    page = opener().copy()
    for x0, y0, x1, y1 in boxes:
        if x0 < x1 and y0 < y1:
            box = (int(x0), int(y0), int(x1), int(y1))
            page.paste(page.crop(box).filter(GaussianBlur(radius)), box[:2])
    return page
