"""Scores of people by name: who is judged, aggregation over prompts, areas, and who is recognised.

Scores are larger for what looks more like a member. People are rows, prompts are columns.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.membership.by_name import is_full_name
from audit.attacks.people import FALSE_ALARMS, NAMES_OF_PEOPLE, People, people_of
from audit.corpus.documents import Corpus, Document, Entity
from audit.corpus.folding import fold
from audit.stats.intervals import join_groups
from audit.stats.roc import auc, auc_interval

FOLDS = 2
RESAMPLES = 500


def judged_people(corpus: Corpus, seed: int) -> dict[str, str]:
    """Draw the people who are judged: full names of one side alone, one of a group.

    A group is joined by shared documents, so that the judged people are independent.

    Args:
        corpus: members' documents and held-out ones.
        seed: of the draw.

    Returns:
        Names as they are written, by person as of `people_of`.
    """
    people = people_of(corpus)
    written: dict[str, str] = {}
    for document, entity in _names(corpus):
        name = document.text_of(entity)
        if is_full_name(name) and fold(name) in people.side:
            written[fold(name)] = name
    drawn: dict[str, str] = {}
    for group in join_groups(_together(people, sorted(written))):
        person = random.Random(f"{seed} {group[0]}").choice(group)
        drawn[person] = written[person]
    return drawn


def _names(corpus: Corpus) -> Iterator[tuple[Document, Entity]]:
    """Give the names of people in documents."""
    for document in corpus.documents:
        for entity in document.entities:
            if entity.category == NAMES_OF_PEOPLE:
                yield document, entity


def _together(people: People, names: Sequence[str]) -> list[set[str]]:
    """Collect the people whom each document names."""
    by_document: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for document in people.documents[name]:
            by_document[document].add(name)
    return list(by_document.values())


def naming_only(corpus: Corpus, judged: Collection[str]) -> Corpus:
    """Return the corpus whose only entities are the names of these people."""
    names_in: dict[str, list[Entity]] = defaultdict(list)
    for document, entity in _names(corpus):
        if fold(document.text_of(entity)) in judged:
            names_in[document.id].append(entity)
    documents = tuple(
        replace(document, entities=tuple(names_in[document.id])) for document in corpus.documents
    )
    return Corpus(corpus.root, corpus.manifest, documents, corpus.sha256)


def page_scores(corpus: Corpus, judged: Iterable[str], of_documents: Mapping[str, float]) -> Floats:
    """Return the largest score of each person's documents, (n_people,)."""
    people = people_of(corpus)
    scores: list[float] = []
    for person in judged:
        largest = max(of_documents[document] for document in people.documents[person])
        scores.append(largest)
    return np.array(scores)


# Prompts


def folds_of(member: Bools, seed: int) -> Ints:
    """Divide each side into folds of equal size at random, (n_people,)."""
    rng = np.random.default_rng(seed)
    folds = np.empty(len(member), np.int64)
    for side in (True, False):
        rows = rng.permutation(np.flatnonzero(member == side))
        folds[rows] = np.arange(rows.size) % FOLDS
    return folds


# Areas


def area_of(scores: Floats, member: Bools, folds: Ints) -> list[float]:
    """Return the area with its 95 % interval: the means over folds of areas and of bounds.

    Args:
        scores: (n_people,).
        member: (n_people,).
        folds: (n_people,), all equal where no fold was chosen on another.
    """
    bounds = []
    for inside, outside in _sides(scores, member, folds):
        interval = auc_interval(inside, outside)
        bounds.append([interval.value, interval.low, interval.high])
    return [round(float(bound), 3) for bound in np.mean(bounds, axis=0)]


def gain_of(first: Floats, second: Floats, member: Bools, folds: Ints) -> list[float]:
    """Return the first score's area minus the second's, with a 95 % bootstrap over people."""
    rng = np.random.default_rng(0)
    strata = [
        np.flatnonzero((member == side) & (folds == number))
        for side in (True, False)
        for number in np.unique(folds)
    ]
    draws = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rng.choice(stratum, stratum.size) for stratum in strata])
        draws.append(_gain(first[rows], second[rows], member[rows], folds[rows]))
    low, high = np.quantile(draws, [0.025, 0.975])
    value = _gain(first, second, member, folds)
    return [round(float(bound), 3) for bound in (value, low, high)]


def _gain(first: Floats, second: Floats, member: Bools, folds: Ints) -> float:
    """Return the first score's area minus the second's."""
    areas = [
        np.mean([auc(*sides) for sides in _sides(scores, member, folds)])
        for scores in (first, second)
    ]
    return float(areas[0] - areas[1])


def recognised(scores: Floats, member: Bools, folds: Ints) -> list[float]:
    """Return the shares of members and of unseen people over the threshold of a fold.

    A tenth of the fold's unseen people lie over it at most, as in `count_recognised`.
    """
    hits: dict[bool, list[NDArray[np.bool_]]] = {True: [], False: []}
    for inside, outside in _sides(scores, member, folds):
        threshold = np.quantile(outside, 1 - FALSE_ALARMS, method="higher")
        hits[True].append(inside > threshold)
        hits[False].append(outside > threshold)
    return [round(float(np.concatenate(hits[side]).mean()), 3) for side in (True, False)]


def _sides(scores: Floats, member: Bools, folds: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Give the scores of members and of unseen people, fold by fold."""
    for number in np.unique(folds):
        here = folds == number
        yield scores[here & member], scores[here & ~member]
