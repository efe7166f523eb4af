"""Text under the box: values painted over on their page while the data set still holds their text.

Method: methods.md#redaction-context.

As in files whose black bars cover text that can be copied (Bland et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from PIL.Image import Image

from audit.corpus.documents import Box, Corpus, Document, Entity
from audit.corpus.images import open_image

MARGIN = 0.15
"""Share of a box's height that is left out on every side (ours): a painted box may be smaller than its word's."""
NOISE = 24
"""Greys, of 256, by which a painted box may differ within itself (ours): what JPEG makes of one colour; print differs
from its paper by far more."""


@dataclass(frozen=True)
class Covered:
    """How many values were looked at on their page's image, and how many of them are painted over in one colour."""

    seen: int
    painted: int


def count_covered(corpus: Corpus, advance: Callable[[], object] = lambda: None) -> Covered:
    """Count the values that may be attacked whose text is still in the data set although their page hides it.

    A value counts as painted over when all of its words are, each in one colour. Images are opened one at a time.

    Args:
        corpus: the data set; documents without an image or without boxes are passed over.
        advance: called after each document.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    seen = painted = 0
    for document in corpus.documents:
        values = [boxes for entity in document.entities if (boxes := _boxes(document, entity))]
        if values and document.image is not None:
            page = open_image(corpus, document)
            seen += len(values)
            painted += sum(all(_painted(page, box) for box in boxes) for boxes in values)
        advance()
    return Covered(seen, painted)


def _boxes(document: Document, entity: Entity) -> Sequence[Box]:
    """The boxes of a value that may be attacked and has text; none where a word lacks one."""
    if not entity.attack or not document.text_of(entity).strip():
        return ()
    boxes = [document.words[index].box for index in entity.words]
    return [box for box in boxes if box is not None] if None not in boxes else ()


def _painted(page: Image, box: Box) -> bool:
    """Whether the inner part of a box is of one colour; of a box without one, no."""
    margin = MARGIN * (box[3] - box[1])
    x0, y0, x1, y1 = ceil(box[0] + margin), ceil(box[1] + margin), floor(box[2] - margin), floor(box[3] - margin)
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, page.width), min(y1, page.height)
    if x0 >= x1 or y0 >= y1:
        return False
    colours = np.asarray(page.crop((x0, y0, x1, y1)), np.int16).reshape(-1, 3)
    return bool((np.ptp(colours, axis=0) <= NOISE).all())
