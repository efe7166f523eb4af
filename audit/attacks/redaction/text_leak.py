"""What the text tells of hidden values beyond how common each category is, and the findings of the attack.

Method: methods.md#redaction-context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Ints
from audit.attacks.budget import FOLDS
from audit.attacks.interface import Units
from audit.attacks.measuring import Job, Streams, run_jobs
from audit.attacks.redaction.samples import EXCESS, NEEDED, Samples, documents_of
from audit.attacks.redaction.target_gain import measure_gain
from audit.attacks.splits import AUDITED
from audit.case import Case
from audit.corpus.bars import count_covered
from audit.corpus.documents import CATEGORIES, Corpus, Mask
from audit.corpus.redaction import RedactedSpan, redacted_spans
from audit.engine.interface import Json, Progress, Trial
from audit.measurements import ALPHAS, Count, Diagnostic, Measurement, Unresolved
from audit.record import Result
from audit.stats.intervals import proportion
from audit.stats.lift import WorstClass, lift_share, worst_class
from audit.stats.rates import net
from audit.targets.utility import estimate

LEAK = 0.90
"""Accuracy by document above which folds leak until it is explained (methods.md#redaction-context)."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of the category of every value, in the order of the data set; all arrays are (n_values,).

    Attributes:
        samples: the values.
        told: by the classifier, indices into `CATEGORIES`.
        length: by who sees the values' lengths only.
        prior: by who knows only how common each category is.
    """

    samples: Samples
    told: Ints
    length: Ints
    prior: Ints

    @property
    def documents(self) -> Ints:
        """The document of each value."""
        return self.samples.documents

    def hits(self, predicted: Ints) -> Bools:
        """Return where a prediction is right."""
        hits: Bools = self.samples.classes == predicted
        return hits


def gather(samples: Samples, tried: Sequence[tuple[Trial, Json]]) -> Predictions:
    """Put the folds together."""
    columns = {name: np.zeros(len(samples), np.int64) for name in ("predicted", "length", "prior")}
    for trial, outcome in tried:
        if trial.stratum == FOLDS:
            held = samples.folds == number_of(trial)
            for name, column in columns.items():
                column[held] = outcome[name]
    return Predictions(samples, *columns.values())


def number_of(trial: Trial) -> int:
    """Return the fold of a trial: its id is MASK/FOLD/CLASSIFIER."""
    return int(trial.id.split("/")[1])


def measure_redaction(
    case: Case,
    samples: Samples,
    declared: Mask,
    n_folds: int,
    tried: Sequence[tuple[Trial, Json]],
    rng: Generator,
    progress: Progress,
) -> Result:
    """All measurements of the attack.

    Args:
        case: the audit.
        samples: all values.
        declared: the manifest's mask.
        n_folds: of the cross-validation.
        tried: trials and outcomes.
        rng: of the resampling.
        progress: advanced for every stage.
    """
    streams = Streams(rng)
    predictions = gather(samples, tried)
    jobs: list[Job] = [
        partial(_accuracy, "accuracy", predictions, predictions.told),
        partial(_accuracy, "accuracy.length-only", predictions, predictions.length),
        partial(_lift_over_length, predictions, streams[f"lift_over_length.{declared}.linear-svm"]),
        partial(lift_share_of, predictions),
        partial(worst_class_of, predictions),
    ]
    found = run_jobs("redaction: intervals", jobs, progress)
    said = {trial.unit: outcome for trial, outcome in tried if trial.stratum != FOLDS}
    gain = measure_gain(case, samples, said, streams, progress)
    progress.stage("redaction: page images", len(case.corpus.documents))
    covered = count_covered(case.corpus, progress.advance)
    leaking = float(predictions.hits(predictions.told).mean()) > LEAK
    return Result(
        "redaction",
        measurements=(*found, *gain.measurements),
        counts=(
            Count("values", len(samples), "redacted values whose category was told"),
            Count(f"mask: {declared}", len(samples), "values that the data set says are hidden under this mask"),
            Count("documents", len({span.document for span in samples.spans}), "documents with a redacted value"),
            Count("on pages", sum(bool(span.layout) for span in samples.spans), "of the values, those with boxes"),
            *_kinds(predictions),
            *gain.counts,
            Count("looked at under the box", covered.seen, "values with boxes on page images that were opened"),
            Count(
                "text under the box",
                covered.painted,
                "of these, painted over in one colour in the image, while the data set still holds their text",
            ),
        ),
        diagnostics=(
            Diagnostic("folds", n_folds, "of the cross-validation; a document, and a provider, is in one of them"),
            Diagnostic(
                "leak_between_folds",
                float(leaking),
                f"1: an accuracy over {LEAK} by document; what stands on both sides of a fold must be ruled out first",
            ),
        ),
        methods={EXCESS[0]: EXCESS},
        about_text=tuple(item.name for item in found),
    )


def _kinds(predictions: Predictions) -> Iterator[Count]:
    """Count the category that stands for `worst_class`, and what is judged together, or not at all, for being rare."""
    kinds = kinds_of(predictions.samples.classes)
    if kinds.n_rare:
        what = "left out, for they are too few together" if kinds.left_out == RARE else "judged as one"
        yield Count("rare kinds", kinds.n_rare, f"values of kinds with fewer than {NEEDED} values: {what}")
    index = find_best_kind(predictions)
    if index is not None:
        name = CATEGORIES[index] if index < RARE else "rare"
        n = int(np.sum(kinds.of(predictions.samples.classes) == index))
        yield Count(f"told best: {name}", n, "values of the kind that is told best, beyond false calls")


def _accuracy(name: str, predictions: Predictions, predicted: Ints) -> Measurement:
    """Compute the share of values whose category is told; null: naming the commonest of the training folds."""
    found = proportion(predictions.hits(predicted), predictions.documents, alphas=ALPHAS)
    return estimate(name, found, "values", float(predictions.hits(predictions.prior).mean()), "chance")


def _lift_over_length(predictions: Predictions, rng: Generator) -> Measurement:
    """Compute how much more often the context tells the category than the values' lengths do; null: 0."""
    right, blind = predictions.hits(predictions.told), predictions.hits(predictions.length)
    found = net(right & ~blind, blind & ~right, predictions.documents, rng, alphas=ALPHAS)
    return estimate("lift_over_length", found, "values", 0.0, "blind")


RARE = len(CATEGORIES)
"""Where all rare categories stand together."""


def lift_share_of(predictions: Predictions) -> Measurement:
    """See `audit.stats.lift.lift_share`, over naming the commonest category of the training folds; null: 0."""
    prior = predictions.hits(predictions.prior)
    rest = int(np.sum(~prior))
    if rest < NEEDED:
        return Unresolved("lift_share", "too few values of other kinds than the commonest", rest, NEEDED)
    found = lift_share(predictions.hits(predictions.told), prior, predictions.documents, alphas=ALPHAS)
    return estimate("lift_share", found, "values", 0.0, "blind")


def worst_class_of(predictions: Predictions) -> Measurement:
    """See `audit.stats.lift.worst_class`, over the categories, rare ones together as one; null: 0."""
    found = _worst(predictions)
    return found if isinstance(found, Unresolved) else estimate("worst_class", found.interval, "values", 0.0, "blind")


def find_best_kind(predictions: Predictions) -> int | None:
    """The category that `worst_class_of` is about, `RARE` for the rare ones together; None when it is unresolved."""
    found = _worst(predictions)
    return None if isinstance(found, Unresolved) else found.index


def _worst(predictions: Predictions) -> WorstClass | Unresolved:
    kinds = kinds_of(predictions.samples.classes)
    classes, called = kinds.of(predictions.samples.classes), kinds.of(predictions.told)
    judged = classes != kinds.left_out
    counts = np.unique(classes[judged], return_counts=True)[1]
    if counts.size < 2:
        rest = predictions.samples.classes.size - int(counts.max(initial=0))
        return Unresolved("worst_class", "too few values of other kinds than the commonest", rest, NEEDED)
    return worst_class(classes[judged], called[judged], predictions.documents[judged], alphas=ALPHAS)


@dataclass(frozen=True)
class Kinds:
    """The categories as they are judged: each by itself, the rare ones as one.

    Attributes:
        rare: indices into `CATEGORIES` of those with fewer than `NEEDED` values.
        n_rare: how many values they have together.
    """

    rare: tuple[int, ...]
    n_rare: int

    @property
    def left_out(self) -> int:
        """The category that is not judged: `RARE` where even all rare ones are too few, else none (-1)."""
        return RARE if self.n_rare < NEEDED else -1

    def of(self, classes: Ints) -> Ints:
        """Merge the rare ones of these indices into `CATEGORIES`."""
        return np.where(np.isin(classes, self.rare), RARE, classes)


def kinds_of(classes: Ints) -> Kinds:
    """From the category of every value."""
    categories, counts = np.unique(classes, return_counts=True)
    few = counts < NEEDED
    return Kinds(tuple(categories[few].tolist()), int(counts[few].sum()))


UNIT = "documents"


def units_of(corpus: Corpus) -> tuple[Units, ...]:
    """The units of each metric: documents with a redacted value, those that are never divided being one.

    A lift cannot exceed what naming the commonest category leaves. Its share of that rests on documents with a value of
    another category; the category told best on those with the rarest that is judged, against all documents with others.

    Args:
        corpus: the data set, which says how its values are hidden.
    """
    spans = () if corpus.manifest.redaction is None else redacted_spans(corpus.documents, "fixed")
    classes = np.array([CATEGORIES.index(span.category) for span in spans], np.int64)
    documents = documents_of(corpus, spans)
    uncommon = classes != np.bincount(classes, minlength=1).argmax()
    n_uncommon = _count(documents[uncommon]) if uncommon.sum() >= NEEDED else 0
    own, others, n_kinds = _rarest(classes, documents)
    paired = partial(Units, kind="paired difference", unit=UNIT, others=0, about_text=True)
    return (
        paired("lift_over_length", members=_count(documents)),
        paired("lift_share", members=n_uncommon),
        # Each category has an interval of its own, as if it were a method: the rarest stands for all.
        Units("worst_class", "difference", UNIT, own, others, methods=n_kinds, about_text=True),
        _target_gain(corpus, spans, uncommon),
    )


def _rarest(classes: Ints, documents: Ints) -> tuple[int, int, int]:
    """Documents with the rarest category that is judged, those with others, and how many categories are judged."""
    kinds = kinds_of(classes)
    judged = kinds.of(classes)
    categories = [category for category in np.unique(judged).tolist() if category != kinds.left_out]
    if len(categories) < 2:
        return 0, 0, 1
    own, others = min(
        (_count(documents[judged == category]), _count(documents[judged != category])) for category in categories
    )
    return own, others, len(categories)


def _target_gain(corpus: Corpus, spans: tuple[RedactedSpan, ...], uncommon: Bools) -> Units:
    """Members and held-out documents with a value that is not of the commonest category."""
    held = {split: set[str]() for split in AUDITED}
    for span, rare in zip(spans, uncommon, strict=True):
        split = corpus.document(span.document).split
        if rare and split in held:
            held[split].add(span.document)
    members, others = (len(held[split]) for split in AUDITED)
    return Units(EXCESS[0], "difference", UNIT, members, others, methods=len(EXCESS))


def _count(documents: Ints) -> int:
    return int(np.unique(documents).size)
