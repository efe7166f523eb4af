"""What the text gives away beyond how common each category is: the numbers that policies limit.

Method: methods.md#redaction-context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.arrays import Ints
from audit.attacks.redaction.predictions import Predictions
from audit.corpus.documents import CATEGORIES
from audit.measurements import ALPHAS, Measurement, Unresolved
from audit.stats.lift import WorstClass, lift_share, worst_class
from audit.targets.utility import estimate

GATED = ("lift_share", "worst_class")
"""The share told of what naming the commonest category leaves untold, and the category that is told best."""
NEEDED = 10
"""Values under which a category has no row of its own, and is judged together with others as rare (ours)."""
RARE = len(CATEGORIES)
"""Where all rare categories stand together."""


def methods_of(classifiers: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The measurements that a limit on each of `GATED` is held against: every classifier under the manifest's mask.

    The first classifier's number has no suffix.
    """
    return {base: (base, *(f"{base}.{name}" for name in classifiers[1:])) for base in GATED}


def lift_share_of(told: Predictions, predicted: Ints) -> Measurement:
    """See `audit.stats.lift.lift_share`, over naming the commonest category of the training folds; null: 0."""
    prior = told.hits(told.blind["prior"])
    rest = int(np.sum(~prior))
    if rest < NEEDED:
        return Unresolved("lift_share", "too few values of other kinds than the commonest", rest, NEEDED)
    found = lift_share(told.hits(predicted), prior, told.documents, alphas=ALPHAS)
    return estimate("lift_share", found, "values", 0.0, "blind")


def worst_class_of(told: Predictions, predicted: Ints) -> Measurement:
    """See `audit.stats.lift.worst_class`, over the categories, rare ones together as one; null: 0."""
    found = _worst(told, predicted)
    if isinstance(found, Unresolved):
        return found
    return estimate("worst_class", found.interval, "values", 0.0, "blind")


def told_best(told: Predictions, predicted: Ints) -> int | None:
    """The category that `worst_class_of` is about, `RARE` for the rare ones together; None when it is unresolved."""
    found = _worst(told, predicted)
    return None if isinstance(found, Unresolved) else found.index


def _worst(told: Predictions, predicted: Ints) -> WorstClass | Unresolved:
    kinds = kinds_of(told.samples.classes)
    classes, said = kinds.of(told.samples.classes), kinds.of(predicted)
    judged = classes != kinds.left_out
    counts = np.unique(classes[judged], return_counts=True)[1]
    if counts.size < 2:
        rest = told.samples.classes.size - int(counts.max(initial=0))
        return Unresolved("worst_class", "too few values of other kinds than the commonest", rest, NEEDED)
    return worst_class(classes[judged], said[judged], told.documents[judged], alphas=ALPHAS)


@dataclass(frozen=True)
class Kinds:
    """The categories as they are judged: each by itself, the rare ones as one.

    Attributes:
        rare: places in `CATEGORIES` of those with fewer than `NEEDED` values.
        n_rare: how many values they have together.
    """

    rare: tuple[int, ...]
    n_rare: int

    @property
    def left_out(self) -> int:
        """The place that is not judged: `RARE` where even all rare ones are too few, else none (-1)."""
        return RARE if self.n_rare < NEEDED else -1

    def of(self, places: Ints) -> Ints:
        """Places in `CATEGORIES` with rare ones put together."""
        return np.where(np.isin(places, self.rare), RARE, places)


def kinds_of(classes: Ints) -> Kinds:
    """From the category of every value."""
    places, counts = np.unique(classes, return_counts=True)
    few = counts < NEEDED
    return Kinds(tuple(places[few].tolist()), int(counts[few].sum()))
