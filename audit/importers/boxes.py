"""The unit of a source's boxes, recognised by their range, and boxes in pixels of the page's image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.pages import Unit

GRID = 1000
SLACK = 2.0
"""Pixels, or thousandths, that rounding may put a corner over the edge (`validation.BOX_TOLERANCE`)."""
SMALL = 0.5
"""Boxes that would all lie in this share of width and height of every page are no pixels of these pages."""
MAX_STRETCH = 0.1
"""How far the shapes (width over height) of the page that was read and of its image may differ, as a share: wide enough
for margins cut off, far too narrow for a page that was turned."""

Size = tuple[int, int]


def recognise(pages: Sequence[tuple[Size | None, Sequence[Box]]]) -> Unit:
    """Recognise the unit of boxes that do not say it, by the range of all of them against the images' sizes.

    Shares, where no corner is over 1. Thousandths, where none is over 1000, and some are off their image or all images
    would be empty but for a corner. Else pixels.

    Args:
        pages: width and height of each page's image in pixels, None without an image, and its boxes.
    """
    highest = max((max(box) for _, boxes in pages for box in boxes), default=0.0)
    if highest <= 1 + 1e-6:
        return "shares"
    if highest > GRID + SLACK:
        return "pixels"
    sized = [(size, boxes) for size, boxes in pages if size is not None and boxes]
    if not sized:
        return "thousandths"
    off = any(
        max(box[0], box[2]) > size[0] + SLACK or max(box[1], box[3]) > size[1] + SLACK
        for size, boxes in sized
        for box in boxes
    )
    small = max(_reach(size, boxes) for size, boxes in sized) < SMALL and highest > SMALL * GRID
    return "thousandths" if off or small else "pixels"


def _reach(size: Size, boxes: Iterable[Box]) -> float:
    """The share of the page, the larger of width and height, up to which the boxes go when they are pixels."""
    return max(max(max(box[0], box[2]) / size[0], max(box[1], box[3]) / size[1]) for box in boxes)


def in_pixels(box: Box, unit: Unit, size: Size, *, strict: bool = True) -> Box:
    """Convert a box to pixels of a page of this size, cut at its edges.

    Args:
        box: x0, y0, x1, y1.
        unit: of the box.
        size: width and height of the page in pixels.
        strict: refuse a box that is no box of this page; else its corners are put in order.

    Raises:
        ManifestError: its corners are out of order (x, y, width and height in place of them), or it is off the page.
    """
    x0, y0, x1, y1 = box
    if strict and not (x0 <= x1 and y0 <= y1):  # written so that NaN fails
        raise ManifestError("a box's corners are out of order: x0, y0, x1, y1 are expected")
    across, down = {"pixels": (1.0, 1.0), "thousandths": (size[0] / GRID, size[1] / GRID), "shares": size}[unit]
    wide, high = x1 * across, y1 * down
    if strict and (wide > size[0] * (1 + MAX_STRETCH) + SLACK or high > size[1] * (1 + MAX_STRETCH) + SLACK):
        raise ManifestError(f"a box is outside the page of {size[0]} x {size[1]} pixels")
    return clip((x0 * across, y0 * down, wide, high), size)


def clip(box: Sequence[float], size: Size) -> Box:
    """Cut a box at the edges of the page, with its corners in order, rounded to a tenth of a pixel."""
    width, height = size
    xs = sorted(min(max(x, 0.0), float(width)) for x in (box[0], box[2]))
    ys = sorted(min(max(y, 0.0), float(height)) for y in (box[1], box[3]))
    return (round(xs[0], 1), round(ys[0], 1), round(xs[1], 1), round(ys[1], 1))


def shares_of(box: Sequence[float], shape: tuple[float, float]) -> Box:
    """Convert a box x0, y0, x1, y1 to shares of a page.

    Raises:
        ManifestError: the page has no extent.
    """
    width, height = shape
    if not (width > 0 and height > 0):
        raise ManifestError("the page that was read has no width or height")
    return (box[0] / width, box[1] / height, box[2] / width, box[3] / height)


def check_shape(shape: tuple[float, float] | None, size: Size) -> None:
    """Refuse boxes that were drawn on a page of another shape than the image's.

    Raises:
        ManifestError: the shapes differ by more than `MAX_STRETCH`, or the drawn page has no extent.
    """
    if shape is None:
        return
    if not (shape[0] > 0 and shape[1] > 0):
        raise ManifestError("the page that the words were read from has no width or height")
    if not abs(size[0] / shape[0] / (size[1] / shape[1]) - 1) <= MAX_STRETCH:
        raise ManifestError(
            f"the words were read from a page of {shape[0]:g} x {shape[1]:g}, but the image has "
            f"{size[0]} x {size[1]} pixels"
        )
