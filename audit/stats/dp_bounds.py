"""Bounds that (epsilon, delta) of a training proves on any attack on it (methods.md#dp-training).

A unit is in the training data or not, all else being equal. Whatever is computed from the model and from everything
else, a share of at most `tpr` of the units that are in is called so at a false-positive rate (Wasserman & Zhou 2010,
theorem 2.4; Dong, Roth & Su 2022, proposition 3). All else follows from this curve, which is concave: in means over
units, rates and runs the bounds hold as they stand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST = 600.0
"""Epsilons beyond it are this one: e to it is a number yet, and every bound is 1 long before (ours)."""


@dataclass(frozen=True)
class Guarantee:
    """What differential privacy promises to a unit.

    Attributes:
        epsilon: at least 0.
        delta: in [0, 1].

    Raises:
        ValueError: one of them is out of range.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise ValueError("epsilon must not be negative, and delta lies in [0, 1]")

    @property
    def odds(self) -> float:
        """e^epsilon."""
        return math.exp(min(self.epsilon, LARGEST))

    def of_group(self, size: int) -> Guarantee:
        """The promise to so many units at once: (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)).

        Vadhan 2017, "The complexity of differential privacy", lemma 2.2.

        Args:
            size: m, at least 1.

        Raises:
            ValueError: `size` is less than 1.
        """
        if size < 1:
            raise ValueError("a group has one unit at least")
        whole = size * self.epsilon
        if size == 1 or self.delta == 0:
            return Guarantee(whole, self.delta)
        if self.epsilon == 0:
            return Guarantee(0.0, min(1.0, size * self.delta))
        if whole > LARGEST:
            return Guarantee(whole, 1.0)
        return Guarantee(whole, min(1.0, self.delta * math.expm1(whole) / math.expm1(self.epsilon)))


def tpr(guarantee: Guarantee, fpr: float) -> float:
    """The largest true-positive rate at a false-positive rate: min(1, delta + e^eps a, 1 - e^-eps (1 - delta - a)).

    With one guess at a secret that was drawn out of R equally likely ones, a = 1 / R; with three tries, 3 / R.

    Args:
        guarantee: of the unit.
        fpr: a, in [0, 1]; of the same attack on the same unit had it not been in.
    """
    odds, delta = guarantee.odds, guarantee.delta
    return min(1.0, delta + odds * fpr, 1 - (1 - delta - fpr) / odds)


def advantage(guarantee: Guarantee, fpr: float = 1.0) -> float:
    """The largest true-positive rate minus false-positive rate at false-positive rates of `fpr` at most.

    At any rate it is (e^eps - 1 + 2 delta) / (e^eps + 1), the largest distance in total variation.
    """
    rate = min(fpr, _kink(guarantee))
    return tpr(guarantee, rate) - rate


def balanced_accuracy(guarantee: Guarantee) -> float:
    """The largest mean of the accuracies on both sides: (e^eps + delta) / (e^eps + 1)."""
    return (guarantee.odds + guarantee.delta) / (guarantee.odds + 1)


def auc(guarantee: Guarantee) -> float:
    """The largest area under a ROC curve: that under `tpr`, a polygon.

    An area over pairs of units of one run is bounded by it as well, but for 1 / (2 m) with m units that are out: the
    rank of a unit among those that are out is uniform had it been out itself (proof: methods.md#dp-training).
    """
    delta, rate = guarantee.delta, _kink(guarantee)
    top = tpr(guarantee, rate)
    return rate * (delta + top) / 2 + (1 - delta - rate) * (top + 1) / 2 + delta


def exposure(guarantee: Guarantee, most_bits: float) -> float:
    """The largest mean exposure of planted secrets beyond that of secrets that were never planted, bits.

    Exposure is log2 N - log2 rank, so that its mean is the sum over k < N of P(rank <= k) log2((k + 1) / k). Each of
    these rises by `advantage` at k / N at most; as that does not fall in k, the sum is at most the integral of
    advantage(u) / (u ln 2) from 1 / N to 1.

    Args:
        guarantee: of all copies of a secret together.
        most_bits: log2 N, the exposure of the first rank.
    """
    if most_bits <= 0:
        return 0.0
    rate, delta = _kink(guarantee), guarantee.delta
    top = advantage(guarantee)
    first = 2.0**-most_bits
    if rate <= first:
        return min(most_bits, most_bits * top)
    rising = delta * math.log(rate / first) + (guarantee.odds - 1) * (rate - first)
    return min(most_bits, (rising - top * math.log(rate)) / math.log(2))


def _kink(guarantee: Guarantee) -> float:
    """The false-positive rate at which both bounds on the true-positive rate meet: (1 - delta) / (1 + e^eps)."""
    return (1 - guarantee.delta) / (1 + guarantee.odds)
