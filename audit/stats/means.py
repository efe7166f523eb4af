"""Means with intervals over documents, and how unequal groups widen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats, Ints
from audit.stats.intervals import (
    Interval,
    agreement_interval,
    cluster_sums,
    effective_number,
    make_interval,
    tail_levels,
)
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


def welch_reach(first: npt.ArrayLike, second: npt.ArrayLike, tails: npt.ArrayLike) -> Floats:
    """Distance of each one-sided bound from the difference of the means (Welch 1947).

    Args:
        first: shape (n_first,), at least two values.
        second: shape (n_second,), at least two values.
        tails: one-sided levels in (0, 0.5), shape (n_tails,).

    Returns:
        Shape (n_tails,), at least 0; 0 where neither side has any spread.

    Raises:
        ValueError: a side has fewer than two values.
    """
    from scipy.special import stdtrit

    sides = [np.asarray(side, np.float64) for side in (first, second)]
    levels = np.asarray(tails, np.float64)
    if min(side.size for side in sides) < 2:
        raise ValueError("a mean needs two values to say how sure it is")
    terms = np.array([side.var(ddof=1) / side.size for side in sides])
    if not terms.any():
        return np.zeros_like(levels)
    degrees = terms.sum() ** 2 / sum(term**2 / (side.size - 1) for term, side in zip(terms, sides, strict=True))
    reach: Floats = -stdtrit(degrees, levels) * np.sqrt(terms.sum())
    return reach


def widen_to_welch(interval: Interval, first: npt.ArrayLike, second: npt.ArrayLike) -> Interval:
    """The interval of a difference of two means, each bound moved outwards to Welch's where that lies further.

    With some 30 values a side that are spread like exposures, the BCa bootstrap's bounds are too near (at 1 % one-sided
    2.6 % of leak-free audits lie beyond, of 700), and Welch's are exact; where a few values are far from the rest
    Welch's upper bound is too near and the bootstrap's is better. The outer one is safe in both (ours).

    Args:
        interval: of mean(first) - mean(second).
        first: see `welch_reach`.
        second: see `welch_reach`.
    """
    alphas = [alpha for alpha, _, _ in interval.bounds]
    two_sided, *reach = welch_reach(first, second, [(1 - interval.level) / 2, *alphas])
    value = interval.value
    bounds = zip(interval.bounds, _floats(reach), strict=True)
    return replace(
        interval,
        low=min(interval.low, value - float(two_sided)),
        high=max(interval.high, value + float(two_sided)),
        bounds=tuple((alpha, min(low, value - far), max(high, value + far)) for (alpha, low, high), far in bounds),
        method=f"{interval.method}, at least as wide as Welch's t",
    )


def _floats(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values]


def group_jackknife(
    value: float,
    without: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    n: int,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The interval of a number in [0, 1] from what it is when each group of units is left out in turn.

    The variance is that of the pseudo-values, weighted for groups of unequal sizes (Busing, Meijer & van der Leeden
    1999), the bounds Student's t with one degree of freedom less than there are groups, and cut to [0, 1]. Whatever is
    made of the units, in one step or in several, is in it, as long as the number without a group rests on nothing that
    was made of the group.

    Args:
        value: of all units.
        without: the number without each group, shape (n_groups,), at least two.
        sizes: units in each group, shape (n_groups,), each under `n`.
        n: units in all, also of groups that are not left out because the number without them is not known.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a unit is, singular, for the method's wording.

    Returns:
        n and clusters count the units.

    Raises:
        ValueError: fewer than two groups, a group without units or of all, or a level out of range.
    """
    from scipy.special import stdtrit

    rest, counts = np.asarray(without, np.float64), np.asarray(sizes, np.float64)
    if rest.ndim != 1 or rest.size < 2 or rest.shape != counts.shape:
        raise ValueError("give two groups at least, and the size of each")
    if not ((counts > 0) & (counts < n)).all():
        raise ValueError("a group needs units, and others beside it")
    times = n / counts
    pseudo = times * value - (times - 1) * rest
    deviation = float(np.sqrt(np.mean((pseudo - pseudo.mean()) ** 2 / (times - 1))))
    reach = -stdtrit(rest.size - 1, tail_levels(alphas)) * deviation
    return make_interval(
        value,
        np.maximum(value - reach, 0.0),
        np.minimum(value + reach, 1.0),
        n=n,
        clusters=n,
        method=f"jackknife of {rest.size} groups of {unit}s",
        alphas=alphas,
    )


def widen_to(interval: Interval, floor: Interval) -> Interval:
    """The interval with bounds that lie at least as far from its value as those of another from its own.

    A jackknife sees no spread where every unit says the same, or nearly so; an interval that knows how many units there
    are then says how little that shows.

    Args:
        interval: of a number in [0, 1].
        floor: the other, of a number in [0, 1] and with bounds at the same levels.

    Returns:
        Bounds cut to [0, 1]; the wording of `interval`, unless `floor` reaches further on both sides.

    Raises:
        ValueError: the levels differ.
    """
    if [bound[0] for bound in interval.bounds] != [bound[0] for bound in floor.bounds]:
        raise ValueError("both intervals need bounds at the same levels")

    def lower(own: float, other: float) -> float:
        return max(min(own, interval.value - (floor.value - other)), 0.0)

    def upper(own: float, other: float) -> float:
        return min(max(own, interval.value + (other - floor.value)), 1.0)

    pairs = zip(interval.bounds, floor.bounds, strict=True)
    low, high = lower(interval.low, floor.low), upper(interval.high, floor.high)
    wider = low < interval.low and high > interval.high
    return replace(
        interval,
        low=low,
        high=high,
        method=f"{floor.method}, wider than the {interval.method}" if wider else interval.method,
        bounds=tuple((own[0], lower(own[1], other[1]), upper(own[2], other[2])) for own, other in pairs),
    )
