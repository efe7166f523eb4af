"""Other boxes of the same words.

They are measured in other units, on another page, from another corner, or of whole lines.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from audit.arrays import Floats
from audit.corpus.bars import lines_of
from audit.corpus.documents import Document, Word

BOX_SCALE = 1000
"""Layout models read boxes in thousandths of the page; pixels taken for thousandths are a common
slip."""
POINTS_AN_INCH = 72
RESOLUTIONS = (96, 150, 200, 300)
"""Dots an inch of scanners and of rendered pages, with which points are taken for pixels."""
A4 = (595, 842)
"""Width and height in points."""
LETTER = (612, 792)
CLOSE_SCALES = tuple(round(0.95 + 0.005 * step, 3) for step in range(21) if step != 10)
"""A layout model that learnt tidy pages may forget them at 1 % of error; steps of half a percent
come near enough."""
WIDE_SCALES = (0.5, 0.72, 0.85, 0.9, 1.1, 1.15, 1.39, 2.0)
ONE_AXIS_SCALES = (0.95, 0.97, 0.98, 0.985, 0.99, 1.01, 1.015, 1.02, 1.03, 1.05)
MARGINS = (0.01, 0.02, 0.03, 0.05)
"""Of each side, as a share of it, that cropping takes away."""
PIXELS = (1, 2, 3, 5, 10)
"""Shifts that are tried in each direction."""
Size = tuple[int, int]
BoxChange = Callable[[Floats, Size], Floats]
"""Takes boxes, (n_words, 4) x0, y0, x1, y1 in pixels, and width and height of the page; gives as
many boxes."""


def box_changes() -> Iterator[tuple[str, BoxChange]]:
    """Yield (name, function) for each usual mistake in boxes, and for its inverse."""
    yield from _units()
    yield from _scales()
    yield from _shifts()


def _units() -> Iterator[tuple[str, BoxChange]]:
    """Yield (name, function) for boxes in mistaken units, origins, axes or page sizes."""
    yield "in pixels", _in_pixels
    yield "upside down", _upside_down
    yield "mirrored", _mirrored
    yield "of a page of swapped width and height", _of_swapped_size
    yield "of swapped axes", _of_swapped_axes
    for resolution in RESOLUTIONS:
        scale = resolution / POINTS_AN_INCH
        yield f"in pixels of {resolution} dots an inch for points", _scaled(scale, scale)
        yield f"in points for pixels of {resolution} dots an inch", _scaled(1 / scale, 1 / scale)
    wider = A4[0] / LETTER[0]
    higher = A4[1] / LETTER[1]
    yield "of an A4 page for those of a letter page", _scaled(1 / wider, 1 / higher)
    yield "of a letter page for those of an A4 page", _scaled(wider, higher)


def _scales() -> Iterator[tuple[str, BoxChange]]:
    """Yield (name, function) for boxes in a wrong scale, or on a page with other margins."""
    for scale in (*WIDE_SCALES, *CLOSE_SCALES):
        yield f"scaled by {scale:g}", _scaled(scale, scale)
    for scale in ONE_AXIS_SCALES:
        yield f"scaled by {scale:g} in width", _scaled(scale, 1.0)
        yield f"scaled by {scale:g} in height", _scaled(1.0, scale)
    for margin in MARGINS:
        percent = f"{100 * margin:.0f} %"
        yield f"of a page without margins of {percent}", _with_margin(margin)
        yield f"of a page with margins of {percent} added", _with_margin(-margin)


def _shifts() -> Iterator[tuple[str, BoxChange]]:
    """Yield (name, function) for boxes shifted by some pixels along one axis or both."""
    for distance in PIXELS:
        for step in (distance, -distance):
            right_or_left = "right" if step > 0 else "left"
            down_or_up = "down" if step > 0 else "up"
            pixels = "1 pixel" if distance == 1 else f"{distance} pixels"
            yield f"shifted {right_or_left} by {pixels}", _shifted(step, 0)
            yield f"shifted {down_or_up} by {pixels}", _shifted(0, step)
            yield f"shifted {right_or_left} and {down_or_up} by {pixels}", _shifted(step, step)


def _scaled(x_scale: float, y_scale: float) -> BoxChange:
    """Return a function that multiplies the coordinates of boxes by a scale for each axis."""
    return lambda boxes, _: boxes * [x_scale, y_scale, x_scale, y_scale]


def _shifted(x_pixels: float, y_pixels: float) -> BoxChange:
    """Return a function that adds a distance in pixels on each axis to boxes."""
    return lambda boxes, _: boxes + np.array([x_pixels, y_pixels, x_pixels, y_pixels])


def _with_margin(margin: float) -> BoxChange:
    """Return a function that measures boxes on the page without a margin, a share of each side.

    Negative: gains one.
    """
    return lambda boxes, size: (boxes - margin * _corners(size)) / (1 - 2 * margin)


def _in_pixels(boxes: Floats, size: Size) -> Floats:
    """Convert boxes as a model reads them that takes pixels for thousandths.

    Or when thousandths were written as pixels.
    """
    return boxes * _corners(size) / BOX_SCALE


def _upside_down(boxes: Floats, size: Size) -> Floats:
    """Return boxes with the vertical axis turned round: its origin at the page's lower edge."""
    height = size[1]
    return np.stack([boxes[:, 0], height - boxes[:, 3], boxes[:, 2], height - boxes[:, 1]], axis=1)


def _mirrored(boxes: Floats, size: Size) -> Floats:
    """Return boxes with the horizontal axis turned round: its origin at the page's right edge."""
    width = size[0]
    return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], axis=1)


def _of_swapped_size(boxes: Floats, size: Size) -> Floats:
    """Return boxes rescaled as if width and height of the page had been exchanged."""
    width, height = size
    return boxes * [width / height, height / width, width / height, height / width]


def _of_swapped_axes(boxes: Floats, size: Size) -> Floats:
    """Return boxes with x and y exchanged, as shares of the page."""
    return (boxes / _corners(size))[:, [1, 0, 3, 2]] * _corners(size)


def _corners(size: Size) -> Floats:
    """Return width and height of the page for each coordinate of a box: shape (4,), pixels."""
    return np.array([*size, *size], np.float64)


def rewrite_boxes(change: BoxChange, document: Document) -> Document:
    """Change all boxes of a page, and cut them off at its edges."""
    boxed = [index for index, word in enumerate(document.words) if word.box is not None]
    if document.size is None or not boxed:
        return document
    boxes = np.array([document.words[index].box for index in boxed], np.float64)
    within = np.clip(change(boxes, document.size), 0, _corners(document.size))
    return _with_boxes(document, boxed, within)


def _with_boxes(document: Document, places: list[int], boxes: Floats) -> Document:
    """Return the document with the words at `places` in these boxes, shape (n_places, 4)."""
    words: list[Word] = [*document.words]
    for index, (x0, y0, x1, y1) in zip(places, boxes.tolist(), strict=True):
        words[index] = replace(words[index], box=(x0, y0, x1, y1))
    return replace(document, words=tuple(words))


def with_line_boxes(document: Document) -> Document:
    """Give every word the box of its line."""
    for line in lines_of(document.words):
        boxes = np.array([document.words[index].box for index in line], np.float64)
        whole_line = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
        document = _with_boxes(document, list(line), np.tile(whole_line, (len(line), 1)))
    return document


def with_cut_boxes(document: Document) -> Document:
    """Share out every box that several words in a row have.

    By their letters, and a space between two of them.
    """
    start = 0
    while start < len(document.words):
        end = start + 1
        while end < len(document.words) and document.words[end].box == document.words[start].box:
            end += 1
        document = _cut_box(document, list(range(start, end)))
        start = end
    return document


def _cut_box(document: Document, places: list[int]) -> Document:
    """Divide the one box of words in a row among them, by their numbers of letters."""
    box = document.words[places[0]].box
    if box is None or len(places) == 1:
        return document
    letters = np.array([len(document.words[index].text) for index in places], np.float64)
    ends = np.cumsum(letters + 1) - 1
    width = (box[2] - box[0]) / ends[-1]
    left = box[0] + width * (ends - letters)
    right = box[0] + width * ends
    upper = np.full(len(places), box[1])
    lower = np.full(len(places), box[3])
    return _with_boxes(document, places, np.stack([left, upper, right, lower], axis=1))
