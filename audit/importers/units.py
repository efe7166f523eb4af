"""The unit of boxes that state none: recognised over a whole source, or in doubt not at all.

Boxes from 0 to 1000 on an image of 1,000 to 2,000 pixels may be pixels or thousandths. Texts of
most pages reach nearly across the page, and so do their boxes in the unit that they are in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from audit.corpus.documents import Box
from audit.errors import UsageError
from audit.importers.files import TEXTS
from audit.importers.pages import GRID, SLACK, Size, Unit

LARGE = 1100
"""Pixels of the longer side of an image on which thousandths and pixels are clearly different."""
FAR = 0.8
"""Boxes that reach this share of a page in both directions may be in this unit."""
NEAR = 0.72
"""Boxes that stay within this share of the pages in one direction are hardly in this unit."""
NEAR_OF_FEW = 0.6
"""The same for so few pages that a short one is likely."""
FEW_PAGES = 3
CORNER = 0.5
"""The share of the pages in both directions in which boxes are hardly pixels."""
PERCENT = 100.0 + 1e-6
CROWDED = 20
"""So many boxes in the upper left of all pages are in another unit than pixels."""
CROWDED_CORNER = 0.25
SKEWED = 0.25
"""Logarithm of height over width from which a shape is clearly no square."""
SAME_SHAPE = 0.08
"""The difference of such logarithms up to which shapes are the same."""

SizedBoxes = tuple[Size | None, Sequence[Box]]
"""The size of a page's image, None without an image, and its boxes."""


def recognise_unit(pages: Sequence[SizedBoxes]) -> Unit | None:
    """Return the unit of boxes that state none, from all of them and the sizes of their images.

    Shares, where no corner is over 1; pixels, where one is over 1000. Between them it is the unit
    in which the boxes reach across the pages.

    Args:
        pages: the pages of a source.

    Returns:
        The unit; None where they fit both pixels and thousandths, or neither.
    """
    all_boxes = list(chain.from_iterable(boxes for _, boxes in pages))
    highest = max(map(max, all_boxes), default=0.0)
    if highest <= 1 + 1e-6:
        return "shares"
    if highest > GRID + SLACK:
        return "pixels"
    if highest <= PERCENT and _are_crowded(pages, len(all_boxes)):
        return None
    return _unit_of_extents(list(_extents_of(pages)))


def recognise_units(sources: Sequence[Sequence[SizedBoxes]]) -> list[Unit]:
    """Return the unit of each source's boxes; where they do not tell, that of another source.

    Raises:
        UsageError: the boxes of no source tell it.
    """
    units = [recognise_unit(pages) for pages in sources]
    certain = [unit for unit in units if unit not in (None, "shares")]
    decided: list[Unit] = []
    for pages, unit in zip(sources, units, strict=True):
        decided_unit = unit or next(iter(certain), None)
        if decided_unit is None:
            raise _doubt_about(pages)
        decided.append(decided_unit)
    return decided


def _doubt_about(pages: Sequence[SizedBoxes]) -> UsageError:
    """Return the error of boxes whose unit is not certain."""
    extents = list(_extents_of(pages))
    shares = _reach(extent.shares for extent in extents)
    of_grid = _reach(extent.of_grid for extent in extents)
    reason = TEXTS["unit"].format(pixels=shares.written, thousandths=of_grid.written)
    return UsageError(reason, TEXTS["unit_hint"])


def _unit_of_extents(extents: Sequence[_Extent]) -> Unit | None:
    """Return the unit of boxes that reach so far, of which none is over 1000."""
    large = [extent for extent in extents if max(extent.size) > LARGE]
    if not extents:
        return "thousandths"
    if any(extent.is_off_image for extent in extents):
        return _unit_off_images(extents)
    return _unit_on_large(large) if large else "pixels"


def _are_crowded(pages: Sequence[SizedBoxes], n_boxes: int) -> bool:
    """Test whether many boxes are, as pixels, all in the upper left of their pages."""
    shares = [extent.shares for extent in _extents_of(pages)]
    return n_boxes >= CROWDED and bool(shares) and max(_reach(shares)) < CROWDED_CORNER


class Reach(NamedTuple):
    """How far to the right and to the bottom boxes reach, as shares of their pages."""

    right: float
    bottom: float

    @property
    def is_far(self) -> bool:
        """Test whether they reach far in both directions."""
        return min(self) > FAR

    @property
    def written(self) -> str:
        """Write both for a message."""
        return f"{self.right:.0%} of the width and {self.bottom:.0%} of the height"

    @property
    def shape(self) -> float:
        """Return the logarithm of bottom over right."""
        return math.log(max(self.bottom, 1e-6) / max(self.right, 1e-6))


class _Extent(NamedTuple):
    """The largest coordinates of a page's boxes, and the size of its image in pixels."""

    right: float
    bottom: float
    size: Size

    @property
    def is_off_image(self) -> bool:
        """Test whether they are over the edge of the image, if they are pixels."""
        return self.right > self.size[0] + SLACK or self.bottom > self.size[1] + SLACK

    @property
    def shares(self) -> Reach:
        """Return how far the boxes reach, if they are pixels of the image."""
        return Reach(self.right / self.size[0], self.bottom / self.size[1])

    @property
    def of_grid(self) -> Reach:
        """Return how far the boxes reach, if they are thousandths."""
        return Reach(self.right / GRID, self.bottom / GRID)


def _extents_of(pages: Sequence[SizedBoxes]) -> Iterable[_Extent]:
    """Yield the extents of the pages that have an image and boxes."""
    for size, boxes in pages:
        if size is not None and boxes:
            right = max(max(box[0], box[2]) for box in boxes)
            bottom = max(max(box[1], box[3]) for box in boxes)
            yield _Extent(right, bottom, size)


def _reach(reaches: Iterable[Reach]) -> Reach:
    """Return how far any of them reaches in each direction."""
    values = list(reaches)
    return Reach(max(reach.right for reach in values), max(reach.bottom for reach in values))


def _unit_off_images(extents: Sequence[_Extent]) -> Unit | None:
    """Return the unit of boxes of which some are over the edge of their image.

    They are thousandths, unless they have the shape of the image: then they seem to be pixels of
    the same page at another size.
    """
    of_grid = _reach(extent.of_grid for extent in extents)
    shares = _reach(extent.shares for extent in extents)
    is_other_size = abs(of_grid.shape) > SKEWED and abs(shares.shape) < SAME_SHAPE
    return None if is_other_size and not of_grid.is_far else "thousandths"


def _unit_on_large(extents: Sequence[_Extent]) -> Unit | None:
    """Return the unit of boxes that are on their images, some of which are large; None in doubt."""
    of_grid = _reach(extent.of_grid for extent in extents)
    shares = _reach(extent.shares for extent in extents)
    near = NEAR if len(extents) >= FEW_PAGES else NEAR_OF_FEW
    if of_grid.is_far and min(shares) < near:
        return "thousandths"
    if of_grid.right > FAR and max(shares) < CORNER:
        return "thousandths"
    if shares.is_far and not of_grid.is_far:
        return "pixels"
    return None
