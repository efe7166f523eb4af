"""Balanced accuracy: how often a guess is right, units that are in and units that are out weighing the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import Interval, beta_bounds, make_interval, tail_levels
from audit.stats.shares import rate

FEW = 20
"""Under so many units on a side the method says "few" (methods.md#statistics)."""
LOPSIDED = 0.1
"""Of the units, a share under this, or over 1 minus this, that is called a member makes a guess lopsided (ours)."""


def balanced_accuracy(
    members: npt.ArrayLike,
    others: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The mean of the true-positive and the true-negative rate, with its interval; 0.5: no better than guessing.

    Each unit brings the share of several runs (seeds) that guess it right; with one run a share is 0 or 1. The two
    rates have the intervals of `rate`, and their reaches are joined as MOVER joins those of independent parts (Zou &
    Donner 2008): 36 units a side, half of them right, give about +-0.12.

    A guess that calls nearly all units the same is right on nearly all of one side and wrong on nearly all of the
    other, and both rates look sure, though it says next to nothing. Where under 10 % of the units, or over 90 %, are
    called members, bounds therefore reach at least as far as where both rates are the balanced accuracy, the widest
    split of it (ours).

    Args:
        members: shares in [0, 1], shape (n_members,), at least one.
        others: shares in [0, 1], shape (n_others,), at least one.
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a row is, singular, for the method's wording.

    Returns:
        In [0, 1]; n and clusters count the units of both sides.

    Raises:
        ValueError: a side is empty, shares outside [0, 1], or a level out of range.
    """
    tails = tail_levels(alphas)
    sides = [np.asarray(side, np.float64) for side in (members, others)]
    rates = [rate(side, np.arange(side.size), rng, alphas=tails.tolist(), unit=unit) for side in sides]
    value = sum(one.value for one in rates) / 2
    bounds = zip(*(one.one_sided for one in rates), strict=True)
    down, up = (np.hypot(*(bound - one.value for bound, one in zip(side, rates, strict=True))) / 2 for side in bounds)
    called = (sides[0].sum() + (1 - sides[1]).sum()) / sum(side.size for side in sides)
    lopsided = not LOPSIDED <= called <= 1 - LOPSIDED
    if lopsided:
        even = [np.array(beta_bounds(value, np.float64(side.size), tails)) for side in sides]
        down = np.maximum(down, np.hypot(*(value - lower for lower, _ in even)) / 2)
        up = np.maximum(up, np.hypot(*(upper - value for _, upper in even)) / 2)
    few = f", few {unit}s" if min(side.size for side in sides) < FEW else ""
    alike = f", as wide as for even rates since nearly all {unit}s are called the same" if lopsided else ""
    n = sum(side.size for side in sides)
    return make_interval(
        value,
        np.maximum(value - down, 0.0),
        np.minimum(value + up, 1.0),
        n=n,
        clusters=n,
        method=f"MOVER on the true-positive and the true-negative rate, {unit}s{few}{alike}",
        alphas=alphas,
    )
