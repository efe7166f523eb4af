"""Intervals of means over rows that come in clusters (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.clusters import cluster_sums, effective_number
from audit.stats.intervals import Interval, agreeing
from audit.stats.resampling import NoSpreadError, bootstrap


def mean(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The mean of values in [0, 1]: BCa over clusters (see `bootstrap`).

    Where all clusters agree, the bounds are those of `audit.stats.intervals.agreeing`.

    Args:
        values: shape (n,), in [0, 1].
        clusters: the document of each value, shape (n,), integers.
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Raises:
        ValueError: no values, or values outside [0, 1].
    """
    rows = np.asarray(values, np.float64)
    if not rows.size or not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("give at least one value, all in [0, 1]")
    totals = cluster_sums([rows, np.ones_like(rows)], clusters)
    sizes = totals[:, 1]
    try:
        return bootstrap([totals], ratio, rng, alphas=alphas, n=rows.size, unit=unit, limits=(0.0, 1.0), sizes=[sizes])
    except NoSpreadError:
        effective = effective_number(sizes)
        return agreeing(
            float(rows.mean()), n=rows.size, clusters=sizes.size, effective=effective, alphas=alphas, unit=unit
        )


def ratio(totals: Floats) -> Floats:
    """The ratio of the first two columns of one stratum's totals: shape (n_resamples,)."""
    found: Floats = totals[:, 0, 0] / totals[:, 0, 1]
    return found
