"""Which fields of a corpus the attack tries, and why the others are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from audit.case import Case
from audit.corpus.documents import Document, Entity, Split
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
    """A field in its page: `positions` are those of its tokens, left to right; `left_out` says why it is not tried."""

    document: Document
    entity: Entity
    page: Encoding | None
    positions: tuple[int, ...]
    left_out: str | None

    @property
    def trial(self) -> Trial:
        """The field as a trial: clustered by document, sampled by split."""
        return Trial(f"{self.document.id}{_JOINT}{self.entity.id}", self.document.id, self.document.split)


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
