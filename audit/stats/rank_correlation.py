"""Spearman's rank correlation of paired values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import Interval, make_interval, tail_levels

FEWEST = 5
"""Pairs without which the interval has no meaning: its variance is 1.06 / (n - 3)."""


def rank_correlation(
    first: npt.ArrayLike, second: npt.ArrayLike, *, alphas: Sequence[float] = (), unit: str = "document"
) -> Interval:
    """Compute Spearman's rank correlation with its interval: Fisher's z, variance of Fieller et al. (1957).

    Args:
        first: shape (n,), finite, at least `FEWEST`.
        second: shape (n,), finite.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a pair belongs to, singular, for the method's wording.

    Returns:
        In [-1, 1]; 0 where a side does not vary.

    Raises:
        ValueError: too few pairs, or sides of unequal length.
    """
    from scipy.stats import norm, rankdata

    sides = [np.asarray(side, np.float64) for side in (first, second)]
    if sides[0].shape != sides[1].shape or sides[0].ndim != 1 or sides[0].size < FEWEST:
        raise ValueError(f"give {FEWEST} pairs or more, in two arrays of one length")
    ranks = [rankdata(side) for side in sides]
    varies = all(np.ptp(side) > 0 for side in ranks)
    value = float(np.clip(np.corrcoef(ranks)[0, 1], -1, 1)) if varies else 0.0
    n = sides[0].size
    # Fisher's z of 1 is infinite; the nearest correlation below it that n pairs can have is farther away.
    centre = np.arctanh(np.clip(value, -1 + 1 / n**3, 1 - 1 / n**3))
    reach = -norm.ppf(tail_levels(alphas)) * (1.06 / (n - 3)) ** 0.5
    method = f"Fisher's z of Spearman's rank correlation, {unit}s"
    return make_interval(
        value, np.tanh(centre - reach), np.tanh(centre + reach), n=n, clusters=n, method=method, alphas=alphas
    )
