"""Rates to which each row adds a share in [0, 1], and their differences (methods.md#statistics).

With one model a share is 0 or 1 and these are the intervals of plain proportions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.intervals import (
    Interval,
    beta_bounds,
    beta_interval,
    cluster_sums,
    effective_number,
    make_interval,
    name_number,
    proportion,
    tail_levels,
)
from audit.stats.means import mean, resampled_mean

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


MIN_DIFFERING_CLUSTERS = 20
"""With fewer documents that differ in a split, resampling sees too few distinct cases: MOVER instead. Ours: with 10,
coverage falls to 0.92 where fields of a document go together; with 20 it was 0.956 or more (simulated)."""
_LIMITS = (-2.0, 2.0)
_Bounds = Callable[[Floats, Ints], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class _Split:
    """Attack minus baseline of each field, in [-1, 1], and the field's document."""

    differences: Floats
    clusters: Ints

    @property
    def differing(self) -> int:
        return int(np.unique(self.clusters[self.differences != 0]).size)

    @property
    def n_clusters(self) -> int:
        return int(np.unique(self.clusters).size)

    @property
    def parts(self) -> tuple[Floats, Floats]:
        """Gains and losses of the attack, each in [0, 1]."""
        return np.maximum(self.differences, 0.0), np.maximum(-self.differences, 0.0)


def excess_rate(
    attack_m: npt.ArrayLike,
    base_m: npt.ArrayLike,
    clusters_m: npt.ArrayLike,
    attack_h: npt.ArrayLike,
    base_h: npt.ArrayLike,
    clusters_h: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Excess of a 0/1 outcome: (attack - baseline) over member fields minus the same over held-out fields.

    Where fewer than 20 documents of a split have a field on which attack and baseline differ, the interval is MOVER
    (Zou & Donner 2008; Newcombe's hybrid) on the `proportion` intervals of four rates, gained and lost in either split:
    two splits of 150 documents without any difference give about +-0.034. Otherwise BCa over documents, stratified by
    split.

    Args:
        attack_m: outcomes of the attack on member fields, 0/1, shape (n_m,).
        base_m: outcomes of the baseline on the same fields, 0/1, shape (n_m,).
        clusters_m: the document of each member field, shape (n_m,), integers.
        attack_h: outcomes of the attack on held-out fields, 0/1, shape (n_h,).
        base_h: outcomes of the baseline on the same fields, 0/1, shape (n_h,).
        clusters_h: the document of each held-out field, shape (n_h,), integers.
        rng: the source of randomness.
        n_resamples: resamples of the bootstrap.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        The excess, in [-2, 2]; n counts the fields and clusters the documents of both splits.

    Raises:
        ValueError: a split is empty, shapes differ, or values other than 0 and 1.
    """
    member = _split(attack_m, base_m, clusters_m)
    heldout = _split(attack_h, base_h, clusters_h)
    if not all(np.isin(split.differences, (-1.0, 0.0, 1.0)).all() for split in (member, heldout)):
        raise ValueError("outcomes must be 0 or 1; `excess_mean` takes values between")
    tails = tail_levels(alphas)

    def rate_bounds(part: Floats, clusters: Ints) -> tuple[Floats, Floats]:
        return proportion(part, clusters, alphas=tails.tolist(), unit=unit).one_sided

    method = f"MOVER on Korn-Graubard and Clopper-Pearson rates, clustered by {unit}"
    return _excess(member, heldout, rng, rate_bounds, method, n_resamples, alphas, unit)


def excess_mean(
    attack_m: npt.ArrayLike,
    base_m: npt.ArrayLike,
    clusters_m: npt.ArrayLike,
    attack_h: npt.ArrayLike,
    base_h: npt.ArrayLike,
    clusters_h: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Excess of a value in [0, 1], such as 1 - HD: as `excess_rate`, for means.

    BCa over documents, stratified by split. Where fewer than 20 documents of a split differ, or there is no spread, the
    interval is MOVER on the mean gain and the mean loss of either split, each taken for a share of hits among its
    documents (Clopper-Pearson at n = number of documents, Kish's effective one where they hold unequal numbers of
    fields). That is conservative: of all variables in [0, 1] with a given mean the 0/1 one spreads most (Hoeffding
    1963), and the mean of a document's fields spreads no more than one field.

    Args, returns and errors are those of `excess_rate`, with values in [0, 1].
    """
    member = _split(attack_m, base_m, clusters_m)
    heldout = _split(attack_h, base_h, clusters_h)
    tails = tail_levels(alphas)

    def mean_bounds(part: Floats, clusters: Ints) -> tuple[Floats, Floats]:
        return beta_bounds(float(part.mean()), np.float64(_effective(clusters)), tails)

    effective = sum(_effective(split.clusters) for split in (member, heldout))
    number = name_number(effective, member.n_clusters + heldout.n_clusters, unit)
    method = f"MOVER on Clopper-Pearson with n = {number} (differences too rare or too alike to resample)"
    return _excess(member, heldout, rng, mean_bounds, method, n_resamples, alphas, unit)


def _effective(clusters: Ints) -> float:
    return effective_number(np.unique(clusters, return_counts=True)[1])


def _split(attack: npt.ArrayLike, baseline: npt.ArrayLike, clusters: npt.ArrayLike) -> _Split:
    with_target, without = np.asarray(attack, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    labels = np.asarray(clusters, dtype=np.int64)
    if labels.ndim != 1 or labels.size == 0 or not with_target.shape == without.shape == labels.shape:
        raise ValueError("each split needs fields, and attack, baseline and clusters of one length")
    for values in (with_target, without):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("attack and baseline must lie in [0, 1]")
    return _Split(with_target - without, labels)


def _excess(
    member: _Split,
    heldout: _Split,
    rng: np.random.Generator,
    part_bounds: _Bounds,
    mover_method: str,
    n_resamples: int,
    alphas: Sequence[float],
    unit: str,
) -> Interval:
    if all(split.differing >= min(MIN_DIFFERING_CLUSTERS, split.n_clusters) for split in (member, heldout)):
        samples = [(split.differences, split.clusters) for split in (member, heldout)]
        interval = resampled_mean(samples, rng, n_resamples=n_resamples, alphas=alphas, unit=unit, limits=_LIMITS)
        if interval is not None:
            return interval
        # Every document of a split differs alike: the rule for rare differences holds for these too.
    value, tails = float(member.differences.mean() - heldout.differences.mean()), tail_levels(alphas)
    loss_m, gain_m = _mover_terms(member, part_bounds)
    loss_h, gain_h = _mover_terms(heldout, part_bounds)
    return make_interval(
        value,
        value - np.sqrt(loss_m + gain_h - _counted_twice(member, 1, heldout, 0, tails)),
        value + np.sqrt(gain_m + loss_h - _counted_twice(member, 0, heldout, 1, tails)),
        n=member.differences.size + heldout.differences.size,
        clusters=member.n_clusters + heldout.n_clusters,
        method=mover_method,
        alphas=alphas,
    )


def _mover_terms(split: _Split, part_bounds: _Bounds) -> tuple[Floats, Floats]:
    """Squared reach of a split's mean difference downwards and upwards at each tail; see `squared_reach`.

    Gains and losses exclude each other on a field, so that their rates are negatively correlated.
    """
    gained, lost = split.parts
    return squared_reach(
        (float(gained.mean()), *part_bounds(gained, split.clusters)),
        (float(lost.mean()), *part_bounds(lost, split.clusters)),
        correlation_of_means(gained, lost, split.clusters),
    )


def _counted_twice(member: _Split, part: int, heldout: _Split, other: int, tails: Floats) -> Floats:
    """What MOVER's squares count twice where neither part occurs: shape (n_tails,), 0 where documents are of one size.

    Rates p and q of which nothing was seen among K and L documents are together at most ln(1 / alpha) / min(K, L), for
    (1 - p)^K (1 - q)^L >= alpha. MOVER has the root of two squares, about 1.4 times as far. That pays for Kish's K and
    L, as long as the reach stays over MOVER's with documents counted as they are (ours).
    """
    if member.parts[part].any() or heldout.parts[other].any():
        return np.zeros_like(tails)
    counts = np.array([[split.n_clusters, _effective(split.clusters)] for split in (member, heldout)])
    as_they_are, effective = np.sum((1 - tails ** (1 / counts[:, :, None])) ** 2, axis=0)
    needed = np.maximum((np.log(tails) / counts[:, 1].min()) ** 2, as_they_are)
    return np.asarray(np.maximum(effective - needed, 0.0), np.float64)
