"""An answer taken out of a page, out of its words and out of its pixels.

Method: methods/memorisation.md#proof-of-removal.

What it takes away is decided by `find_answers`; that it is gone is shown by
`audit.corpus.removal.proof`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, groupby
from statistics import median

from PIL import ImageDraw, ImageFont
from PIL.Image import Image
from PIL.ImageFilter import GaussianBlur

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView
from audit.corpus.removal.matching import find_answers

WHITE = (255, 255, 255)
"""The paper's colour."""
GROWTH = 0.15
"""By how much of its line's height a removed word's box grows on every side
(methods/memorisation.md#proof-of-removal)."""
SAME_LINE = 0.5
"""Boxes that share so much of the lower one's height are in one line."""


@dataclass(frozen=True, eq=False)
class Removal:
    """A page without some of its words.

    Attributes:
        view: the page without them; its image is painted or blurred when it is first asked for.
        words: indices of the removed words in the page as it was, ascending.
        boxes: what is painted or blurred, one box for each removed word that has one, in whole
            pixels of the page; empty where the page has no layout.
    """

    view: PageView
    words: tuple[int, ...]
    boxes: tuple[Box, ...]


def remove(view: PageView, answers: Sequence[str], *, blur: float | None = None) -> Removal:
    """Remove the words that hold an answer from a page, and paint or blur their boxes.

    What is blurred is not proven gone: `audit.corpus.removal.proof` wants one colour.

    Args:
        view: the page.
        answers: the accepted answers; all are taken away.
        blur: standard deviation in pixels of the page of a Gaussian blur, which then replaces the
            white (Tito et al. 2024, appendix D.1.1: 20); None: the boxes are painted.

    Returns:
        The removal; of no words when no answer is on the page.
    """
    words = find_answers([word.text for word in view.words], answers)
    gone = frozenset(words)
    left = tuple(word for index, word in enumerate(view.words) if index not in gone)
    hidden, boxes = _hide(view, words, blur)
    return Removal(replace(hidden, words=left), words, boxes)


def cover(view: PageView, words: Iterable[int]) -> PageView:
    """Return the page with white boxes painted over words, which stay in its text.

    Args:
        view: the page.
        words: indices of its words; those without a box are passed over.
    """
    return _hide(view, words, None)[0]


def _hide(
    view: PageView, words: Iterable[int], blur: float | None
) -> tuple[PageView, tuple[Box, ...]]:
    """Return the page with the grown boxes of these words painted or blurred, and the boxes."""
    boxes = tuple(
        _grow_box(view, box) for index in words if (box := view.words[index].box) is not None
    )
    opener = (
        partial(_hide_boxes, view.open_page, boxes, blur)
        if view.open_page and boxes
        else view.open_page
    )
    return replace(view, open_page=opener), boxes


def line_height(words: Sequence[Word], box: Box) -> float:
    """Measure the line that `box` is in, pixels.

    It is the median of its words' heights, at least the box's own. A dash or a word without tall
    letters is lower than its line.
    """
    height = box[3] - box[1]
    line_heights: list[float] = []
    for word in words:
        if word.box is not None:
            word_height = word.box[3] - word.box[1]
            shared = min(box[3], word.box[3]) - max(box[1], word.box[1])
            if shared >= SAME_LINE * min(height, word_height):
                line_heights.append(word_height)
    return max(height, median(line_heights)) if line_heights else height


def _grow_box(view: PageView, box: Box) -> Box:
    """Grow a box by `GROWTH` of its line, to whole pixels inside the page."""
    margin = GROWTH * line_height(view.words, box)
    x0, y0 = (max(math.floor(value - margin), 0) for value in box[:2])
    x1, y1 = (math.ceil(value + margin) for value in box[2:])
    if view.size is not None:
        x0 = min(x0, view.size[0])
        x1 = min(x1, view.size[0])
        y0 = min(y0, view.size[1])
        y1 = min(y1, view.size[1])
    return float(x0), float(y0), float(x1), float(y1)


def _hide_boxes(opener: Callable[[], Image], boxes: Sequence[Box], blur: float | None) -> Image:
    """Return a copy of the page's image with each box painted white, or blurred by itself.

    Nothing spreads over its edges, and nothing from outside helps to read it.
    """
    page = opener().copy()
    for x0, y0, x1, y1 in boxes:
        if x0 < x1 and y0 < y1:
            box = (int(x0), int(y0), int(x1), int(y1))
            page.paste(WHITE if blur is None else page.crop(box).filter(GaussianBlur(blur)), box)
    return page


_LEADING = 1.25
"""Height of a line over the size of its letters, as `audit.corpus.canaries.pages` has it."""
_SMALLEST = 4
"""Pixels of letters that anybody could read; lower or narrower boxes are painted over and left
blank."""


def draw_surrogates(view: PageView, words: Iterable[int], texts: tuple[Word, ...]) -> Image:
    """Paint over words of a page, and write others in their boxes.

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
        text = texts[index].text
        if box is not None and (size := _letter_size(box, text)) >= _SMALLEST:
            # As large as the box allows, and downwards, so that letters stay in their box.
            place = (box[0], (box[1] + box[3]) / 2)
            brush.text(place, text, fill="black", font=_font(int(size)), anchor="lm")
    return page


def replace_value(view: PageView, words: Sequence[int], text: str) -> PageView | None:
    """Replace a value by another text, in the words and in the image of a page.

    Each run of adjacent words gets the whole text: a word a box, the rest of the text in the run's
    last one.

    Args:
        view: the page with the value.
        words: indices of the value's words; on a page with an image, each has a box.
        text: what stands there instead; one word at least.

    Returns:
        The new page; None where the boxes are too small for letters that can be read.
    """
    texts = text.split()
    put_words = list(view.words)
    for run in runs(words):
        last = len(run) - 1
        for place, index in enumerate(run):
            box_texts = texts[place : place + 1] if place < last else texts[last:]
            put_words[index] = replace(view.words[index], text=" ".join(box_texts))
    single_words = list(chain.from_iterable(map(_split_word, put_words)))
    changed = replace(view, words=tuple(single_words))
    if view.open_page is None:
        return changed
    for index in words:
        word = put_words[index]
        if word.box is None or _letter_size(word.box, word.text) < _SMALLEST:
            return None
    return replace(changed, open_page=partial(draw_surrogates, view, words, tuple(put_words)))


def _split_word(word: Word) -> Iterator[Word]:
    """Yield the words of a text that is put in the place of one word, all with its box."""
    texts = word.text.split()
    for number, text in enumerate(texts, start=1):
        is_last = number == len(texts)
        yield replace(word, text=text, after=word.after if is_last else " ")


def _letter_size(box: Box, text: str) -> float:
    """Compute the size in pixels of the largest letters that fit a box."""
    x0, y0, x1, y1 = box
    size = (y1 - y0) / _LEADING
    if size < _SMALLEST:
        return size
    return size * min(1.0, (x1 - x0) / max(_font(round(size)).getlength(text), 1.0))


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font of surrogates at a size in pixels."""
    return ImageFont.load_default(size)


def runs(indices: Iterable[int]) -> list[list[int]]:
    """Group ascending indices into runs without a gap."""
    numbered = groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])
    groups: list[list[int]] = []
    for _, run in numbered:
        groups.append([index for _, index in run])
    return groups
