"""Bounds that the privacy curve of a training proves on any attack on it (methods/dp-training.md).

A unit is in the training data or not, all else being equal. Whatever is computed from the model and
from everything else, a share of at most `tpr` of the units that are in is called so at a
false-positive rate (Wasserman & Zhou 2010, theorem 2.4; Dong, Roth & Su 2022, proposition 3). All
else follows from this curve, which is concave: in means over units, rates and runs the bounds hold
as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

LARGEST = 600.0
"""Epsilons beyond it are this one: e to it is a number yet, and every bound is 1 long before."""


Point = tuple[float, float]
"""An epsilon, and a delta at which it holds."""


@dataclass(frozen=True)
class Guarantee:
    """The differential privacy of a unit, at one epsilon and delta and at others that hold at the same time.

    Attributes:
        epsilon: epsilon, at least 0.
        delta: delta in [0, 1].
        others: further points of the same mechanism's privacy curve; every bound is the least over
            all points (Kulynych et al. 2024).

    Raises:
        ValueError: one of them is out of range.
    """

    epsilon: float
    delta: float
    others: tuple[Point, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a point with a negative epsilon or a delta outside [0, 1]."""
        if not all(epsilon >= 0 and 0 <= delta <= 1 for epsilon, delta in self.points):
            raise ValueError("epsilon must not be negative, and delta lies in [0, 1]")

    @property
    def points(self) -> tuple[Point, ...]:
        """List all points of the curve that are known."""
        return ((self.epsilon, self.delta), *self.others)

    @property
    def odds(self) -> float:
        """Return e^epsilon."""
        return _odds(self.epsilon)

    def of_group(self, size: int) -> Guarantee:
        """Compute the guarantee to so many units at once, point by point.

        Args:
            size: m, at least 1.

        Raises:
            ValueError: `size` is less than 1.
        """
        if size < 1:
            raise ValueError("a group has one unit at least")
        (epsilon, delta), *further = (_of_group(point, size) for point in self.points)
        return Guarantee(epsilon, delta, tuple(further))


def _odds(epsilon: float) -> float:
    """Compute e^epsilon, at most e^`LARGEST`."""
    return math.exp(min(epsilon, LARGEST))


def _of_group(point: Point, size: int) -> Point:
    """Compute a point's guarantee to `size` units at once: epsilon times m, delta as it grows.

    Vadhan 2017, "The complexity of differential privacy", lemma 2.2.
    """
    epsilon, delta = point
    total = size * epsilon
    if size == 1 or delta == 0:
        return total, delta
    if epsilon == 0:
        return 0.0, min(1.0, size * delta)
    if total > LARGEST:
        return total, 1.0
    return total, min(1.0, delta * math.expm1(total) / math.expm1(epsilon))


def tpr(guarantee: Guarantee, fpr: float) -> float:
    """Compute the largest true-positive rate at false-positive rate `fpr` under a guarantee.

    It is the least over all points of min(1, delta + e^eps a, 1 - e^-eps (1 - delta - a)):
    piecewise linear, concave. With one guess at a secret that was drawn out of R equally likely
    ones, a = 1 / R; with three tries, 3 / R.

    Args:
        guarantee: guarantee of the unit.
        fpr: a, in [0, 1]; of the same attack on the same unit had it not been in.
    """
    lines = [(_odds(epsilon), delta) for epsilon, delta in guarantee.points]
    return min(
        1.0, *(min(delta + odds * fpr, 1 - (1 - delta - fpr) / odds) for odds, delta in lines)
    )


def advantage(guarantee: Guarantee, fpr: float = 1.0) -> float:
    """Compute the largest true-positive rate minus `fpr` that a guarantee allows.

    False-positive rates are those of `fpr` at most.

    At any rate it is the least (e^eps - 1 + 2 delta) / (e^eps + 1), the largest distance in total
    variation.
    """
    rate = min(fpr, _crossing_rate(guarantee))
    return tpr(guarantee, rate) - rate


def balanced_accuracy(guarantee: Guarantee) -> float:
    """Compute the largest balanced accuracy that a guarantee allows.

    The least (e^eps + delta) / (e^eps + 1).
    """
    return 1 - _crossing_rate(guarantee)


def auc(guarantee: Guarantee) -> float:
    """Compute the largest AUC that a guarantee allows: the area under the curve of `tpr`.

    An area over pairs of units of one run is bounded by it as well, but for 1 / (2 m) with m units
    that are out: the rank of a unit among those that are out is uniform had it been out itself
    (proof: methods/dp-training.md).
    """
    # The area above the polygon is cut into two equal halves by its axis of symmetry, on which the
    # rates sum to 1.
    missing = 0.0
    for left, right, delta, odds in _pieces(guarantee):
        missing += (right - left) * sum(1 - rate - delta - odds * rate for rate in (left, right))
    return 1 - missing


def _pieces(guarantee: Guarantee) -> Iterator[tuple[float, float, float, float]]:
    """Yield the sides of `tpr` from no false positives to where it meets 1 - rate.

    Beyond, it mirrors itself there.

    Each is its false-positive rates, from and to, delta and odds: delta + odds * rate.
    """
    lines = [(delta, _odds(epsilon)) for epsilon, delta in guarantee.points]
    end = _crossing_rate(guarantee)
    left = 0.0
    delta, odds = min(lines)
    while left < end:
        flatter = [line for line in lines if line[1] < odds]
        crossings = [((line[0] - delta) / (odds - line[1]), line) for line in flatter]
        right, following = min(crossings, default=(end, (delta, odds)))
        yield left, min(right, end), delta, odds
        left = right
        delta, odds = following


def _crossing_rate(guarantee: Guarantee) -> float:
    """Compute the false-positive rate at which `tpr` is 1 minus that rate.

    The largest (1 - delta) / (1 + e^eps).
    """
    return max((1 - delta) / (1 + _odds(epsilon)) for epsilon, delta in guarantee.points)
