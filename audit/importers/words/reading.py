"""A page as an OCR program wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftField, DraftQuestion, DraftWord


@dataclass(frozen=True)
class ReadPage:
    """Words of one page, boxes as shares of it.

    Attributes:
        words: in the program's order.
        shape: width and height of the page that was read, in any unit, where the program says so.
        fields: labelled values that the program found.
        questions: that the program was asked, with its answers.
    """

    words: tuple[DraftWord, ...]
    shape: tuple[float, float] | None = None
    fields: tuple[DraftField, ...] = ()
    questions: tuple[DraftQuestion, ...] = field(default=())


def shared(box: Sequence[float], shape: tuple[float, float]) -> Box:
    """A box x0, y0, x1, y1 as shares of a page.

    Raises:
        ManifestError: the page has no extent.
    """
    width, height = shape
    if not (width > 0 and height > 0):
        raise ManifestError("the page that was read has no width or height")
    return (box[0] / width, box[1] / height, box[2] / width, box[3] / height)


def only_page(pages: Iterable[ReadPage]) -> ReadPage:
    """The page of a file that belongs to one image.

    Raises:
        ManifestError: it holds none, or several.
    """
    found = [*pages]
    if len(found) != 1:
        raise ManifestError(f"{len(found)} pages for one image")
    return found[0]
