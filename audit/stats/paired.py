"""Differences between two scans of the same units.

Paired where units have values, else from two intervals. Method: methods/index.md#intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import erfc, sqrt
from operator import attrgetter
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.measurements import Estimate
from audit.stats.intervals import FINE_ALPHAS, TAILS, Interval, cluster_sums, make_interval
from audit.stats.rates import excess_mean, excess_rate, net, rare_reach, scaled
from audit.stats.resampling import RESAMPLED_NUMBERS, bootstrap, welch_reach
from audit.stats.roc import auc, placements

MIN_DIFFERING = 10
"""With fewer units of a side whose placement changes, their variance says too little of an area's
change: `_rare_area_interval` instead."""
MIN_UNITS = 2
"""Independent units of a side without which nothing is paired."""
N_SWAPS = 2_000
"""Random exchanges of both scans, for p."""
Kind = Literal["mean", "auc"]


@dataclass(frozen=True, eq=False)
class UnitScores:
    """The values of units from which a metric is computed, so that two scans can be compared unit by unit.

    Attributes:
        units: (n,) names, each once; both scans are compared on the units that both have.
        clusters: (n,) names of what is independent: documents, canaries.
        member: (n,) whether training saw it.
        values: (n,).
        kind: "mean": the metric is the mean over members, minus that over the others where there
            are any; "auc": the chance that a member's value is above another's.
        limits: the smallest and the largest value that there can be. No use for areas.
    """

    units: Sequence[str]
    clusters: Sequence[str]
    member: Bools
    values: Floats
    kind: Kind = "mean"
    limits: tuple[float, float] = (-1.0, 1.0)

    def only(self, names: Sequence[str]) -> UnitScores:
        """Return the scores of the units of these names, in that order."""
        place = {name: row for row, name in enumerate(self.units)}
        rows = np.array([place[name] for name in names], np.int64)
        clusters = [self.clusters[row] for row in rows]
        return replace(
            self,
            units=list(names),
            clusters=clusters,
            member=self.member[rows],
            values=self.values[rows],
        )


@dataclass(frozen=True, eq=False)
class Ratios:
    """A share or F1 as sums by document: the measure is sum(numerator) / sum(denominator).

    Attributes:
        documents: (n,) names, each once.
        numerator: (n,) at least 0.
        denominator: (n,) at least the numerator.
    """

    documents: Sequence[str]
    numerator: Floats
    denominator: Floats


@dataclass(frozen=True)
class Difference:
    """A number after minus before.

    Attributes:
        interval: interval of the difference.
        p: two-sided, of a difference as large without any effect.
        paired: whether the same units were compared; False: both intervals were joined.
    """

    interval: Interval
    p: float
    paired: bool


def paired_difference(
    before: UnitScores, after: UnitScores, rng: np.random.Generator
) -> Difference | None:
    """Compute the metric after minus before, over the units of both; null 0.

    Means: every unit's difference takes the place of attack minus baseline in `excess_rate` or
    `excess_mean` (in `net`, where there are members alone), and p is that of a sign flip by
    cluster. Areas: the paired difference of DeLong et al. (1988), or where few units change their
    place `_rare_area_interval`. p is that of the exchange of both scans' ranks in every unit
    (Bandos et al. 2005).

    Args:
        before: scores of one scan.
        after: scores of the other.
        rng: the source of randomness.

    Returns:
        None where there are too few units that both have: see `joined_difference`.
    """
    first, second = _of_both(before, after)
    if before.kind == "auc":
        return _area_difference(first, second, rng)
    member = first.member
    clusters = np.asarray(np.unique(list(first.clusters), return_inverse=True)[1], np.int64)
    sides = [side for side in (member, ~member) if side.any()]
    if not member.any() or any(np.unique(clusters[side]).size < MIN_UNITS for side in sides):
        return None
    width = max(scores.limits[1] - scores.limits[0] for scores in (before, after))
    change = (second.values - first.values) / width
    interval = _mean_change(change, sides, clusters, rng)
    weights = np.where(member, 1 / max(member.sum(), 1), -1 / max((~member).sum(), 1))
    p = sign_flip(cluster_sums([change * weights], clusters)[:, 0], rng)
    return Difference(scaled(interval, width), p, True)


def _mean_change(
    change: Floats, sides: Sequence[Bools], clusters: Ints, rng: np.random.Generator
) -> Interval:
    """Compute the interval of the mean change of members, minus that of held-out units.

    Args:
        change: (n_units,) after minus before, in [-1, 1].
        sides: (n_units,) each: the members, and the held-out units where there are any.
        clusters: (n_units,).
        rng: the source of randomness.
    """
    gained = np.maximum(change, 0.0)
    lost = np.maximum(-change, 0.0)
    if len(sides) == 1:
        return net(gained, lost, clusters, rng)
    excess = excess_rate if np.isin(change, (-1.0, 0.0, 1.0)).all() else excess_mean
    return excess([(gained[side], lost[side], clusters[side]) for side in sides], rng)


def _of_both(before: UnitScores, after: UnitScores) -> tuple[UnitScores, UnitScores]:
    """Return both scans' scores of the units that have a finite one in both, in one order."""
    names = sorted(set(before.units) & set(after.units))
    is_finite = np.isfinite(before.only(names).values) & np.isfinite(after.only(names).values)
    names = [name for name, finite in zip(names, is_finite, strict=True) if finite]
    return before.only(names), after.only(names)


def area_change(before: UnitScores, after: UnitScores) -> Interval | None:
    """Compute the interval of `paired_difference` for areas.

    It comes without its p, which takes far longer.
    """
    first, second = _of_both(before, after)
    return _area_interval(_ranks(first, second), first.member)


def _moves(scores: Sequence[Floats], member: Bools) -> list[Floats]:
    """Compute by how much each unit's placement changes: of members, and of all others."""
    placed = [placements(score[member], score[~member]) for score in reversed(scores)]
    return [np.subtract(*sides) for sides in zip(*placed, strict=True)]


def _area_interval(scores: Sequence[Floats], member: Bools) -> Interval | None:
    """Compute the interval of the AUC after minus before.

    None with too few units, or where too few change their place.
    """
    if min(member.sum(), (~member).sum()) < MIN_UNITS:
        return None
    value = _exchanged_change(scores, member, np.zeros(member.size, bool))
    moved = _moves(scores, member)
    if min(int((side != 0).sum()) for side in moved) < MIN_DIFFERING:
        return None
    # The variance is that of what each unit's placement changes.
    reach = welch_reach(*moved)
    n = member.size
    lower = np.maximum(value - reach, -1.0)
    upper = np.minimum(value + reach, 1.0)
    return make_interval(value, lower, upper, n=n, method="DeLong, paired")


def _rare_area_interval(scores: Sequence[Floats], member: Bools) -> Interval | None:
    """Compute the interval of the AUC after minus before where few units change their place.

    The change of either side's placements has the change of the area as its mean. Each mean has
    the bounds of `rare_reach`, and MOVER joins both sides. So bounds hold although a sample shows
    few of the changes that there are, or none.

    Returns:
        None with too few units.
    """
    if min(member.sum(), (~member).sum()) < MIN_UNITS:
        return None
    value = _exchanged_change(scores, member, np.zeros(member.size, bool))
    of_members, of_others = (rare_reach(side) for side in _moves(scores, member))
    lower = np.maximum(value - np.sqrt(of_members[0] + of_others[0]), -1.0)
    upper = np.minimum(value + np.sqrt(of_members[1] + of_others[1]), 1.0)
    method = "MOVER on Clopper-Pearson, paired (few units change their place)"
    return make_interval(value, lower, upper, n=member.size, method=method)


def ratio_difference(
    before: Ratios, after: Ratios, both: tuple[Estimate, Estimate] | None, rng: np.random.Generator
) -> Difference | None:
    """Compute the measure after minus before, over the documents of both; null 0.

    BCa over documents; where none differs, from both intervals. p: of the exchange of both scans in
    every document.

    Args:
        before: values of one scan.
        after: values of the other scan.
        both: the measure before and after, with intervals; None: without documents that differ
            nothing is said.
        rng: the source of randomness.

    Returns:
        None where they share fewer than two documents, or nothing was counted on these.
    """
    names = sorted(set(before.documents) & set(after.documents))
    if len(names) < MIN_UNITS:
        return None
    columns = []
    for side in (before, after):
        place = {name: row for row, name in enumerate(side.documents)}
        rows = np.array([place[name] for name in names])
        columns += [side.numerator[rows], side.denominator[rows]]
    sums = np.stack(columns, axis=1)
    if not (sums[:, 1].any() and sums[:, 3].any()):
        return None
    interval = bootstrap([sums], _ratio_change, rng, limits=(-1.0, 1.0))

    def change(swap: Bools) -> float:
        """Compute the change of the ratio with both scans of the marked documents exchanged."""
        rows = np.where(swap[:, None], sums[:, [2, 3, 0, 1]], sums)
        return float(_ratio_change(rows.sum(axis=0)[None, None])[0])

    p = _exchange(change(np.zeros(len(names), bool)), change, len(names), rng)
    if interval is None:
        return None if both is None else replace(joined_difference(*both), p=p, paired=True)
    return Difference(interval, p, True)


def joined_difference(before: Estimate, after: Estimate) -> Difference:
    """Compute the difference from both intervals alone, as if the scans were independent.

    This is MOVER (Zou & Donner 2008). Scans of the same units go together, so that this is wider
    than a paired interval. p: from the normal distribution that has as far to 0.
    """
    # Equal means may differ in the last bits of their sums.
    value = round(after.value - before.value, 12)
    lower_after, upper_after = _bounds(after)
    lower_before, upper_before = _bounds(before)
    down = np.hypot(after.value - lower_after, upper_before - before.value)
    up = np.hypot(upper_after - after.value, before.value - lower_before)
    reach = float(down[0] if value > 0 else up[0])
    z = np.inf if value else 0.0
    if reach > 0:
        z = abs(value) / reach * -NormalDist().inv_cdf(float(TAILS[0]))
    n = before.n + after.n
    n_clusters = max(before.clusters, after.clusters)
    method = "MOVER on the intervals before and after (not paired)"
    interval = make_interval(
        value, value - down, value + up, n=n, clusters=n_clusters, method=method
    )
    return Difference(interval, erfc(z / sqrt(2)), False)


def _bounds(item: Estimate) -> tuple[Floats, Floats]:
    """Return the lower and the upper bounds of an estimate at `TAILS`, shape (n_tails,) each.

    A record of an older version lacks some levels. Such a level has the bounds of the next smaller
    one that the record holds, which lie farther out; where it holds none, nothing bounds the
    number, and they are infinite.
    """
    lower = [item.low]
    upper = [item.high]
    for alpha in FINE_ALPHAS:
        finer = [bound for bound in item.bounds if bound.alpha <= alpha]
        if finer:
            nearest = max(finer, key=attrgetter("alpha"))
            lower.append(nearest.lower)
            upper.append(nearest.upper)
        else:
            lower.append(-np.inf)
            upper.append(np.inf)
    return np.minimum(lower, item.value), np.maximum(upper, item.value)


def _area_difference(
    one: UnitScores, other: UnitScores, rng: np.random.Generator
) -> Difference | None:
    """Compute the AUC after minus before with its exchange test; None with too few units."""
    scores = _ranks(one, other)
    member = one.member
    interval = _area_interval(scores, member) or _rare_area_interval(scores, member)
    if interval is None:
        return None
    change = partial(_exchanged_change, scores, member)
    return Difference(interval, _exchange(interval.value, change, member.size, rng), True)


def _ranks(*scans: UnitScores) -> list[Floats]:
    """Rank the units of each scan by score, ties at their mean."""
    from scipy.stats import rankdata

    return [np.asarray(rankdata(scan.values), np.float64) for scan in scans]


def _exchanged_change(scores: Sequence[Floats], member: Bools, swap: Bools) -> float:
    """Compute the area after minus before, with both scores of the units in `swap` exchanged."""
    sides = np.where(swap, scores[1], scores[0]), np.where(swap, scores[0], scores[1])
    first, second = (auc(side[member], side[~member]) for side in sides)
    return second - first


def _exchange(
    value: float, statistic: Callable[[Bools], float], n_units: int, rng: np.random.Generator
) -> float:
    """Compute the p-value of a difference by random exchanges of each unit's two scans.

    They are exchanged unit by unit; the share is never 0.
    """
    far = sum(
        abs(statistic(rng.random(n_units) < 0.5)) >= abs(value) - 1e-12 for _ in range(N_SWAPS)
    )
    return float((far + 1) / (N_SWAPS + 1))


def _ratio_change(totals: Floats) -> Floats:
    """Compute the second ratio of sums minus the first, for each row of totals."""
    first, below, second, beneath = totals[:, 0, :].T
    return np.asarray(
        second / np.maximum(beneath, 1e-12) - first / np.maximum(below, 1e-12), np.float64
    )


def sign_flip(differences: npt.ArrayLike, rng: np.random.Generator, n_flips: int = 10_000) -> float:
    """Test paired differences by cluster by a sign-flip permutation test.

    Method: methods/index.md#intervals.

    Args:
        differences: one sum of differences a cluster, shape (n_clusters,), at least one cluster.
        rng: the source of randomness.
        n_flips: number of random sign patterns.

    Returns:
        The two-sided p of a total as far from 0. Exact where all 2^clusters sign patterns are no
        more than `n_flips`; else drawn, with 1 added to both counts, so that p is never 0.

    Raises:
        ValueError: there are no differences, or one is not finite.
    """
    from scipy.stats import permutation_test

    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError("differences must be a non-empty array of finite numbers of one dimension")
    # A cluster without a difference is the same either way; without it more cases can be enumerated
    # exactly.
    flipped = np.sort(values[values != 0])
    if flipped.size < 2:
        return 1.0
    test = permutation_test(
        (flipped,),
        lambda sample, axis: np.sum(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_flips,
        batch=max(1, RESAMPLED_NUMBERS // flipped.size),
        rng=np.random.default_rng(rng.integers(2**63)),
    )
    return float(test.pvalue)
