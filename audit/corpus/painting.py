"""Surrogates on page images: the value is painted over, as for the proof of removal, and the surrogate is drawn there.

The letters are Pillow's own, black on white: a page shows where a surrogate stands, not what stood there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from PIL import ImageDraw, ImageFont
from PIL.Image import Image

from audit.corpus.bars import runs
from audit.corpus.documents import Box, Word
from audit.corpus.page_view import PageView
from audit.corpus.removal.redact import cover

_LEADING = 1.25
"""Height of a line over the size of its letters, as `audit.corpus.canaries.pages` has it."""
_SMALLEST = 4
"""Pixels of letters that anybody could read; lower or narrower boxes are painted over and left blank."""


def draw_surrogates(view: PageView, words: Iterable[int], texts: tuple[Word, ...]) -> Image:
    """The page with these words painted over and others written in their boxes.

    Args:
        view: the page as it was, with an image.
        words: indices of the words; each has a box.
        texts: all words as they are now.

    Raises:
        ValueError: the page has no image.
    """
    words = tuple(words)
    covered = cover(view, words)
    if covered.open_page is None:
        raise ValueError("this page has no image")
    page = covered.open_page().copy()
    brush = ImageDraw.Draw(page)
    for index in words:
        box = texts[index].box
        if box is not None:
            _write(brush, box, texts[index].text)
    return page


def replace_value(view: PageView, words: Sequence[int], text: str) -> PageView | None:
    """Replace a value by another text, in the words and in the image of a page.

    Each run of adjacent words gets the whole text: a word a box, the rest of the text in the run's last one.

    Args:
        view: the page with the value.
        words: indices of the value's words; on a page with an image, each has a box.
        text: what stands there instead; one word at least.

    Returns:
        The new page; None where the boxes are too small for letters that can be read.
    """
    texts, put = text.split(), list(view.words)
    for run in runs(words):
        last = len(run) - 1
        for place, index in enumerate(run):
            own = texts[place : place + 1] if place < last else texts[last:]
            put[index] = Word(" ".join(own), view.words[index].box)
    split = [Word(part, word.box) for word in put for part in word.text.split()]
    changed = replace(view, words=tuple(split))
    if view.open_page is None:
        return changed
    drawn = (put[index] for index in words)
    if any(word.box is None or _letters(word.box, word.text) < _SMALLEST for word in drawn):
        return None
    return replace(changed, open_page=partial(draw_surrogates, view, words, tuple(put)))


def _letters(box: Box, text: str) -> float:
    """The size in pixels of the largest letters that fit a box."""
    x0, y0, x1, y1 = box
    size = (y1 - y0) / _LEADING
    if size < _SMALLEST:
        return size
    return size * min(1.0, (x1 - x0) / max(_font(round(size)).getlength(text), 1.0))


def _write(brush: ImageDraw.ImageDraw, box: Box, text: str) -> None:
    """Letters as large as the box allows."""
    x0, y0, _, y1 = box
    size = _letters(box, text)
    if size >= _SMALLEST:
        # Downwards, so that letters stay in their box.
        brush.text((x0, (y0 + y1) / 2), text, fill="black", font=_font(int(size)), anchor="lm")


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
