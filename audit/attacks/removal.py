"""Pages without an answer, and what became of the answer there: only a proven removal makes a reply a memory."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.corpus.images import PageView
from audit.corpus.removal import remove
from audit.corpus.removal.proof import Reading, crops_of, prove_removal, why_derivable
from audit.corpus.removal.tesseract import TESSERACT, ReadCrop
from audit.engine.interface import Request

PROVEN, UNPROVEN, SURVIVES, DERIVABLE, ABSENT = "proven", "unproven", "survives", "derivable", "absent"
STATUSES: Mapping[str, str] = {
    PROVEN: "the answer was removed, and it is proven to be gone",
    UNPROVEN: "the answer was removed, but part of the proof is missing: counted apart",
    SURVIVES: "the answer was removed, and can still be read on the page: not asked",
    DERIVABLE: "the answer follows from what is left on the page: not asked",
    ABSENT: "the answer does not stand on the page, so that it cannot be removed: not asked",
}
"""What became of an answer, and what that means."""
ATTEMPTED = frozenset({PROVEN, UNPROVEN})
"""With these the models are asked."""


@dataclass(frozen=True, eq=False)
class Cleared:
    """A page without an answer.

    Attributes:
        view: the page without it.
        status: one of `STATUSES`.
        reason: why the answer can be told from what is left, where it can.
        reading: what an OCR made of the places (`audit.corpus.removal.proof.Reading`); None where it was not asked.
        words: indices of the removed words in the page as it was, ascending.
    """

    view: PageView
    status: str
    reason: str | None = None
    reading: Reading | None = None
    words: tuple[int, ...] = ()


def clear(page: PageView, answers: Sequence[str]) -> Generator[Request, Any, Cleared]:
    """The page without these answers, and whether they are gone (methods.md#memorisation); used with `yield from`.

    Args:
        page: as it is.
        answers: the accepted answers, one at least.
    """
    removal = remove(page, answers)
    if not removal.words:
        return Cleared(removal.view, ABSENT)
    reason = why_derivable([word.text for word in removal.view.words], answers)
    if reason is not None:
        return Cleared(removal.view, DERIVABLE, reason)
    before = yield from _read(crops_of(page, removal))
    after = yield from _read(crops_of(removal.view, removal))
    proof = prove_removal(page, removal, answers, before, after)
    return Cleared(removal.view, proof.status, None, proof.reading, removal.words)


def _read(crops: tuple[ReadCrop, ...]) -> Generator[Request, Any, list[str | None]]:
    """What an OCR reads there."""
    if not crops:
        return []
    texts: list[str | None] = yield Request(TESSERACT, crops)
    return texts
