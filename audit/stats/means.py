"""Intervals of means over rows that come in clusters (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.clusters import cluster_sums, effective_number
from audit.stats.intervals import Interval, agreement_interval
from audit.stats.resampling import bootstrap


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
    rows, labels = np.asarray(values, np.float64), np.asarray(clusters)
    if not rows.size or not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("give at least one value, all in [0, 1]")
    interval = resampled_mean([(rows, labels)], rng, alphas=alphas, unit=unit, limits=(0.0, 1.0))
    if interval is not None:
        return interval
    sizes = cluster_sums([np.ones_like(rows)], labels)[:, 0]
    effective = effective_number(sizes)
    return agreement_interval(
        float(rows.mean()), n=rows.size, clusters=sizes.size, effective=effective, alphas=alphas, unit=unit
    )


def resampled_mean(
    samples: Sequence[tuple[Floats, Ints]],
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
    limits: tuple[float, float],
) -> Interval | None:
    """The mean of a sample, or of the first minus that of the second, by `bootstrap`; None where that is None.

    Args:
        samples: one or two: the value and the cluster of each row, shape (n,) each.
        rng: the source of randomness.
        n_resamples: see `bootstrap`.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.
        limits: range of the mean, or of the difference.
    """
    strata = [cluster_sums([rows, np.ones_like(rows)], clusters) for rows, clusters in samples]
    return bootstrap(
        strata,
        _mean_difference,
        rng,
        n_resamples=n_resamples,
        alphas=alphas,
        n=sum(rows.size for rows, _ in samples),
        unit=unit,
        limits=limits,
        sizes=[stratum[:, 1] for stratum in strata],
    )


def _mean_difference(totals: Floats) -> Floats:
    """The mean of the first stratum minus those of the others, from sums and numbers of rows: (n_resamples,)."""
    first, *others = (totals[:, :, 0] / totals[:, :, 1]).T
    return np.asarray(sum((-other for other in others), first), np.float64)
