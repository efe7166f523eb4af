"""The median of a sample, with bounds that assume nothing about how it is distributed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.stats.intervals import Interval, make_interval, tail_levels


def median_interval(values: npt.ArrayLike, *, alphas: Sequence[float] = (), unit: str = "document") -> Interval:
    """The median of independent units, and the order statistics between which it lies by the sign test.

    Of n units the number under the median is Binomial(n, 1/2), so that the k-th smallest is a lower bound at confidence
    1 - alpha for the largest k with P(B < k) <= alpha, and the k-th largest an upper one. Where there is no such k, as
    among fewer than 6 units at 95 %, the bound is the smallest, or the largest, value.

    Args:
        values: shape (n,), finite, at least one.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a value belongs to, singular, for the method's wording.

    Raises:
        ValueError: no values, or a level out of range.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, np.float64))
    if ordered.ndim != 1 or not ordered.size:
        raise ValueError("give at least one value")
    n = ordered.size
    tails = tail_levels(alphas)
    # P(B <= index) <= tail, where index = k - 1 is that of the k-th smallest.
    indices = np.array([int((binom.cdf(np.arange(n), n, 0.5) <= tail).sum()) - 1 for tail in tails])
    indices = np.clip(indices, 0, (n - 1) // 2)
    return make_interval(
        float(np.median(ordered)),
        ordered[indices],
        ordered[n - 1 - indices],
        n=n,
        clusters=n,
        method=f"order statistics by the sign test, {unit}s",
        alphas=alphas,
    )
