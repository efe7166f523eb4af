"""Rates to which each row adds a share in [0, 1], such as the share of several models that do something on it.

With one model a share is 0 or 1 and these are the intervals of plain proportions (methods.md#statistics).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.clusters import cluster_sums, effective_number
from audit.stats.intervals import Interval, beta_interval, make_interval, proportion, tail_levels
from audit.stats.means import mean, resampled_mean
from audit.stats.mover import correlation_of_means, squared_reach
from audit.stats.rates import MIN_DIFFERING_CLUSTERS


def rate(
    shares: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The mean share: `proportion` where all shares are 0 or 1, else BCa over clusters.

    Where fewer than 20 clusters (or not all, where there are fewer) differ from 0, or from 1, resampling sees too few
    distinct cases, and the bounds are those of a share of hits among as many clusters (Clopper-Pearson; by Kish's
    effective number of them), which spreads most of all variables in [0, 1] with that mean (Hoeffding 1963).

    Args:
        shares: shape (n,), in [0, 1].
        clusters: the cluster of each row, shape (n,), integers.
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Raises:
        ValueError: no rows, shapes that differ, or shares outside [0, 1].
    """
    rows, labels = _rows(shares, clusters)
    if np.isin(rows, (0.0, 1.0)).all():
        return proportion(rows, labels, alphas=alphas, unit=unit)
    if min(_enough(rows, labels), _enough(1 - rows, labels)):
        return mean(rows, labels, rng, alphas=alphas, unit=unit)
    sizes = cluster_sums([np.ones_like(rows)], labels)[:, 0]
    value, effective = float(rows.mean()), effective_number(sizes)
    return beta_interval(value, effective, n=rows.size, clusters=sizes.size, alphas=alphas, unit=unit)


def net(
    gained: npt.ArrayLike,
    lost: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The mean of gained - lost over rows: a paired difference of rates, e.g. (|E - G| - |G - E|) / n.

    BCa over clusters. Where gained and lost differ in fewer than 20 clusters (or not in all, where there are fewer) the
    interval is MOVER (Zou & Donner 2008; Newcombe's hybrid) on the `rate` of either: without any gain or loss 150
    documents give about +-0.024. The rates' correlation is used where it is negative, and widens the interval.

    Args:
        gained: shape (n,), in [0, 1].
        lost: shape (n,), in [0, 1].
        clusters: the cluster of each row, shape (n,), integers.
        rng: the source of randomness.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        The difference, in [-1, 1].

    Raises:
        ValueError: no rows, shapes that differ, or values outside [0, 1].
    """
    gains, labels = _rows(gained, clusters)
    losses, _ = _rows(lost, clusters)
    differences = gains - losses
    if _enough(differences, labels):
        interval = resampled_mean([(differences, labels)], rng, alphas=alphas, unit=unit, limits=(-1.0, 1.0))
        if interval is not None:
            return interval
        # Every cluster differs alike: the rule for rare differences holds for these too.
    return _mover(gains, losses, labels, rng, alphas, unit)


def scaled(interval: Interval, factor: float) -> Interval:
    """The interval of `factor` times the number; `factor` is positive.

    Raises:
        ValueError: it is not.
    """
    if factor <= 0:
        raise ValueError("the factor must be positive")
    return interval.transform(lambda number: factor * number)


def _rows(values: npt.ArrayLike, clusters: npt.ArrayLike) -> tuple[Floats, Ints]:
    rows, labels = np.asarray(values, np.float64), np.asarray(clusters, np.int64)
    if rows.ndim != 1 or not rows.size or rows.shape != labels.shape:
        raise ValueError("give at least one row, and a cluster for each")
    if not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("shares must lie in [0, 1]")
    return rows, labels


def _enough(rows: Floats, labels: Ints) -> bool:
    """Whether enough clusters differ from 0 to resample; two at least."""
    differing, n_clusters = np.unique(labels[rows != 0]).size, np.unique(labels).size
    return bool(n_clusters >= 2 and differing >= min(MIN_DIFFERING_CLUSTERS, n_clusters))


def _mover(
    gains: Floats,
    losses: Floats,
    labels: Ints,
    rng: np.random.Generator,
    alphas: Sequence[float],
    unit: str,
) -> Interval:
    tails = tail_levels(alphas).tolist()
    gain_bounds, loss_bounds = (rate(part, labels, rng, alphas=tails, unit=unit).one_sided for part in (gains, losses))
    gain, loss = float(gains.mean()), float(losses.mean())
    value = gain - loss
    down, up = squared_reach((gain, *gain_bounds), (loss, *loss_bounds), correlation_of_means(gains, losses, labels))
    return make_interval(
        value,
        np.maximum(value - np.sqrt(down), -1.0),
        np.minimum(value + np.sqrt(up), 1.0),
        n=gains.size,
        clusters=np.unique(labels).size,
        method=f"MOVER on Korn-Graubard and Clopper-Pearson rates, clustered by {unit}",
        alphas=alphas,
    )
