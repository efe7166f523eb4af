"""Recompute from journals and labels how many people each attack reached.

People are those whom the data set declares, else distinct names. A person counts on the side whose
documents alone name that person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from audit.corpus.folding import fold
from benchmarks.tools import recount_intervals as intervals
from benchmarks.tools.recount_attacks import Found, asked_of, document_scores, values_found
from benchmarks.tools.recount_scan import Document, Scan, value_of

FALSE_ALARMS = 0.1
"""Share of unseen documents that score above the threshold over which a document is recognised."""
IS_HIT = 0.5
FEWEST = 2


class Reach(NamedTuple):
    """The people of a side whom an attack reached, of how many, and the interval of their share."""

    hits: int
    n: int
    low: float
    high: float


class Everybody(NamedTuple):
    """The people of a data set.

    Attributes:
        declared: whether the data set says whose a document or a value is.
        documents: ids of the documents that name a person, by person.
        side: the split that alone names a person.
        group: a name for all people who share documents, by person.
    """

    declared: bool
    documents: Mapping[str, set[str]]
    side: Mapping[str, str]
    group: Mapping[str, str]


def everybody_of(scan: Scan) -> Everybody:
    """Find the people of a data set."""
    declared = False
    for document in scan.documents.values():
        entities = document.get("entities", ())
        if document.get("person") or any(entity.get("person") for entity in entities):
            declared = True
    documents: dict[str, set[str]] = defaultdict(set)
    for name, document in scan.documents.items():
        for person in _named_in(document, declared=declared):
            documents[person].add(name)
    side = {}
    for person, names in documents.items():
        splits = {scan.documents[name]["split"] for name in names}
        if len(splits) == 1:
            side[person] = splits.pop()
    return Everybody(declared, documents, side, _groups(documents))


def _named_in(document: Document, *, declared: bool) -> set[str]:
    """Return the people whom a document is about, or whom it names."""
    entities = document.get("entities", ())
    if declared:
        people = {entity.get("person") for entity in entities} | {document.get("person")}
        return {fold(person) for person in people if person}
    names = {value_of(document, row) for row in entities if row["category"] == "person"}
    for question in document.get("questions", ()):
        if question.get("category") == "person" and question["answers"]:
            names.add(fold(question["answers"][0]))
    return names


def _groups(documents: Mapping[str, set[str]]) -> dict[str, str]:
    """Name the groups of people who share documents, however indirectly."""
    group = {person: person for person in documents}
    by_document: dict[str, list[str]] = defaultdict(list)
    for person, names in documents.items():
        for name in names:
            by_document[name].append(person)
    changed = True
    while changed:
        changed = False
        for people in by_document.values():
            first = min(group[person] for person in people)
            for person in people:
                if group[person] != first:
                    group[person] = first
                    changed = True
    return group


def people_reached(scan: Scan, attack: str) -> dict[str, dict[str, Reach]]:
    """Return the people whom an attack reached, by way of choosing, then by side."""
    everybody = everybody_of(scan)
    reached: dict[str, dict[str, bool]] = {}
    if attack == "membership":
        for score, column in document_scores(scan).items():
            reached[score] = _recognised(scan, everybody, column)
    for way, rows in values_found(scan, attack).items():
        people: dict[str, bool] = {}
        for row in rows:
            person = _owner(scan, everybody, row)
            if person in everybody.side and _is_own(scan, everybody, attack, row, person):
                people[person] = people.get(person, False) or row.hit > IS_HIT
        reached[way] = people
    return {way: _by_side(everybody, people) for way, people in reached.items()}


def _recognised(scan: Scan, everybody: Everybody, losses: Mapping[str, float]) -> dict[str, bool]:
    """Tell of each person whether a document scores over nine in ten unseen ones."""
    unseen = [loss for name, loss in losses.items() if scan.documents[name]["split"] == "heldout"]
    threshold = float(np.quantile(-np.array(unseen), 1 - FALSE_ALARMS, method="higher"))
    reached = {}
    for person in everybody.side:
        scores = [-losses[name] for name in everybody.documents[person] if name in losses]
        if scores:
            reached[person] = max(scores) > threshold
    return reached


def _owner(scan: Scan, everybody: Everybody, row: Found) -> str:
    """Return whose value was tried; empty where nobody knows."""
    document, question, entity = asked_of(scan, row.key)
    if everybody.declared:
        person = document.get("person")
        if entity is not None and entity.get("person"):
            person = entity["person"]
        return fold(person) if person else ""
    if entity is not None:
        return value_of(document, entity) if entity["category"] == "person" else ""
    if question is not None and question.get("category") == "person":
        return fold(question["answers"][0])
    return ""


def _is_own(scan: Scan, everybody: Everybody, attack: str, row: Found, person: str) -> bool:
    """Tell whether all documents that hold a value name the person whose value it is."""
    document, question, entity = asked_of(scan, row.key)
    value = ""
    if question is not None:
        value = fold(question["answers"][0])
    elif entity is not None:
        value = value_of(document, entity)
    if _stands_alone(scan, attack, row, value):
        return True
    holders = scan.holders.get(value, frozenset())
    own = set()
    for name in everybody.documents[person]:
        page = scan.documents[name]
        if value in {value_of(page, other) for other in page.get("entities", ())}:
            own.add(name)
    return bool(holders) and len(own) == len(holders)


def _stands_alone(scan: Scan, attack: str, row: Found, value: str) -> bool:
    """Tell whether a value stands in no other document; an answer, in no other of training."""
    if attack == "memorisation":
        return scan.answered.get(value, frozenset()) <= {row.key[0]}
    if scan.task == "question-answering":
        return scan.trained.get(value, frozenset()) <= {row.key[0]}
    return scan.is_alone(value)


def _by_side(everybody: Everybody, reached: Mapping[str, bool]) -> dict[str, Reach]:
    """Count the people who were reached on each side; a side of fewer than two is left out."""
    sides = {}
    for split in ("member", "heldout"):
        people = sorted(person for person in reached if everybody.side[person] == split)
        if len(people) < FEWEST:
            continue
        hits = [float(reached[person]) for person in people]
        groups = [everybody.group[person] for person in people]
        low, high = intervals.korn_graubard(hits, groups)
        sides[split] = Reach(int(sum(hits)), len(people), low, high)
    return sides
