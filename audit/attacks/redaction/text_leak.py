"""The leak of the text beyond how common each category is: predictions, and the numbers that policies limit.

Method: methods.md#redaction-context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.arrays import Bools, Ints
from audit.attacks.budget import FOLDS
from audit.attacks.interface import Units
from audit.attacks.redaction.folds import FoldTrial
from audit.attacks.redaction.samples import BLIND, EXCESS, GATED, NEEDED, Samples, groups_of
from audit.attacks.splits import AUDITED
from audit.corpus.documents import CATEGORIES, Corpus, Mask
from audit.corpus.redaction import RedactedSpan, redacted_spans
from audit.engine.interface import Json, Trial
from audit.measurements import ALPHAS, Measurement, Unresolved
from audit.stats.lift import WorstClass, lift_share, worst_class
from audit.targets.utility import estimate


@dataclass(frozen=True, eq=False)
class Predictions:
    """What everybody says of every value, in the order of the data set; all arrays are (n_values,).

    Attributes:
        samples: the values under the manifest's mask.
        by: indices into `CATEGORIES`, by mask and classifier.
        blind: the same of each of `BLIND`.
        names, fits, own: as `folds.predict` gives them under the mask "length"; None where there is no page, or that
            mask was not tried.
    """

    samples: Samples
    by: Mapping[tuple[Mask, str], Ints]
    blind: Mapping[str, Ints]
    names: Ints | None
    fits: Ints | None
    own: Ints | None = None

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
    by: dict[tuple[Mask, str], Ints] = {}
    blind = {who: np.zeros(len(samples), np.int64) for who in BLIND}
    widths: dict[str, Ints] = {}
    for trial, outcome in tried:
        if trial.stratum != FOLDS:
            continue
        fold = FoldTrial.of(trial.id)
        held = samples.folds == fold.number
        by.setdefault((fold.mask, fold.classifier), np.zeros(len(samples), np.int64))[held] = outcome["predicted"]
        blind["length-only"][held], blind["prior"][held] = outcome["length"], outcome["prior"]
        for name in ("names", "fits", "own"):
            if name in outcome:
                widths.setdefault(name, np.zeros(len(samples), np.int64))[held] = outcome[name]
    return Predictions(samples, by, blind, widths.get("names"), widths.get("fits"), widths.get("own"))


RARE = len(CATEGORIES)
"""Where all rare categories stand together."""


def methods_of(classifiers: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The measurements that a limit on each of `GATED` is held against: every classifier under the manifest's mask.

    The first classifier's number has no suffix.
    """
    return {base: (base, *(f"{base}.{name}" for name in classifiers[1:])) for base in GATED}


def lift_share_of(predictions: Predictions, predicted: Ints, name: str = "lift_share") -> Measurement:
    """See `audit.stats.lift.lift_share`, over naming the commonest category of the training folds; null: 0."""
    prior = predictions.hits(predictions.blind["prior"])
    rest = int(np.sum(~prior))
    if rest < NEEDED:
        return Unresolved(name, "too few values of other kinds than the commonest", rest, NEEDED)
    found = lift_share(predictions.hits(predicted), prior, predictions.documents, alphas=ALPHAS)
    return estimate(name, found, "values", 0.0, "blind")


def worst_class_of(predictions: Predictions, predicted: Ints, name: str = "worst_class") -> Measurement:
    """See `audit.stats.lift.worst_class`, over the categories, rare ones together as one; null: 0."""
    found = _worst(predictions, predicted)
    if isinstance(found, Unresolved):
        return replace(found, name=name)
    return estimate(name, found.interval, "values", 0.0, "blind")


def find_best_kind(predictions: Predictions, predicted: Ints) -> int | None:
    """The category that `worst_class_of` is about, `RARE` for the rare ones together; None when it is unresolved."""
    found = _worst(predictions, predicted)
    return None if isinstance(found, Unresolved) else found.index


def _worst(predictions: Predictions, predicted: Ints) -> WorstClass | Unresolved:
    kinds = kinds_of(predictions.samples.classes)
    classes, called = kinds.of(predictions.samples.classes), kinds.of(predicted)
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


def units_of(corpus: Corpus, n_classifiers: int) -> tuple[Units, ...]:
    """The units of each metric: documents with a redacted value, those that are never divided being one.

    A lift cannot exceed what naming the commonest category leaves. Its share of that rests on documents with a value of
    another category; the category told best on those with the rarest that is judged, against all documents with others.

    Args:
        corpus: the data set, which says how its values are hidden.
        n_classifiers: that are tried: a limit on the text must be met with each.
    """
    spans = () if corpus.manifest.redaction is None else redacted_spans(corpus.documents, "fixed")
    classes = np.array([CATEGORIES.index(span.category) for span in spans], np.int64)
    documents = _documents(corpus, spans)
    uncommon = classes != np.bincount(classes, minlength=1).argmax()
    n_uncommon = _count(documents[uncommon]) if uncommon.sum() >= NEEDED else 0
    own, others, n_kinds = _rarest(classes, documents)
    paired = partial(Units, kind="paired difference", unit=UNIT, others=0, about_text=True)
    return (
        paired("lift_over_length", members=_count(documents)),
        paired("lift_share", members=n_uncommon, methods=n_classifiers),
        # Each category has an interval of its own, as if it were a method: the rarest stands for all.
        Units("worst_class", "difference", UNIT, own, others, methods=n_kinds * n_classifiers, about_text=True),
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


def _documents(corpus: Corpus, spans: tuple[RedactedSpan, ...]) -> Ints:
    """A number for each value's document, the same for those that are never divided."""
    names = sorted({span.document for span in spans})
    groups = dict(zip(names, groups_of([corpus.document(name) for name in names]).tolist(), strict=True))
    return np.array([groups[span.document] for span in spans], np.int64)


def _count(documents: Ints) -> int:
    return int(np.unique(documents).size)
