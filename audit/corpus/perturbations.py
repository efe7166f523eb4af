"""Pages as an adversary may have them: without text, blank, turned, shifted, brighter (Pinto et al. 2024, appendix D).

Every function takes a page view and returns another one. No image is opened before the new view's image is used. What
is to be removed from a page is removed first and the page perturbed then (methods.md#memorisation). The size stays, and
what a page uncovers by moving is white. A page view without an image has its words changed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, cos, floor, radians, sin

from PIL import Image, ImageDraw, ImageEnhance, ImageStat

from audit.corpus.documents import Box, Word
from audit.corpus.page_view import PageView
from audit.corpus.removal.redact import GROWTH, WHITE, line_height

_Point = tuple[float, float]


def without_text(view: PageView) -> PageView:
    """The page with no text on it: no words, and every word's box white in the image, grown as for a removal (D.1).

    What the OCR did not read stays in the image; a word without a box cannot be painted over.
    """
    return _changed(view, (), partial(_painted, words=view.words))


def blank(view: PageView) -> PageView:
    """No page at all: no words, and an image of one colour, the average of the page's own (footnote 2)."""
    return _changed(view, (), _averaged)


def rotated(view: PageView, degrees: float) -> PageView:
    """The page turned about its centre, to the left for positive `degrees` (appendix D.3).

    A word's box becomes the upright box around its turned corners, cut at the edges of the page; words that leave the
    page are dropped.
    """

    def turned(box: Box) -> Box:
        x0, y0, x1, y1 = box
        assert view.size is not None  # boxes are pixels of `size`
        corners = [_turned(corner, view.size, degrees) for corner in ((x0, y0), (x1, y0), (x0, y1), (x1, y1))]
        across, down = zip(*corners, strict=True)
        return min(across), min(down), max(across), max(down)

    return _changed(view, _moved(view, turned), partial(_rotated, degrees=degrees))


def shifted(view: PageView, pixels: tuple[int, int]) -> PageView:
    """The page moved by `pixels`, to the right and down; negative: to the left and up (appendix D.3).

    Words that leave the page are dropped, boxes that reach over its edge are cut.
    """
    right, down = pixels

    def moved(box: Box) -> Box:
        return box[0] + right, box[1] + down, box[2] + right, box[3] + down

    return _changed(view, _moved(view, moved), partial(_shifted, right=right, down=down))


def brightened(view: PageView, factor: float) -> PageView:
    """The page with every pixel times `factor`, at most white (appendix D.3); the words stay."""
    return _changed(view, view.words, partial(_brightened, factor=factor))


def _changed(view: PageView, words: Iterable[Word], change: Callable[[Image.Image], Image.Image]) -> PageView:
    """A page view with these words, whose image is `change` of this one's, made when it is asked for."""
    opener = None if view.open_page is None else partial(_made, view, change)
    return replace(view, words=tuple(words), open_page=opener)


def _made(view: PageView, change: Callable[[Image.Image], Image.Image]) -> Image.Image:
    assert view.image is not None
    return change(view.image)


def _moved(view: PageView, move: Callable[[Box], Box]) -> Iterator[Word]:
    """The words at their new positions; those without a box stay, those that leave the page are dropped."""
    for word in view.words:
        if word.box is None or view.size is None:
            yield word
            continue
        width, height = view.size
        x0, y0, x1, y1 = move(word.box)
        box = (max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height)))
        # A word whose box has no area to begin with ("|", or a flaw of the OCR) stands on the page as long as it is in.
        if box[0] <= box[2] and box[1] <= box[3] and not (_flat(box) and not _flat((x0, y0, x1, y1))):
            yield Word(word.text, box)


def _flat(box: Box) -> bool:
    return box[0] == box[2] or box[1] == box[3]


def _turned(point: _Point, size: tuple[int, int], degrees: float) -> _Point:
    """Where a point lands when the page turns to the left about its centre; y grows downwards."""
    x, y = point[0] - size[0] / 2, point[1] - size[1] / 2
    c, s = cos(radians(degrees)), sin(radians(degrees))
    return x * c + y * s + size[0] / 2, -x * s + y * c + size[1] / 2


def _painted(image: Image.Image, words: Sequence[Word]) -> Image.Image:
    page = image.copy()
    brush = ImageDraw.Draw(page)
    for box in (word.box for word in words):
        if box is not None:
            margin = GROWTH * line_height(words, box)
            brush.rectangle(
                (floor(box[0] - margin), floor(box[1] - margin), ceil(box[2] + margin), ceil(box[3] + margin)),
                fill=WHITE,
            )
    return page


def _averaged(image: Image.Image) -> Image.Image:
    mean = tuple(round(channel) for channel in ImageStat.Stat(image).mean)
    return Image.new("RGB", image.size, mean)


def _rotated(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, Image.Resampling.BILINEAR, fillcolor=WHITE)


def _shifted(image: Image.Image, right: int, down: int) -> Image.Image:
    page = Image.new("RGB", image.size, WHITE)
    page.paste(image, (right, down))
    return page


def _brightened(image: Image.Image, factor: float) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(factor)
