"""Count the people whom an attack reached: those of whom a value came back, or who were recognised.

The data set may say whose a document or a value is (`person`). Where it says so nowhere, distinct
names stand for people. A person counts on the side whose documents alone name that person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from audit.arrays import Floats
from audit.attacks.breakdown import IS_HIT, MethodHits
from audit.attacks.interface import AUDITED, WORDS
from audit.attacks.measuring import NEEDED_DOCUMENTS, estimate_without_null
from audit.corpus.documents import Corpus, Document, Entity, Question, Split
from audit.corpus.folding import fold, occurrences
from audit.measurements import Measurement, PeopleCount, Unresolved
from audit.stats.intervals import proportion

NAMES_OF_PEOPLE = "person"
"""The category of names of people."""
FALSE_ALARMS = 0.1
"""Share of unseen documents that score above the threshold over which a document is recognised."""
FEWEST_PEOPLE = 2
Source = Literal["declared", "names"]


class OwnedValue(NamedTuple):
    """A value that an attack tried.

    Attributes:
        value: its text, folded.
        person: whose it is; None where nobody knows.
        alone: whether it stands in no other document.
    """

    value: str
    person: str | None
    alone: bool


@dataclass(frozen=True)
class People:
    """The people of a data set.

    Attributes:
        source: where they come from, as of `PeopleCount`.
        documents: ids of the documents that name a person, by person.
        side: the split that alone names a person, by person; others are left out.
        group: a number for documents that share people, by person.
    """

    source: Source
    documents: Mapping[str, AbstractSet[str]]
    side: Mapping[str, Split]
    group: Mapping[str, int]

    def owner_of(self, document: Document, entity: Entity) -> str | None:
        """Return whose value an entity is; None where nobody knows."""
        if self.source == "declared":
            return _declared_owner(document, entity)
        return _name_of(document, entity)

    def owner_of_answer(self, document: Document, question: Question) -> str | None:
        """Return whose value the answer to a question is; None where nobody knows."""
        for entity in document.entities:
            if entity.id == question.entity:
                return self.owner_of(document, entity)
        if self.source == "names":
            return _name_asked_for(question)
        if document.person is None:
            return None
        return fold(document.person)


def people_of(corpus: Corpus) -> People:
    """Find the people of a data set, as it declares them, else by their names."""
    return corpus.once("people", lambda: _find_people(corpus))


def _find_people(corpus: Corpus) -> People:
    """Find the people of a data set; see `people_of`."""
    source: Source = "declared" if any(map(_declares, corpus.documents)) else "names"
    documents: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        for person in _people_in(document, source):
            documents[person].add(document.id)
            splits[person].add(document.split)
    side: dict[str, Split] = {}
    for person, in_splits in splits.items():
        if len(in_splits) == 1:
            (side[person],) = in_splits
    return People(source, documents, side, _groups_of(documents))


def _declares(document: Document) -> bool:
    """Tell whether a document says whose it is, or whose one of its values is."""
    if document.person is not None:
        return True
    return any(entity.person is not None for entity in document.entities)


def _people_in(document: Document, source: Source) -> set[str]:
    """Return the people whom a document is about, or whom it names."""
    people: set[str | None] = set()
    if source == "names":
        people.update(_name_of(document, entity) for entity in document.entities)
        people.update(map(_name_asked_for, document.questions))
    else:
        people.update(_declared_owner(document, entity) for entity in document.entities)
        if document.person is not None:
            people.add(fold(document.person))
    return {person for person in people if person is not None}


def _declared_owner(document: Document, entity: Entity) -> str | None:
    """Return whose value an entity is, as the data set says; None where it does not."""
    if entity.person is not None:
        return fold(entity.person)
    if document.person is None:
        return None
    return fold(document.person)


def _name_of(document: Document, entity: Entity) -> str | None:
    """Return the folded name of a person; None where an entity is no such name."""
    if entity.category != NAMES_OF_PEOPLE:
        return None
    return fold(document.text_of(entity))


def _name_asked_for(question: Question) -> str | None:
    """Return the folded name that answers a question; None where no name is asked for."""
    if question.category != NAMES_OF_PEOPLE or not question.answers:
        return None
    return fold(question.answers[0])


def _groups_of(documents: Mapping[str, AbstractSet[str]]) -> dict[str, int]:
    """Number the people so that those who share a document, however indirectly, share a number."""
    first: dict[str, str] = {}

    def first_of(name: str) -> str:
        """Return the first document of the group that holds a document."""
        while first.setdefault(name, name) != name:
            first[name] = first[first[name]]
            name = first[name]
        return name

    for names in documents.values():
        start, *others = sorted(names)
        for name in others:
            first[first_of(name)] = first_of(start)
    numbers: dict[str, int] = {}
    groups = {}
    for person, names in documents.items():
        group = first_of(min(names))
        groups[person] = numbers.setdefault(group, len(numbers))
    return groups


def count_returned(
    corpus: Corpus, values: Sequence[OwnedValue], methods: Iterable[MethodHits]
) -> tuple[PeopleCount, ...]:
    """Count, by method, the people of whom a value came back that nobody else's documents hold."""
    people = people_of(corpus)
    is_own = [_is_own_value(corpus, people, value) for value in values]
    counts = []
    for method in methods:
        reached: dict[str, bool] = {}
        for row, value in enumerate(values):
            person = value.person
            counts_here = is_own[row] and method.tried[row]
            if person is not None and person in people.side and counts_here:
                hit = bool(method.hits[row] > IS_HIT)
                reached[person] = reached.get(person, False) or hit
        counts += _count(people, method.method, reached)
    return tuple(counts)


def _is_own_value(corpus: Corpus, people: People, value: OwnedValue) -> bool:
    """Tell whether all documents that hold a value name the person whose value it is."""
    if value.person is None:
        return False
    if value.alone:
        return True
    holders = occurrences(corpus).get(value.value)
    if holders is None:
        return False
    n_own = sum(
        value.value in _values_of(corpus, name) for name in people.documents.get(value.person, ())
    )
    return n_own == sum(holders.anywhere.values())


def _values_of(corpus: Corpus, document_id: str) -> frozenset[str]:
    """Return the folded values of the entities of a document."""
    document = corpus.document(document_id)

    def fold_values() -> frozenset[str]:
        """Fold the values of the document."""
        return frozenset(fold(document.text_of(entity)) for entity in document.entities)

    return corpus.once(("values of", document_id), fold_values)


def count_recognised(
    corpus: Corpus, ids: Sequence[str], columns: Mapping[str, Floats]
) -> tuple[PeopleCount, ...]:
    """Count, by method, the people of whom a document is recognised.

    Args:
        corpus: the data set.
        ids: ids of the documents that were scored.
        columns: scores by method, (n_documents,), NaN where a document has none.
    """
    people = people_of(corpus)
    named = {name: index for index, name in enumerate(ids)}
    heldout = np.array([corpus.document(name).split == "heldout" for name in ids], bool)
    counts = []
    for method, column in columns.items():
        of_unseen = column[heldout & np.isfinite(column)]
        if not of_unseen.size:
            continue
        # So many unseen documents lie above the threshold at most.
        threshold = float(np.quantile(of_unseen, 1 - FALSE_ALARMS, method="higher"))
        reached = _recognised(people, named, column, threshold)
        counts += _count(people, method, reached)
    return tuple(counts)


def _recognised(
    people: People, named: Mapping[str, int], column: Floats, threshold: float
) -> dict[str, bool]:
    """Tell of each person with a scored document whether one of them scores over a threshold.

    Args:
        people: the people of the data set.
        named: rows of the documents by id.
        column: scores, (n_documents,), NaN where a document has none.
        threshold: score over which a document is recognised.
    """
    reached: dict[str, bool] = {}
    for person in people.side:
        rows = [named[name] for name in people.documents[person] if name in named]
        scores = column[rows]
        if np.isfinite(scores).any():
            reached[person] = bool((scores > threshold).any())
    return reached


def _count(people: People, method: str, reached: Mapping[str, bool]) -> list[PeopleCount]:
    """Count the people who were reached on both sides; nothing where none was tried."""
    if not reached:
        return []
    member, heldout = (_share_of(people, split, reached) for split in AUDITED)
    return [PeopleCount(method, people.source, member, heldout)]


def _share_of(people: People, split: Split, reached: Mapping[str, bool]) -> Measurement:
    """Estimate the share of the people of a split who were reached.

    People who share a document, however indirectly, are one cluster.
    """
    of_side = sorted(person for person in reached if people.side[person] == split)
    name = f"people.{split}"
    if len(of_side) < FEWEST_PEOPLE:
        reason = f"fewer than two people whom {WORDS[split]} documents alone name"
        return Unresolved(name, reason, len(of_side), NEEDED_DOCUMENTS)
    hits = np.array([reached[person] for person in of_side], bool)
    clusters = np.array([people.group[person] for person in of_side])
    return estimate_without_null(name, proportion(hits, clusters), "people")
