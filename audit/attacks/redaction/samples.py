"""Redacted values of a data set and the folds they are dealt into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.arrays import Bools, Ints
from audit.attacks.splits import AUDITED
from audit.corpus.documents import CATEGORIES, Corpus, Document, Mask
from audit.corpus.folding import fold
from audit.corpus.redaction import RedactedSpan, redacted_spans

EXCESS = ("target_gain", "target_gain.uncommon")
GAINS = (*EXCESS, *(f"target_gain.{split}" for split in AUDITED))
NEEDED = 10
"""Values under which a category has no row of its own, and is judged together with others as rare."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Hidden values, n of them.

    Attributes:
        spans: with their contexts.
        values: what is hidden, folded: for the attacker's dictionary. Never leaves the process.
        classes: (n,) indices of their categories in `CATEGORIES`.
        documents: (n,) a number for each document, or for documents that are never divided: what intervals cluster by.
        folds: (n,) in which fold a value is told from the others.
    """

    spans: tuple[RedactedSpan, ...]
    values: tuple[str, ...]
    classes: Ints
    documents: Ints
    folds: Ints

    def __len__(self) -> int:
        return len(self.spans)

    def of(self, rows: Bools | Ints) -> Samples:
        """Some of them, in order."""
        indices = np.arange(len(self))[rows]
        return replace(
            self,
            spans=tuple(self.spans[index] for index in indices),
            values=tuple(self.values[index] for index in indices),
            classes=self.classes[indices],
            documents=self.documents[indices],
            folds=self.folds[indices],
        )

    def divided(self, number: int) -> tuple[Samples, Samples]:
        """Return what a classifier is fitted on, and the fold it is tried on."""
        held = self.folds == number
        return self.of(~held), self.of(held)


def samples_of(corpus: Corpus, mask: Mask, n_folds: int) -> Samples:
    """All hidden values of a data set under a mask; the folds are the same under every mask.

    Documents of one provider, and documents of equal text, are never divided; folds are about equal in values.

    Raises:
        ValueError: there are fewer such groups with a hidden value than folds.
    """
    from sklearn.model_selection import GroupKFold

    spans = redacted_spans(corpus.documents, mask)
    of_span = documents_of(corpus, spans)
    folds = np.zeros(len(spans), np.int64)
    for number, (_, held) in enumerate(GroupKFold(n_folds).split(of_span, groups=of_span)):
        folds[held] = number
    return Samples(
        spans,
        _values(corpus, spans),
        np.array([CATEGORIES.index(span.category) for span in spans], np.int64),
        of_span,
        folds,
    )


def documents_of(corpus: Corpus, spans: Sequence[RedactedSpan]) -> Ints:
    """A number for each value's document, the same for those that are never divided: (n_spans,)."""
    names = sorted({span.document for span in spans})
    groups = dict(zip(names, groups_of([corpus.document(name) for name in names]).tolist(), strict=True))
    return np.array([groups[span.document] for span in spans], np.int64)


def groups_of(documents: Sequence[Document]) -> Ints:
    """A number for each document, the same for those that share a provider or are equal texts: (n_documents,)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    keys: dict[tuple[str, str], int] = {}
    links: list[tuple[int, int]] = []
    for number, document in enumerate(documents):
        own = [("text", fold(" ".join(word.text for word in document.words)))]
        if document.provider is not None:
            own.append(("provider", fold(document.provider)))
        links += [(number, len(documents) + keys.setdefault(key, len(keys))) for key in own]
    if not links:
        return np.empty(0, np.int64)
    size = len(documents) + len(keys)
    rows, columns = np.array(links).T
    graph = csr_array((np.ones(len(links)), (rows, columns)), shape=(size, size))
    _, found = connected_components(graph, directed=False)
    groups: Ints = np.asarray(found[: len(documents)], np.int64)
    return groups


def _values(corpus: Corpus, spans: Sequence[RedactedSpan]) -> tuple[str, ...]:
    found = {}
    for name in {span.document for span in spans}:
        document = corpus.document(name)
        found.update({(name, entity.id): fold(document.text_of(entity)) for entity in document.entities})
    return tuple(found[span.document, span.entity] for span in spans)
