"""Values that a data set offers attribute inference, before any model reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from audit.attacks.attributes.names import EXCESS, GROUPS, METHODS
from audit.attacks.attributes.questions import kind_of_answer, pool_of, trained_values
from audit.attacks.interface import Sides, Units
from audit.attacks.questions import all_questions
from audit.attacks.splits import AUDITED, missing_split
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold, occurrences


def lacking(corpus: Corpus) -> str | None:
    """Return what is missing for any choice; None when nothing is, as far as the data set alone shows."""
    what = "question with an answer" if _answering(corpus) else "field to attack"
    split = missing_split(document for document, _, _ in _offered(corpus))
    return None if split is None else f"no {what} in {split} documents whose kind public documents hold"


def holding(corpus: Corpus) -> list[tuple[str, Split]]:
    """Id and split of every member and held-out document with such a value, in file order."""
    return [*{document.id: (document.id, document.split) for document, _, _ in _offered(corpus)}.values()]


def most_trials(corpus: Corpus, n_per_document: int) -> Sides:
    """Return the most trials there can be."""
    values: Counter[tuple[str, Split]] = Counter((document.id, document.split) for document, _, _ in _offered(corpus))
    found = Counter[Split]()
    for (_, split), n in values.items():
        found[split] += min(n, n_per_document)
    return found["member"], found["heldout"]


def most_units(corpus: Corpus) -> tuple[Units, ...]:
    """Documents with such a value, at most: a tokenizer, or the proof that an answer is gone, may leave some out."""
    documents: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for document, _, unique in _offered(corpus):
        for group in GROUPS if unique else ("all",):
            documents[group].add((document.split, document.id))
    units = []
    for group in GROUPS:
        sides = Counter(split for split, _ in documents[group])
        numbers = [sides[split] for split in AUDITED]
        units.append(Units(f"{EXCESS}.{group}", "difference", "documents", *numbers, methods=len(METHODS)))
    return tuple(units)


def _answering(corpus: Corpus) -> bool:
    return corpus.manifest.task.asks


def _offered(corpus: Corpus) -> Iterator[tuple[Document, str, bool]]:
    """Document, kind and uniqueness of every value of a kind that public documents hold."""
    pool = pool_of(corpus)
    if _answering(corpus):
        trained = trained_values(corpus)
        for asked in all_questions(corpus):
            kind = kind_of_answer(asked)
            others = set().union(*(trained.get(value, frozenset()) for value in asked.values))
            if kind in pool:
                yield asked.document, kind, others <= {asked.document.id}
        return
    seen = occurrences(corpus)
    for document in corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.attack and entity.category in pool:
                yield document, entity.category, seen[fold(document.text_of(entity))].unique
