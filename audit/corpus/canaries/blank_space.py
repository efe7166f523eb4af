"""Room for one more line on a page: outside all word boxes, on blank paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
from PIL.Image import Image

from audit.arrays import Bools, Ints
from audit.corpus.canaries.layout import WordCell, line_width
from audit.corpus.documents import Box, Document

SHARES = (1.0, 0.8, 0.65, 0.5)
"""Heights that are tried, as shares of the median height of the page's words (ours)."""
MIN_HEIGHT = 10
"""Pixels; letters of 8 pixels are the smallest that are drawn (ours)."""
CONTRAST = 48
"""Difference of a pixel's luminance, 0 to 255, from the paper's (the page's median) that makes it ink (ours)."""
SPECKS = 0.002
"""The share of a box that may be ink: dust of a scan. A rule across the box is more (ours)."""
_STEPS = 4
"""Positions are tried in steps of the line's height over this number."""

_Counts = Ints


def find_blank_box(
    document: Document, page: Image | None, cells: Sequence[WordCell], rng: np.random.Generator
) -> Box | None:
    """Draw a blank box for a line from all there are of the largest height that has any.

    Args:
        document: has boxes and a size.
        page: its image; None: only the boxes show what is blank.
        cells: the words of the line.
        rng: for the draw.

    Returns:
        The line's box in whole pixels, a quarter of its height away from all else; None where there is no room.
    """
    if document.size is None:
        return None
    boxes = [word.box for word in document.words if word.box is not None]
    ink = None if page is None else _ink(page)
    for height in _heights(boxes):
        box = _free_box(document.size, boxes, ink, (line_width(cells, height), height), rng)
        if box is not None:
            return box
    return None


def _heights(boxes: Sequence[Box]) -> Iterator[int]:
    """The line's heights to try, pixels, from the largest."""
    usual = median(box[3] - box[1] for box in boxes) if boxes else 0.0
    yield from sorted({max(MIN_HEIGHT, round(usual * share)) for share in SHARES}, reverse=True)


def _ink(page: Image) -> Bools:
    """The pixels that are not paper: (height, width)."""
    pixels = np.asarray(page.convert("L"), np.int16)
    return np.abs(pixels - np.median(pixels)) > CONTRAST


def _free_box(
    size: tuple[int, int],
    boxes: Sequence[Box],
    ink: Bools | None,
    line: tuple[int, int],
    rng: np.random.Generator,
) -> Box | None:
    """A box for a line of this width and height: one cell of the grid stays free on each side of it."""
    step = max(1, line[1] // _STEPS)
    shape = (size[1] // step, size[0] // step)
    wanted = (math.ceil(line[1] / step) + 2, math.ceil(line[0] / step) + 2)
    if wanted[0] > shape[0] or wanted[1] > shape[1]:
        return None
    taken = np.zeros(shape, np.int64)
    for x0, y0, x1, y1 in boxes:
        rows, columns = _cells(y0, y1, step), _cells(x0, x1, step)
        taken[rows, columns] = 1
    free = _sums(taken, wanted) == 0
    if ink is not None:
        whole = ink[: shape[0] * step, : shape[1] * step]
        counts = whole.reshape(shape[0], step, shape[1], step).sum(axis=(1, 3), dtype=np.int64)
        free &= _sums(counts, wanted) <= SPECKS * step**2 * wanted[0] * wanted[1]
    corners = np.argwhere(free)
    if not len(corners):
        return None
    row, column = corners[rng.integers(len(corners))]
    x0, y0 = (column + 1) * step, (row + 1) * step
    return float(x0), float(y0), float(x0 + line[0]), float(y0 + line[1])


def _cells(start: float, end: float, step: int) -> slice:
    return slice(max(math.floor(start / step), 0), max(math.ceil(end / step), 0))


def _sums(counts: _Counts, window: tuple[int, int]) -> _Counts:
    """The sum of every window of this shape, by its upper left corner."""
    total = np.pad(counts.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    rows, columns = window
    sums: _Counts = (
        total[rows:, columns:] - total[:-rows, columns:] - total[rows:, :-columns] + total[:-rows, :-columns]
    )
    return sums
