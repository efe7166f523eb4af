"""Boxes that lie elsewhere than the words of their pages.

What boxes and pictures show of it, without any model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL.Image import Image

from audit.arrays import Floats
from audit.corpus.boxes import Size, box_changes
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import open_image
from audit.corpus.problems import TEXTS

MOST_PAGES = 40
"""Pages whose pictures are looked at, at most: evenly spaced ones of the data set."""
FEWEST_PAGES = 8
"""Pages without which nothing is said."""
NEAR_EDGE = 0.8
"""Words of ordinary pages reach beyond this share of the width, or of the height, on one page of
twenty at least."""
NEARLY_ALL = 0.95
LAST_QUARTER = 0.75
"""Words of ordinary pages reach beyond this share of the width, and of the height, on most of
them: right boxes of scanned receipts and forms reach 0.9 of both on the pages in the middle."""
INK_OF_DIRT = 0.02
"""The share of a page's ink that may be the edges of a scan, dirt or a page number."""
FAINT = 48
"""Pixels that differ by less from the paper's brightness, of 255, are noise and no ink."""
MORE_INK = 1.15
"""Words lie elsewhere where changed boxes hold so many times the ink on three pages of four. It is
ours: right boxes of scanned receipts and forms have 1.02, boxes that are 1.5 % too small have
1.33."""
MOST = 0.25
"""The quantile of pages that stands for three pages of four."""


def placement_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of boxes that end far from the edges of pages, or miss the ink of their words.

    Also of those whose ink lies elsewhere.

    Raises:
        ManifestError: an image has become unreadable since the corpus was loaded.
    """
    boxed = [
        document
        for document in corpus.documents
        if document.size is not None and _boxes_of(document).size
    ]
    if len(boxed) >= FEWEST_PAGES:
        pictured = [document for document in boxed if document.image is not None]
        chosen = [pictured[index] for index in _evenly(len(pictured), MOST_PAGES)]
        pages = [_inked_page(corpus, document) for document in chosen]
        yield from _warn_of_edges(boxed, pages)
        yield from _warn_of_ink(pages)


def _warn_of_edges(boxed: Sequence[Document], pages: Sequence[InkedPage]) -> Iterator[str]:
    """Warn where boxes end far from the right and lower edges of nearly all pages.

    Also where most pages have none in their right quarter, or in their lower one, and pictures do
    not show that the pages end there.
    """
    reaches = np.array([_reach(document) for document in boxed])
    width, height = np.quantile(reaches, NEARLY_ALL, axis=0)
    most_width, most_height = np.quantile(reaches, 1 - MOST, axis=0)
    if max(width, height) < NEAR_EDGE:
        yield TEXTS["far_from_edges"].format(n=len(boxed), width=100 * width, height=100 * height)
    elif min(most_width, most_height) < LAST_QUARTER and not _end_with_boxes(pages):
        yield TEXTS["empty_quarter"].format(
            n=len(boxed), width=100 * most_width, height=100 * most_height
        )


def _end_with_boxes(pages: Sequence[InkedPage]) -> bool:
    """Test whether three pages of four have nearly no ink to the right of and below their boxes."""
    if len(pages) < FEWEST_PAGES:
        return False
    return float(np.quantile([page.ink_behind_boxes for page in pages], 1 - MOST)) < INK_OF_DIRT


def _warn_of_ink(pages: Sequence[InkedPage]) -> Iterator[str]:
    """Warn where boxes changed by a usual mistake would hold far more of the pages' ink."""
    better = better_placement(pages)
    if better is not None:
        name, ratio = better
        yield TEXTS["ink_elsewhere"].format(change=name, ratio=ratio, n=len(pages))


def _evenly(n: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced indices of n things."""
    step = max(1, -(-n // most))
    return list(range(0, n, step))


def _boxes_of(document: Document) -> Floats:
    """Return the boxes of a page: (n_words, 4), pixels."""
    boxes = [word.box for word in document.words if word.box is not None]
    return np.array(boxes, np.float64).reshape(-1, 4)


def _reach(document: Document) -> tuple[float, float]:
    """Return how far the boxes of a page reach to the right and down, as shares of the page."""
    assert document.size is not None
    right, bottom = _boxes_of(document)[:, 2:].max(axis=0)
    return right / document.size[0], bottom / document.size[1]


@dataclass(frozen=True, eq=False)
class InkedPage:
    """Where the ink of a page lies, and the boxes of its words.

    Attributes:
        boxes: (n_words, 4) pixels.
        size: width and height, pixels.
        ink: (height + 1, width + 1) sums of the ink above and to the left of each corner of a
            pixel.
    """

    boxes: Floats
    size: Size
    ink: Floats

    @property
    def ink_behind_boxes(self) -> float:
        """Return the share of the page's ink that is to the right of all boxes, or below them."""
        right, bottom = np.clip(np.ceil(self.boxes[:, 2:].max(axis=0)), 0, self.size).astype(int)
        total = self.ink[-1, -1]
        return float(1 - self.ink[bottom, right] / total) if total > 0 else 0.0

    def density(self, boxes: Floats) -> float:
        """Return the ink within boxes divided by their area; beyond the page there is no ink."""
        width, height = self.size
        x0, y0, x1, y1 = (
            np.clip(np.rint(boxes), 0, [width, height, width, height]).astype(np.int64).T
        )
        ink = self.ink[y1, x1] - self.ink[y0, x1] - self.ink[y1, x0] + self.ink[y0, x0]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        return float(ink.sum() / max(1.0, float(area.sum())))


def _inked_page(corpus: Corpus, document: Document) -> InkedPage:
    """Return the boxes of a document's page with its size and ink."""
    picture = open_image(corpus, document)
    return InkedPage(_boxes_of(document), picture.size, ink_of(picture))


def ink_of(picture: Image) -> Floats:
    """Sum up how much pixels differ from the paper, see `InkedPage.ink`."""
    brightness = np.asarray(picture.convert("L"), np.float64)
    ink = np.abs(brightness - np.median(brightness))
    ink[ink < FAINT] = 0.0
    return np.pad(ink.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))


def better_placement(pages: Sequence[InkedPage]) -> tuple[str, float] | None:
    """Find the change of boxes that puts far more ink into them, on three pages of four.

    Returns:
        The name of the change and how many times the ink; None where no change does, or of too few
        pages.
    """
    if len(pages) < FEWEST_PAGES:
        return None
    present = np.array([page.density(page.boxes) for page in pages])
    ratios: dict[str, float] = {}
    for name, change in box_changes():
        changed = np.array([page.density(change(page.boxes, page.size)) for page in pages])
        ratios[name] = float(np.quantile(changed / np.maximum(present, 1e-3), MOST))
    best = max(ratios, key=lambda name: ratios[name])
    return (best, ratios[best]) if ratios[best] >= MORE_INK else None
