"""MOVER: bounds of a difference of two rates from the bounds of each (Zou & Donner 2008; Newcombe's hybrid)."""

from __future__ import annotations

import numpy as np

from audit.arrays import Floats, Ints
from audit.stats.clusters import cluster_sums

Bounds = tuple[float, Floats, Floats]
"""A rate, its lower and its upper bounds, (n_tails,) each."""


def squared_reach(first: Bounds, second: Bounds, correlation: float) -> tuple[Floats, Floats]:
    """Squared distance of the bounds of first - second from it, downwards and upwards: shape (n_tails,) each.

    Args:
        first: what is subtracted from.
        second: what is subtracted.
        correlation: of the two rates. Only a negative one is used, which widens the interval: rates of outcomes that
            exclude each other vary more in their difference than independent ones do.
    """
    (one, one_lower, one_upper), (other, other_lower, other_upper) = first, second
    widening = 2 * min(0.0, correlation)
    down, down_other = one - one_lower, other_upper - other
    up, up_other = one_upper - one, other - other_lower
    return (
        down**2 + down_other**2 - widening * down * down_other,
        up**2 + up_other**2 - widening * up * up_other,
    )


def correlation_of_means(first: Floats, second: Floats, clusters: Ints) -> float:
    """Correlation between two ratio means over clusters, from their linearised residuals; 0 where one is constant.

    Args:
        first: shape (n,).
        second: of the same rows, shape (n,).
        clusters: the cluster of each row, shape (n,).
    """
    totals = cluster_sums([first, second, np.ones_like(first)], clusters)
    residuals = totals[:, :2] - totals[:, 2:] * np.array([first.mean(), second.mean()])
    spread = float(np.sqrt(np.prod(np.sum(residuals**2, axis=0))))
    return float(np.sum(residuals[:, 0] * residuals[:, 1]) / spread) if spread > 0 else 0.0
