"""What the target adds to the context: does the model make it worse? (METHODS.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.attacks.redaction import embedding
from audit.attacks.redaction.asking import Said, by_category, categories_of_tags
from audit.attacks.redaction.classifiers import Features, Ints, fit
from audit.attacks.redaction.samples import Samples
from audit.case import Case
from audit.engine.interface import Json, Progress
from audit.record import ALPHAS, Count, Measurement, Unresolved
from audit.stats.shares import net
from audit.targets.interface import TagProbabilities
from audit.targets.utility import estimate

SPLITS = ("member", "heldout")
GAINS = tuple(f"target_gain.{split}" for split in SPLITS)
NOT_ASKED = "the target names neither tags nor hidden words"
CLASSIFIER = "linear-svm"
SAID_WEIGHT = 1.0
"""Of what the target says beside a context of length 1 (ours)."""
SEED = 0


@dataclass(frozen=True)
class Gain:
    """The measurements of `GAINS`, and what was asked."""

    measurements: tuple[Measurement, ...]
    counts: tuple[Count, ...]


def measure_gain(case: Case, samples: Samples, said: Mapping[str, Json], rng: Generator, progress: Progress) -> Gain:
    """Accuracy of context and target together minus that of context alone, by split; null: 0.

    Both are linear SVMs on TF-IDF, fitted in the same training folds on the values that the target was asked about.

    Args:
        case: the audit.
        samples: all values under the manifest's mask.
        said: by document, by value, what the target says of it; None where it cannot read the place.
        rng: of the resampling.
        progress: told of every fold.
    """
    answers: list[Said | None] = [said.get(span.document, {}).get(span.entity) for span in samples.spans]
    asked = np.array([answer is not None for answer in answers], bool)
    unread = sum(answer is None for document in said.values() for answer in document.values())
    counts = (
        Count("asked of the target", int(asked.sum()), "values that the target was asked about"),
        Count("not read by the target", unread, "values at places that the target cannot read"),
    )
    if not said:
        return Gain(tuple(Unresolved(name, NOT_ASKED, 0) for name in GAINS), counts)
    rows = samples.of(asked)
    heard = [answer for answer in answers if answer is not None]
    if TagProbabilities in case.target.answers:
        tags = categories_of_tags(case.corpus, case.reader.labels)
        heard = [by_category(answer, tags) for answer in heard]
    splits = np.array([case.corpus.document(span.document).split for span in rows.spans], dtype=object)
    if len(np.unique(rows.folds)) < 2:
        reason = "the documents that the target was asked about are in one fold"
        return Gain(tuple(Unresolved(name, reason, len(rows), None) for name in GAINS), counts)
    alone, together = _told(rows, heard, progress)
    found: list[Measurement] = []
    for name, split in zip(GAINS, SPLITS, strict=True):
        own = splits == split
        if not own.any():
            found.append(Unresolved(name, f"the target was asked about no {split} document", 0))
            continue
        right, before = (told[own] == rows.classes[own] for told in (together, alone))
        interval = net(right & ~before, before & ~right, rows.documents[own], rng, alphas=ALPHAS)
        found.append(estimate(name, interval, "values", 0.0, "blind"))
    return Gain(tuple(found), counts)


def _told(rows: Samples, heard: list[Said], progress: Progress) -> tuple[Ints, Ints]:
    """What context alone says of each value, and what context and target say: (n,) each."""
    from scipy.sparse import hstack

    alone, together = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    numbers = np.unique(rows.folds)
    progress.stage("redaction: what the target adds", len(numbers))
    for number in numbers:
        held = rows.folds == number
        training, tried = rows.divided(int(number))
        first, second = embedding.tfidf(training.spans, tried.spans)
        page = embedding.layout(training, tried)
        if page is not None:
            first, second = hstack([first, page[0]]).tocsr(), hstack([second, page[1]]).tocsr()
        alone[held] = fit(CLASSIFIER, first, training.classes, SEED).predict(second)
        more = _vectors([heard[place] for place in np.flatnonzero(~held)], [heard[p] for p in np.flatnonzero(held)])
        first, second = hstack([first, more[0]]).tocsr(), hstack([second, more[1]]).tocsr()
        together[held] = fit(CLASSIFIER, first, training.classes, SEED).predict(second)
        progress.advance()
    return alone, together


def _vectors(training: list[Said], held: list[Said]) -> tuple[Features, Features]:
    """What was said as rows of length `SAID_WEIGHT`; numbers that the training folds lack are left out."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.preprocessing import normalize

    vectorizer = DictVectorizer()
    named = [[{f"{int(number)}": weight for number, weight in said} for said in part] for part in (training, held)]
    first, second = vectorizer.fit_transform(named[0]), vectorizer.transform(named[1])
    return SAID_WEIGHT * normalize(first), SAID_WEIGHT * normalize(second)
