"""Which fields of a corpus the attack tries, and why the others are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit.case import Case
from audit.corpus.documents import Document, Entity, Split
from audit.corpus.removal import found
from audit.engine.interface import Trial
from audit.targets.interface import Encoding

_JOINT = "\x1f"
"""Between the ids of document and field in a trial's id: control characters are refused in both."""
ATTACKED: tuple[Split, ...] = ("member", "heldout")
REASONS = {
    "too short": "fields with fewer tokens than the attack tries",
    "too long": "fields with more tokens than the attack tries",
    "unknown tokens": "fields that hold [UNK], which no reconstruction can spell out",
    "no window": "fields that do not fit into one window of the model",
}


@dataclass(frozen=True, eq=False)
class Field:
    """A field in its page.

    Attributes:
        document: where it stands.
        entity: what it is.
        page: the page, or the window of it, that holds the field; None where it fits into none.
        positions: of its tokens, left to right.
        left_out: why it is not tried; None: it is.
    """

    document: Document
    entity: Entity
    page: Encoding | None
    positions: tuple[int, ...]
    left_out: str | None

    @property
    def trial(self) -> Trial:
        """The field as a trial: clustered by document, sampled by split."""
        return Trial(f"{self.document.id}{_JOINT}{self.entity.id}", self.document.id, self.document.split)

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """Positions of the tokens beside the field's own that spell its value; hidden with it, and not attacked.

        A receipt's total stands on it several times. They are found as a removal finds an answer, without near matches
        (ours): the next day or the price before rounding is another value, which the paper's adversary reads, and the
        words are all that is left of what an OCR misread. Questions are asked about images, and lose near matches too.
        """
        if self.page is None:
            return ()
        words = [word.text for word in self.document.words]
        held = found(words, [self.document.text_of(self.entity)], fuzzy=False)
        return self.page.positions_of(set(held) - set(self.entity.words))

    def scrubbed(self) -> Encoding:
        """The page as the adversary gets it: field and copies are [MASK] and painted white; labels stay.

        Raises:
            ValueError: the field fits into no window.
        """
        if self.page is None:
            raise ValueError("a field that fits into no window has no page to scrub")
        return self.page.scrubbed((*self.positions, *self.copies))


def all_fields(case: Case, min_tokens: int, max_tokens: int) -> Iterator[Field]:
    """Every field of member and held-out documents that the manifest offers for attack, in file order."""
    for document in case.corpus.of(*ATTACKED):
        for entity in document.entities:
            if entity.attack:
                yield _examined(case, document, entity, min_tokens, max_tokens)


def field_of(case: Case, trial: Trial, min_tokens: int, max_tokens: int) -> Field:
    """The field of a trial."""
    document = case.corpus.document(trial.unit)
    name = trial.id.removeprefix(f"{trial.unit}{_JOINT}")
    entity = next(entity for entity in document.entities if entity.id == name)
    return _examined(case, document, entity, min_tokens, max_tokens)


def _examined(case: Case, document: Document, entity: Entity, min_tokens: int, max_tokens: int) -> Field:
    page = case.reader.encode(document, entity.words)
    if page is None:
        return Field(document, entity, None, (), "no window")
    positions = page.positions_of(entity.words)
    left_out = None
    if len(positions) < min_tokens:
        left_out = "too short"
    elif len(positions) > max_tokens:
        left_out = "too long"
    elif np.isin(page.ids[list(positions)], page.unknown_id).any():
        left_out = "unknown tokens"
    return Field(document, entity, page, positions, left_out)
