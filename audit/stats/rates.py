"""Means and rates of clustered rows, and their differences (methods/index.md#intervals).

Each row adds a share in [0, 1]. With one model a share is 0 or 1 and these are the intervals of
plain proportions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats import intervals
from audit.stats.intervals import (
    TAILS,
    Interval,
    cluster_sums,
    effective_number,
    make_interval,
    proportion,
    weighted_mean,
)
from audit.stats.resampling import bootstrap

UNEQUAL = 0.01
"""p-value under which a baseline that finds unequally much in two splits speaks against a lot."""
ROUNDING = 1e-9
"""Relative difference of two variances under which they count as equal."""
MIN_DIFFERING_CLUSTERS = 20
"""With fewer documents that differ in a split, resampling sees too few distinct cases: MOVER
instead."""
# With 10, coverage falls to 0.92 where fields of a document go together; with 20 it was 0.956 or
# more (simulated).
RATES = "MOVER on Korn-Graubard and Clopper-Pearson rates"
Columns = tuple[npt.ArrayLike, npt.ArrayLike | None, npt.ArrayLike]
"""The rows of a split: with the model and without it, in [0, 1], and the cluster of each, integers; shape (n,) each.

None: nothing is taken off within a split, so that two rates make the difference instead of four.
"""
Weights = Sequence[Floats] | None
"""Of how many rows each row of a split is one, shape (n,) a split, positive; None: all alike."""
Bounds = tuple[float, Floats, Floats]
"""A rate, its lower and its upper bounds, (n_tails,) each."""


def mean(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    weights: Floats | None = None,
) -> Interval:
    """Compute the mean of values in [0, 1]: BCa over clusters (see `bootstrap`).

    Where all clusters agree, the bounds are those of `beta_interval`.

    Args:
        values: shape (n,), in [0, 1].
        clusters: the cluster of each value, shape (n,), integers.
        rng: the source of randomness.
        weights: weights, see `intervals.weighted_mean`.

    Raises:
        ValueError: no values, shapes that differ, or values outside [0, 1].
    """
    rows, labels = _check_rows(values, clusters)
    sample = _Sample(rows, labels, weights)
    return _resample([sample], rng, (0.0, 1.0)) or _as_hits(sample, " (all agree)")


def rate(
    shares: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    weights: Floats | None = None,
) -> Interval:
    """Compute the mean share: `proportion` where all shares are 0 or 1, else BCa over clusters.

    Where fewer than 20 clusters (or not all, where there are fewer) differ from 0, or from 1,
    resampling sees too few distinct cases, and the bounds are those of a share of hits among as
    many clusters (Clopper-Pearson; by Kish's effective number of them), which spreads most of all
    variables in [0, 1] with that mean (Hoeffding 1963).

    Args and errors are those of `mean`.
    """
    rows, labels = _check_rows(shares, clusters)
    if np.isin(rows, (0.0, 1.0)).all():
        return proportion(rows, labels, weights)
    if _may_resample(rows, labels) and _may_resample(1 - rows, labels):
        return mean(rows, labels, rng, weights)
    return _as_hits(_Sample(rows, labels, weights), "")


def net(
    gained: npt.ArrayLike,
    lost: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    weights: Floats | None = None,
) -> Interval:
    """Compute the mean of gained - lost over rows.

    A paired difference of rates, e.g. (|E - G| - |G - E|) / n. BCa over clusters. Where gained and
    lost differ in fewer than 20 clusters (or not in all, where there are fewer) the interval is
    MOVER (Zou & Donner 2008; Newcombe's hybrid) on the `rate` of either: without any gain or loss
    150 documents give about +-0.024. The rates' correlation is used where it is negative, and
    widens the interval.

    Args:
        gained: shape (n,), in [0, 1].
        lost: shape (n,), in [0, 1].
        clusters: the cluster of each row, shape (n,), integers.
        rng: the source of randomness.
        weights: weights, see `intervals.weighted_mean`.

    Returns:
        The difference, in [-1, 1].

    Raises:
        ValueError: no rows, shapes that differ, or values outside [0, 1].
    """
    rows, labels = _check_rows(gained, clusters)
    side = _Side(rows, _check_rows(lost, clusters)[0], labels, weights)

    def part_bounds(part: Floats, labels: Ints, weights: Floats | None) -> tuple[Floats, Floats]:
        """Return the bounds of the mean of gains or of losses."""
        return rate(part, labels, rng, weights).ends

    return _difference([side], rng, part_bounds, RATES)


def excess_rate(
    splits: Sequence[Columns], rng: np.random.Generator, weights: Weights = None
) -> Interval:
    """Compute the excess of a 0/1 outcome.

    (attack - baseline) over member fields minus the same over held-out fields. Where fewer than 20
    documents of a split have a field on which attack and baseline differ, the interval is MOVER
    (Zou & Donner 2008; Newcombe's hybrid) on the `proportion` intervals of four rates, gained and
    lost in either split: two splits of 150 documents without any difference give about +-0.034.
    Otherwise BCa over documents, stratified by split.

    Args:
        splits: the rows of member fields, then those of held-out fields.
        rng: the source of randomness.
        weights: weights of the rows of either split.

    Returns:
        The excess, in [-2, 2]; n counts the fields and clusters the documents of both splits.

    Raises:
        ValueError: a split is empty, shapes differ, or values other than 0 and 1.
    """
    sides = _Side.of_splits(splits, weights)
    if not all(np.isin(side.differences, (-1.0, 0.0, 1.0)).all() for side in sides):
        raise ValueError("outcomes must be 0 or 1; `excess_mean` takes values between")

    def part_bounds(part: Floats, labels: Ints, weights: Floats | None) -> tuple[Floats, Floats]:
        """Return the bounds of a share of 0/1 gains or losses."""
        return proportion(part, labels, weights).ends

    return _difference(sides, rng, part_bounds, RATES)


def excess_mean(
    splits: Sequence[Columns], rng: np.random.Generator, weights: Weights = None
) -> Interval:
    """Compute the excess of a value in [0, 1], such as 1 - HD: as `excess_rate`, for means.

    BCa over documents, stratified by split. Where fewer than 20 documents of a split differ, or
    there is no spread, the interval is MOVER on the mean gain and the mean loss of either split,
    each taken for a share of hits among its documents (Clopper-Pearson at n = number of documents,
    Kish's effective one where they hold unequal numbers of fields). That is conservative: of all
    variables in [0, 1] with a given mean the 0/1 one spreads most (Hoeffding 1963), and the mean of
    a document's fields spreads no more than one field.

    Args, returns and errors are those of `excess_rate`, with values in [0, 1].
    """
    sides = _Side.of_splits(splits, weights)
    effective = sum(side.effective for side in sides)
    clusters = sum(side.n_clusters for side in sides)
    method = f"MOVER on {intervals.name_beta(effective, clusters)} (differences too rare or too alike to resample)"

    def part_bounds(part: Floats, labels: Ints, weights: Floats | None) -> tuple[Floats, Floats]:
        """Return bounds of a mean of gains or losses that hold whatever their spread is."""
        share = weighted_mean(part, weights)
        return intervals.beta_bounds(share, np.float64(_effective(labels, weights)), TAILS)

    return _difference(sides, rng, part_bounds, method)


def rare_reach(changes: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Compute how far the bounds of a mean of independent changes lie from it, squared.

    It is MOVER on the mean gain and the mean loss, each taken for a share of hits
    (Clopper-Pearson), as in `excess_mean`. So it holds however few of the changes differ from 0.

    Args:
        changes: shape (n,), in [-1, 1].

    Returns:
        Downwards and upwards, shape (n_tails,) each.
    """
    rows = np.asarray(changes, np.float64)
    side = _Side(np.maximum(rows, 0.0), np.maximum(-rows, 0.0), np.arange(rows.size))

    def part_bounds(part: Floats, labels: Ints, _: Floats | None) -> tuple[Floats, Floats]:
        """Return bounds of a mean of gains or of losses, whatever their spread is."""
        return intervals.beta_bounds(float(part.mean()), np.float64(labels.size), TAILS)

    return side.reach(part_bounds)


def needs_baseline(splits: Sequence[Columns], *, by_lot: bool, weights: Weights = None) -> bool:
    """Tell whether the baseline has to be taken off within each split.

    It is taken off before two splits are compared.

    It has to where no lot made the splits alike. Where one did, both differences estimate the same,
    and the baseline may only add noise. It is then needed where the variances of both splits' means
    are together smaller with it, each linearised over its documents. It is needed too where the
    baseline alone tells the splits apart, which the lot should not allow. Of the attack the rule
    sees the spread within splits alone, never the difference between them.

    Args:
        splits: the rows of member fields, then those of held-out fields, with their baseline.
        by_lot: whether a lot chose the members.
        weights: weights of the rows of either split.
    """
    if not by_lot or _p_of_baselines(splits, weights) <= UNEQUAL:
        return True
    plain = _without_baseline(splits)
    with_baseline = _sum_of_variances(splits, weights)
    # Variances that are equal but for rounding need no baseline, whichever comes out smaller.
    return with_baseline < _sum_of_variances(plain, weights) * (1 - ROUNDING)


def _p_of_baselines(splits: Sequence[Columns], weights: Weights) -> float:
    """Return a two-sided p-value against "the baseline finds as much in both splits".

    Welch's test on means that are linearised over documents; 1 where nothing was found by it.
    """
    from scipy.stats import t

    columns: list[Columns] = []
    for _, baseline, clusters in splits:
        if baseline is None:
            return 1.0
        columns.append((baseline, None, clusters))
    sides = _Side.of_splits(columns, weights)
    means = [weighted_mean(side.gained, side.weights) for side in sides]
    error = _sum_of_variances(columns, weights) ** 0.5
    difference = abs(means[0] - means[1])
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    degrees = min(side.n_clusters for side in sides) - 1
    if degrees < 1:
        return 1.0
    return float(2 * t.sf(difference / error, degrees))


def _sum_of_variances(splits: Sequence[Columns], weights: Weights) -> float:
    """Sum the variances of the means of all splits."""
    sides = _Side.of_splits(splits, weights)
    return sum(side.sample.variance_of_mean for side in sides)


def choose_columns(
    splits: Sequence[Columns], *, by_lot: bool, weights: Weights = None
) -> Sequence[Columns]:
    """Return the columns of both splits, without the baseline where none has to be subtracted.

    They have no baseline where a lot makes it needless (`needs_baseline`).

    Args:
        splits: the rows of member fields, then those of held-out fields, with their baseline.
        by_lot: whether a lot chose the members.
        weights: weights of the rows of either split.
    """
    if needs_baseline(splits, by_lot=by_lot, weights=weights):
        return splits
    return _without_baseline(splits)


def _without_baseline(splits: Sequence[Columns]) -> list[Columns]:
    """Return the columns of each split without the baseline's."""
    return [(attack, None, clusters) for attack, _, clusters in splits]


def scaled(interval: Interval, factor: float) -> Interval:
    """Scale an interval by a positive factor.

    Raises:
        ValueError: it is not positive.
    """
    if factor <= 0:
        raise ValueError("the factor must be positive")
    return interval.transform(lambda number: factor * number)


def squared_reach(first: Bounds, second: Bounds, correlation: float) -> tuple[Floats, Floats]:
    """Compute the squared distance of MOVER's bounds of first - second from it.

    It is computed downwards and upwards.

    Args:
        first: what is subtracted from.
        second: what is subtracted.
        correlation: correlation of the two rates. Only a negative one is used, which widens the
            interval: rates of outcomes that exclude each other vary more in their difference than
            independent ones do.

    Returns:
        Shape (n_tails,) each.
    """
    value, one_lower, one_upper = first
    subtracted, other_lower, other_upper = second
    widening = 2 * min(0.0, correlation)
    down = value - one_lower
    down_other = other_upper - subtracted
    up = one_upper - value
    up_other = subtracted - other_lower
    return (
        down**2 + down_other**2 - widening * down * down_other,
        up**2 + up_other**2 - widening * up * up_other,
    )


class _Sample(NamedTuple):
    """Rows of a split, shape (n,) each: a number, the cluster, and the weight."""

    rows: Floats
    clusters: Ints
    weights: Floats | None

    @property
    def mean(self) -> float:
        """Return the weighted mean of the rows."""
        return weighted_mean(self.rows, self.weights)

    @property
    def variance_of_mean(self) -> float:
        """Return the variance of the mean, linearised over clusters."""
        weights = np.ones_like(self.rows) if self.weights is None else self.weights
        residuals = cluster_sums([weights * (self.rows - self.mean)], self.clusters)
        return float(np.sum(residuals**2) / np.sum(weights) ** 2)


@dataclass(frozen=True, eq=False)
class _Side:
    """Gains and losses of the rows of a split, each in [0, 1], and cluster and weight of each row.

    Attributes:
        loses: whether there is a baseline to lose against.
    """

    gained: Floats
    lost: Floats
    clusters: Ints
    weights: Floats | None = None
    loses: bool = True

    @classmethod
    def of(cls, columns: Columns, weights: Floats | None) -> _Side:
        """Take apart what the attack gains and loses against the baseline."""
        attack, baseline, clusters = columns
        rows, labels = _check_rows(attack, clusters)
        if baseline is None:
            return cls(rows, np.zeros_like(rows), labels, weights, loses=False)
        differences = rows - _check_rows(baseline, clusters)[0]
        return cls(np.maximum(differences, 0.0), np.maximum(-differences, 0.0), labels, weights)

    @classmethod
    def of_splits(cls, splits: Sequence[Columns], weights: Weights) -> list[_Side]:
        """Take the columns of each split apart."""
        if weights is None:
            return [cls.of(columns, None) for columns in splits]
        return [cls.of(columns, rows) for columns, rows in zip(splits, weights, strict=True)]

    @property
    def differences(self) -> Floats:
        """Return gain minus loss of each row."""
        return self.gained - self.lost

    @property
    def sample(self) -> _Sample:
        """Return the differences of the rows as a sample, with their clusters and weights."""
        return _Sample(self.differences, self.clusters, self.weights)

    @property
    def n_clusters(self) -> int:
        """Count the distinct clusters of the rows."""
        return int(np.unique(self.clusters).size)

    @property
    def effective(self) -> float:
        """Return the effective number of clusters."""
        return _effective(self.clusters, self.weights)

    def reach(self, part_bounds: _PartBounds) -> tuple[Floats, Floats]:
        """Compute squared distances of MOVER's lower and upper bounds from the mean difference.

        A gain is no loss, so that both correlate negatively.
        """
        gained = self._bounds_of(self.gained, part_bounds)
        if not self.loses:
            share, lower, upper = gained
            return (share - lower) ** 2, (upper - share) ** 2
        return squared_reach(gained, self._bounds_of(self.lost, part_bounds), self._correlation())

    def _bounds_of(self, part: Floats, part_bounds: _PartBounds) -> Bounds:
        """Return the weighted mean of gains or of losses, with its lower and upper bounds."""
        lower, upper = part_bounds(part, self.clusters, self.weights)
        return weighted_mean(part, self.weights), lower, upper

    def _correlation(self) -> float:
        """Correlate mean gain and mean loss over clusters by their linearised residuals.

        0 where one is constant.
        """
        weights = np.ones_like(self.gained) if self.weights is None else self.weights
        totals = cluster_sums([weights * self.gained, weights * self.lost, weights], self.clusters)
        means = [weighted_mean(column, self.weights) for column in (self.gained, self.lost)]
        residuals = totals[:, :2] - totals[:, 2:] * np.array(means)
        spread = float(np.sqrt(np.prod(np.sum(residuals**2, axis=0))))
        return float(np.sum(residuals[:, 0] * residuals[:, 1]) / spread) if spread > 0 else 0.0


_PartBounds = Callable[[Floats, Ints, Floats | None], tuple[Floats, Floats]]
"""Bounds of a mean of rows of these clusters, with these weights."""


def _check_rows(values: npt.ArrayLike, clusters: npt.ArrayLike) -> tuple[Floats, Ints]:
    """Return shares and clusters as arrays; refuse none, and shares outside [0, 1]."""
    rows = np.asarray(values, np.float64)
    labels = np.asarray(clusters, np.int64)
    if rows.ndim != 1 or not rows.size or rows.shape != labels.shape:
        raise ValueError("give at least one row, and a cluster for each")
    if not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("shares must lie in [0, 1]")
    return rows, labels


def _effective(clusters: Ints, weights: Floats | None = None) -> float:
    """Compute how many clusters of one size the given ones are worth."""
    positions = np.unique(clusters, return_inverse=True)[1]
    return effective_number(np.bincount(positions, weights))


def _as_hits(sample: _Sample, note: str) -> Interval:
    """Compute the interval of a mean share as if it were a share of hits among clusters."""
    return intervals.beta_interval(
        sample.mean,
        n=sample.rows.size,
        clusters=np.unique(sample.clusters).size,
        effective=_effective(sample.clusters, sample.weights),
        note=note,
    )


def _may_resample(rows: Floats, labels: Ints) -> bool:
    """Test whether enough clusters differ from 0 to resample; two at least."""
    differing = np.unique(labels[rows != 0]).size
    n_clusters = np.unique(labels).size
    return bool(n_clusters >= 2 and differing >= min(MIN_DIFFERING_CLUSTERS, n_clusters))


def _resample(
    samples: Sequence[_Sample], rng: np.random.Generator, limits: tuple[float, float]
) -> Interval | None:
    """Bootstrap the mean of a sample, or of the first minus that of the second.

    None where `bootstrap` gives none.
    """
    strata = []
    for rows, clusters, weights in samples:
        scaled_weights = np.ones_like(rows) if weights is None else weights / weights.mean()
        strata.append(cluster_sums([scaled_weights * rows, scaled_weights], clusters))
    n = sum(sample.rows.size for sample in samples)

    def mean_difference(totals: Floats) -> Floats:
        """Compute the first stratum's mean minus the others', for each resample's totals."""
        first, *subtracted = (totals[:, :, 0] / totals[:, :, 1]).T
        return np.asarray(sum((-share for share in subtracted), first), np.float64)

    return bootstrap(
        strata,
        mean_difference,
        rng,
        n=n,
        limits=limits,
        sizes=[stratum[:, 1] for stratum in strata],
    )


def _difference(
    sides: Sequence[_Side], rng: np.random.Generator, part_bounds: _PartBounds, mover_method: str
) -> Interval:
    """Compute the mean difference of one side, or that of the first minus that of the second."""
    most = float(len(sides))
    samples = [side.sample for side in sides]
    if all(_may_resample(sample.rows, sample.clusters) for sample in samples):
        interval = _resample(samples, rng, (-most, most))
        if interval is not None:
            return interval
        # Every cluster of a side differs alike: the rule for rare differences holds for these too.
    if len(sides) == 1:
        (side,) = sides
        value = weighted_mean(side.gained, side.weights) - weighted_mean(side.lost, side.weights)
        down, up = side.reach(part_bounds)
    else:
        value = samples[0].mean - samples[1].mean
        member, heldout = sides
        down, up = _squared_reach_of_two(member, heldout, part_bounds)
    lower = np.maximum(value - np.sqrt(down), -most)
    upper = np.minimum(value + np.sqrt(up), most)
    n = sum(side.clusters.size for side in sides)
    n_clusters = sum(side.n_clusters for side in sides)
    return make_interval(value, lower, upper, n=n, clusters=n_clusters, method=mover_method)


def _squared_reach_of_two(
    member: _Side, heldout: _Side, part_bounds: _PartBounds
) -> tuple[Floats, Floats]:
    """Compute the squared distance of MOVER's bounds of a difference between two sides.

    It is computed downwards and upwards.
    """
    down, up = member.reach(part_bounds)
    down_heldout, up_heldout = heldout.reach(part_bounds)
    down = down + up_heldout
    up = up + down_heldout
    if not (member.loses and heldout.loses):
        return down, up
    if not (member.lost.any() or heldout.gained.any()):
        down = down - _counted_twice(member, heldout)
    if not (member.gained.any() or heldout.lost.any()):
        up = up - _counted_twice(member, heldout)
    return down, up


def _counted_twice(member: _Side, heldout: _Side) -> Floats:
    """Compute by how much MOVER's squared distances exceed that of an exact joint bound.

    The bound is that of two parts that nobody saw.

    Rates p and q of which nothing was seen among K and L documents are together at most ln(1 /
    alpha) / min(K, L), for (1 - p)^K (1 - q)^L >= alpha: the exact joint bound. MOVER has the root
    of two squares, about 1.4 times as far. K and L are Kish's effective numbers of documents.
    """
    counts = np.array([member.effective, heldout.effective])
    by_mover = np.sum((1 - TAILS ** (1 / counts[:, None])) ** 2, axis=0)
    joint = (np.log(TAILS) / counts.min()) ** 2
    return np.asarray(np.maximum(by_mover - joint, 0.0), np.float64)
