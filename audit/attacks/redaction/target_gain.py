"""The gain of the target over the context: does the model make it worse? (methods.md#redaction-context)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Ints
from audit.attacks.measuring import Streams
from audit.attacks.redaction import embedding
from audit.attacks.redaction.classifiers import Features, fit
from audit.attacks.redaction.names import EXCESS, GAINS
from audit.attacks.redaction.samples import NEEDED, Samples
from audit.attacks.redaction.target_guess import Guess, by_category, can_guess, categories_of_tags
from audit.attacks.splits import AUDITED
from audit.case import Case
from audit.engine.interface import Json, Progress
from audit.measurements import ALPHAS, Count, Measurement, Unresolved
from audit.stats.rates import excess_rate
from audit.stats.shares import net
from audit.targets.interface import NONE_AUDITED, TagProbabilities
from audit.targets.utility import estimate

NOT_ASKED = "the target names neither tags nor hidden words"
NOTHING_HIDDEN = "no member or held-out document holds a redacted value"
CLASSIFIER = "linear-svm"
GUESS_WEIGHT = 1.0
"""Of what the target says beside a context of length 1 (ours)."""
SEED = 0


@dataclass(frozen=True)
class Gain:
    """The measurements of `GAINS`, and what was asked."""

    measurements: tuple[Measurement, ...]
    counts: tuple[Count, ...]


def measure_gain(
    case: Case, samples: Samples, guesses: Mapping[str, Json], streams: Streams, progress: Progress
) -> Gain:
    """Accuracy of context and target together minus that of context alone, by split; null: 0.

    `target_gain` is what that is more on members than on held-out documents: what the target tells because it was
    trained on them, for a gain on both is what it knows of the language. `target_gain.uncommon` is the same for the
    values of other categories than the commonest, which could hide behind it. Both attackers are linear SVMs on TF-IDF,
    fitted in the same training folds on the values that the target was asked about.

    Args:
        case: the audit.
        samples: all values under the manifest's mask.
        guesses: by document, by value, what the target says of it; None where it cannot read the place.
        streams: of the resampling.
        progress: advanced for every fold.
    """
    answers: list[Guess | None] = [guesses.get(span.document, {}).get(span.entity) for span in samples.spans]
    asked = np.array([answer is not None for answer in answers], bool)
    unread = sum(answer is None for document in guesses.values() for answer in document.values())
    counts = (
        Count("asked of the target", int(asked.sum()), "values that the target was asked about"),
        Count("not read by the target", unread, "values at places that the target cannot read"),
    )
    if not guesses:
        able = can_guess(case.target)
        reason = NOTHING_HIDDEN if able else NOT_ASKED if case.target.card.is_model else NONE_AUDITED
        return Gain(tuple(Unresolved(name, reason, 0, inapplicable=not able) for name in GAINS), counts)
    rows = samples.of(asked)
    if len(np.unique(rows.folds)) < 2:
        reason = "the documents that the target was asked about are in one fold"
        return Gain(tuple(Unresolved(name, reason, len(rows), None) for name in GAINS), counts)
    given = [answer for answer in answers if answer is not None]
    if TagProbabilities in case.target.answers:
        tags = categories_of_tags(case.corpus, case.token_target.labels)
        given = [by_category(answer, tags) for answer in given]
    alone, together = (predicted == rows.classes for predicted in _predict_both(rows, given, progress))
    splits = np.array([case.corpus.document(span.document).split for span in rows.spans], dtype=object)

    def sides(among: Bools) -> tuple[_Side, _Side]:
        member, heldout = (among & (splits == split) for split in AUDITED)
        return _Side.of(member, together, alone, rows), _Side.of(heldout, together, alone, rows)

    everything = sides(np.ones(len(rows), bool))
    uncommon = sides(rows.classes != np.bincount(rows.classes).argmax())
    excesses = (_excess(name, *pair, streams[name]) for name, pair in zip(EXCESS, (everything, uncommon), strict=True))
    return Gain((*excesses, *_by_split(everything, streams)), counts)


@dataclass(frozen=True, eq=False)
class _Side:
    """Values of a split, all of shape (n,): where context and target, and context alone, are right; the document."""

    together: Bools
    alone: Bools
    documents: Ints

    @classmethod
    def of(cls, own: Bools, together: Bools, alone: Bools, rows: Samples) -> Self:
        """Those of the values where `own` holds."""
        return cls(together[own], alone[own], rows.documents[own])


def _by_split(sides: Sequence[_Side], streams: Streams) -> Iterator[Measurement]:
    for split, side in zip(AUDITED, sides, strict=True):
        name = f"target_gain.{split}"
        if side.documents.size:
            gained, lost = side.together & ~side.alone, side.alone & ~side.together
            yield estimate(
                name, net(gained, lost, side.documents, streams[name], alphas=ALPHAS), "values", 0.0, "blind"
            )
        else:
            yield Unresolved(name, f"the target was asked about no {split} document", 0)


def _excess(name: str, member: _Side, heldout: _Side, rng: Generator) -> Measurement:
    for split, side in zip(AUDITED, (member, heldout), strict=True):
        if side.documents.size < NEEDED:
            reason = f"the target was asked about too few values of {split} documents"
            return Unresolved(name, reason, side.documents.size, NEEDED)
    found = excess_rate(
        member.together,
        member.alone,
        member.documents,
        heldout.together,
        heldout.alone,
        heldout.documents,
        rng,
        alphas=ALPHAS,
    )
    return estimate(name, found, "values", 0.0, "held-out")


def _predict_both(rows: Samples, given: list[Guess], progress: Progress) -> tuple[Ints, Ints]:
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
        more = _vectors([given[index] for index in np.flatnonzero(~held)], [given[p] for p in np.flatnonzero(held)])
        first, second = hstack([first, more[0]]).tocsr(), hstack([second, more[1]]).tocsr()
        together[held] = fit(CLASSIFIER, first, training.classes, SEED).predict(second)
        progress.advance()
    return alone, together


def _vectors(training: list[Guess], held: list[Guess]) -> tuple[Features, Features]:
    """What was said as rows of length `GUESS_WEIGHT`; numbers that the training folds lack are left out."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.preprocessing import normalize

    vectorizer = DictVectorizer()
    named = [
        [{f"{int(number)}": weight for number, weight in guesses} for guesses in part] for part in (training, held)
    ]
    first, second = vectorizer.fit_transform(named[0]), vectorizer.transform(named[1])
    return GUESS_WEIGHT * normalize(first), GUESS_WEIGHT * normalize(second)
