"""Measurements on the folds and the target's guesses (methods.md#redaction-context and #statistics)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks.budget import FOLDS
from audit.attacks.interface import Findings
from audit.attacks.measuring import Job, Streams, run_jobs
from audit.attacks.redaction.samples import EXCESS, NEEDED, samples_of
from audit.attacks.redaction.target_gain import measure_gain
from audit.attacks.redaction.text_leak import (
    RARE,
    Predictions,
    find_best_kind,
    gather,
    kinds_of,
    lift_share_of,
    methods_of,
    worst_class_of,
)
from audit.case import Case
from audit.corpus.bars import count_covered
from audit.corpus.documents import CATEGORIES, Mask
from audit.engine.interface import Json, Progress, Trial
from audit.measurements import ALPHAS, Count, Diagnostic, Measurement, Unresolved
from audit.stats.intervals import Interval, agreement_interval, cluster_sums, proportion
from audit.stats.means import mean
from audit.stats.rates import net
from audit.stats.resampling import bootstrap
from audit.targets.utility import estimate

LEAK = 0.90
"""Accuracy by document above which folds leak until it is explained (methods.md#redaction-context)."""


def measure_redaction(
    case: Case,
    declared: Mask,
    classifiers: Sequence[str],
    n_folds: int,
    tried: Sequence[tuple[Trial, Json]],
    rng: Generator,
    progress: Progress,
) -> Findings:
    """All measurements of the attack.

    Args:
        case: the audit.
        declared: the manifest's mask: numbers without a mask are under it.
        classifiers: that were tried; numbers without one are the first's.
        n_folds: of the cross-validation.
        tried: trials and outcomes.
        rng: of the resampling.
        progress: advanced for every stage.
    """
    streams = Streams(rng)
    predictions = gather(samples_of(case.corpus, declared, n_folds), tried)
    found = run_jobs("redaction: intervals", _jobs(predictions, declared, classifiers, streams), progress)
    said = {trial.unit: outcome for trial, outcome in tried if trial.stratum != FOLDS}
    gain = measure_gain(case, predictions.samples, said, streams, progress)
    progress.stage("redaction: page images", len(case.corpus.documents))
    covered = count_covered(case.corpus, progress.advance)
    samples = predictions.samples
    best = max(float(predictions.hits(column).mean()) for column in predictions.by.values())
    return Findings(
        (*found, *gain.measurements),
        counts=(
            Count("values", len(samples), "redacted values whose category was told"),
            Count(f"mask: {declared}", len(samples), "values that the data set says are hidden under this mask"),
            Count("documents", len({span.document for span in samples.spans}), "documents with a redacted value"),
            Count("on pages", sum(bool(span.layout) for span in samples.spans), "of the values, those with boxes"),
            *(
                Count(f"values: {CATEGORIES[index]}", int(count), "redacted values of this category")
                for index, count in enumerate(np.bincount(samples.classes, minlength=len(CATEGORIES)))
                if count
            ),
            *_kinds(predictions, predictions.by[declared, classifiers[0]]),
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
                float(best > LEAK),
                f"1: an accuracy over {LEAK} by document; what stands on both sides of a fold must be ruled out first",
            ),
            *_fitting(predictions),
        ),
        categories=tuple(CATEGORIES[index] for index in np.unique(samples.classes)),
        methods={**methods_of(classifiers), EXCESS[0]: EXCESS},
        about_text=tuple(item.name for item in found),
    )


def _kinds(predictions: Predictions, predicted: Ints) -> Iterator[Count]:
    """The category that stands for `worst_class`, and what is judged together, or not at all, for being rare."""
    kinds = kinds_of(predictions.samples.classes)
    if kinds.n_rare:
        what = "left out, for they are too few together" if kinds.left_out == RARE else "judged as one"
        yield Count("rare kinds", kinds.n_rare, f"values of kinds with fewer than {NEEDED} values: {what}")
    index = find_best_kind(predictions, predicted)
    if index is not None:
        name = CATEGORIES[index] if index < RARE else "rare"
        n = int(np.sum(kinds.of(predictions.samples.classes) == index))
        yield Count(f"told best: {name}", n, "values of the kind that is told best, beyond false calls")


def macro_f1(classes: Ints, predicted: Ints, documents: Ints, rng: Generator) -> Interval:
    """The mean over categories of F1 = 2 tp / (2 tp + fp + fn), of those that occur: BCa over documents.

    Where all documents agree, the bounds are those of `audit.stats.intervals.agreeing` (ours).
    """
    columns: list[Floats] = []
    for category in np.union1d(classes, predicted):
        true, said = classes == category, predicted == category
        columns += [(true & said).astype(np.float64), true.astype(np.float64) + said]
    sums = cluster_sums(columns, documents)
    interval = bootstrap([sums], _mean_f1, rng, alphas=ALPHAS, n=len(classes), limits=(0.0, 1.0))
    if interval is not None:
        return interval
    value = float(_mean_f1(sums.sum(axis=0)[None, None])[0])
    return agreement_interval(value, n=len(classes), clusters=len(sums), alphas=ALPHAS)


def _mean_f1(totals: Floats) -> Floats:
    """From the sums of hits, and of true plus predicted, of each category: (n, 1, 2 n_categories) to (n,)."""
    both, either = totals[:, 0, ::2], totals[:, 0, 1::2]
    scores = np.divide(2 * both, either, out=np.zeros_like(both), where=either > 0)
    average: Floats = scores.mean(axis=1)
    return average


def _jobs(predictions: Predictions, declared: Mask, classifiers: Sequence[str], streams: Streams) -> Iterator[Job]:
    """Return every measurement of the text as a call."""
    first = classifiers[0]
    main = predictions.by[declared, first]
    yield partial(_accuracy, "accuracy", predictions, main)
    for (mask, classifier), predicted in predictions.by.items():
        if classifier == first:
            yield partial(_accuracy, f"accuracy.{mask}", predictions, predicted)
    yield partial(_accuracy, "accuracy.length-only", predictions, predictions.blind["length-only"])
    yield partial(_lift_over_length, predictions, main, streams[f"lift_over_length.{declared}.{first}"])
    for classifier in classifiers:
        predicted = predictions.by[declared, classifier]
        suffix = "" if classifier == first else f".{classifier}"
        yield partial(lift_share_of, predictions, predicted, f"lift_share{suffix}")
        yield partial(worst_class_of, predictions, predicted, f"worst_class{suffix}")
    if predictions.names is not None:
        yield partial(_dictionary_share, predictions, streams["dictionary_share"])


def _accuracy(name: str, predictions: Predictions, predicted: Ints) -> Measurement:
    """Compute the share of values whose category is told; null: naming the commonest of the training folds."""
    found = proportion(predictions.hits(predicted), predictions.documents, alphas=ALPHAS)
    return estimate(name, found, "values", float(predictions.hits(predictions.blind["prior"]).mean()), "chance")


def _lift_over_length(predictions: Predictions, predicted: Ints, rng: Generator) -> Measurement:
    """Compute how much more often the context tells the category than the values' lengths do; null: 0."""
    right, blind = predictions.hits(predicted), predictions.hits(predictions.blind["length-only"])
    found = net(right & ~blind, blind & ~right, predictions.documents, rng, alphas=ALPHAS)
    return estimate("lift_over_length", found, "values", 0.0, "blind")


def _dictionary_share(predictions: Predictions, rng: Generator) -> Measurement:
    """Of the values of its category in other documents, the share that is as wide as the bar; null: all of them."""
    assert predictions.names is not None
    assert predictions.fits is not None
    known = predictions.names > 0
    if not known.any():
        return Unresolved("dictionary_share", "no value has others of its category in a dictionary", 0, NEEDED)
    shares = predictions.fits[known] / predictions.names[known]
    return estimate(
        "dictionary_share", mean(shares, predictions.documents[known], rng, alphas=ALPHAS), "values", 1.0, "chance"
    )


def _fitting(predictions: Predictions) -> Iterator[Diagnostic]:
    if predictions.names is None or predictions.fits is None or not (predictions.names > 0).any():
        return
    known = predictions.names > 0
    yield Diagnostic(
        "dictionary", float(predictions.names[known].mean()), "values of its category in the dictionary, mean"
    )
    yield Diagnostic(
        "fitting", float(predictions.fits[known].mean()), "of these, as wide as the bar within a pixel, mean"
    )
    if predictions.own is not None:
        yield Diagnostic(
            "fitting_own", float(predictions.own[known].mean()), "share of values that are themselves as wide"
        )
