"""Intervals of anything made of sums over documents (BCa bootstrap), and paired tests (methods.md#statistics).

scipy.stats.bootstrap is not used because it resamples rows of single columns: here whole clusters are drawn, with
several sums each, within each split. On a plain mean both agree (tested).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import Interval, effective_number, make_interval, tail_levels


@dataclass(frozen=True)
class Jackknife:
    """Leave-one-cluster-out.

    Attributes:
        standard_error: square root of the variance, summed over strata.
        degrees_of_freedom: Satterthwaite's, over strata.
        acceleration: Efron's, for BCa.
    """

    standard_error: float
    degrees_of_freedom: float
    acceleration: float

    def reach(self, tails: Floats) -> Floats:
        """Distance of the cluster-t bound at each tail from the value, shape (n_tails,)."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.degrees_of_freedom, tails) * self.standard_error, np.float64)


def from_influences(influences: Sequence[Floats]) -> Jackknife:
    """The jackknife of clusters that count alike (multi-sample form of Efron & Tibshirani 1993, section 14.3).

    Args:
        influences: one array of shape (n_clusters_s,) a stratum, n_clusters_s at least 2:
            (n - 1) / n * (mean of the values without one cluster - value without this one).
    """
    variances = [float(np.sum(influence**2)) for influence in influences]
    degrees = [influence.size - 1 for influence in influences]
    acceleration = sum(float(np.sum(influence**3)) for influence in influences) / (6 * sum(variances) ** 1.5)
    # The usual jackknife variance has (n - 1) / n where the sum of squared influences / n^2 has ((n - 1) / n)^2.
    unbiased = [term * (degree + 1) / degree for term, degree in zip(variances, degrees, strict=True)]
    return Jackknife(sum(unbiased) ** 0.5, _satterthwaite(unbiased, degrees), acceleration)


def from_unequal(influences: Sequence[Floats], sizes: Sequence[Floats]) -> Jackknife:
    """The jackknife of clusters that hold unequal numbers of rows: variance at least s^2 / K, and K - 1 degrees.

    K = (sum m)^2 / sum m^2 is Kish's effective number; s^2 is the mean over rows of the squared influence that a
    cluster has for each of its rows. That is the variance when this does not depend on a cluster's size, as with rows
    that go together; where the largest few clusters happen to agree, the plain variance misses it.

    Args:
        influences: as `from_influences` takes them.
        sizes: rows of each cluster, the same shapes, positive.
    """
    plain = from_influences(influences)
    variances, degrees = [], []
    for influence, rows in zip(influences, sizes, strict=True):
        effective, n = effective_number(rows), influence.size
        alike = float(np.sum(influence**2 / rows)) * float(rows.sum()) / effective
        degrees.append(max(effective - 1, 1.0))
        variances.append(
            max(float(np.sum(influence**2)) * n / (n - 1), alike * effective / degrees[-1] if effective < n else 0.0)
        )
    return Jackknife(sum(variances) ** 0.5, _satterthwaite(variances, degrees), plain.acceleration)


def _satterthwaite(variances: Sequence[float], degrees: Sequence[float]) -> float:
    spread = sum(variances)
    return spread**2 / sum(term**2 / degree for term, degree in zip(variances, degrees, strict=True))


Statistic = Callable[[Floats], Floats]
MIN_CLUSTERS = 20
"""Under so many clusters in a stratum: cluster-t instead of BCa (methods.md#statistics)."""
EXTREME_ALPHA = 0.01
"""One-sided levels under this one take the outer of the BCa and the cluster-t bound. Ours: BCa's error in coverage is
of order 1/n whatever the level, so far out in the tail its relative error is large."""
MIN_REPLICATES_BEYOND = 10
"""With fewer replicates beyond a BCa bound it is noise, and the outer of it and the cluster-t bound is taken. Ours."""
_BLOCK = 2_000_000
"""Entries of the matrix of counts held at once (16 MB)."""
_DRAW_BLOCK = 200_000
"""Drawn clusters held at once: few enough for a processor's cache (ours)."""
_COST_OF_COUNT = 8
"""To draw how often one distinct row occurs takes as long as to draw so many clusters (ours, as measured)."""


def bootstrap(
    strata: Sequence[npt.ArrayLike],
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    n: int | None = None,
    unit: str = "document",
    limits: tuple[float, float] = (-np.inf, np.inf),
    sizes: Sequence[npt.ArrayLike] | None = None,
) -> Interval | None:
    """BCa bootstrap (Efron 1987) over clusters, stratified; cluster-t where a stratum has fewer than 20 clusters.

    The result does not depend on the order of clusters within a stratum.

    One-sided bounds at alpha under 0.01, and bounds beyond which fewer than 10 replicates lie, are the outer of the BCa
    bound (at most as far as the outermost replicate) and the cluster-t bound. Bounds never narrow as alpha falls, and
    enclose the value.

    Where the clusters of a stratum hold unequal numbers of rows, resampling repeats what the largest few happen to say.
    The distance of every bound from the value is then multiplied by how much farther the cluster-t bound reaches with
    `jackknife.from_unequal` than without (ours; `benchmarks/unequal_documents.md`).

    Args:
        strata: one array of shape (n_clusters_s, n_columns) a stratum (split): the sums of each cluster.
        statistic: takes column totals, shape (n, n_strata, n_columns), gives finite values, shape (n,).
        rng: the source of randomness; the same state gives the same interval.
        n_resamples: how many resamples.
        alphas: one-sided levels for `Interval.bounds`.
        n: how many rows the sums are made of, for `Interval.n`; the number of clusters when None.
        unit: what a cluster is, singular, for the method's wording.
        limits: range of the statistic, to which bounds are cut.
        sizes: how many rows each cluster of each stratum holds, shapes (n_clusters_s,), positive; all alike when None.

    Returns:
        None where leaving out one cluster changes nothing in some stratum, or all resamples agree. An interval without
        width would claim a certainty that the data does not give: use a rule for rare outcomes (`rates`, `proportion`).

    Raises:
        ValueError: fewer than two clusters in a stratum, unequal columns, a statistic that is not finite, or sizes
            of other shapes or not positive.
    """
    sums = _checked(strata)
    totals = np.stack([stratum.sum(axis=0) for stratum in sums])
    value = float(_evaluate(statistic, totals[None])[0])
    influences, tails = _influences(sums, totals, statistic), tail_levels(alphas)
    if influences is None:
        return None
    plain = from_influences(influences)
    reach = plain.reach(tails)
    lower, upper = value - reach, value + reach
    method = f"cluster-t by jackknife over {unit}s"
    if min(len(stratum) for stratum in sums) < MIN_CLUSTERS:
        method += f", few {unit}s"
    else:
        replicates = np.sort(_evaluate(statistic, _resampled_totals(sums, rng, n_resamples)))
        if np.ptp(replicates) <= _negligible(value):
            return None
        below = (np.sum(replicates < value) + np.sum(replicates <= value)) / (2 * n_resamples)
        # Where the estimate lies outside all its replicates BCa's correction is infinite: cluster-t remains.
        if 0 < below < 1:
            lower, upper = _bca_bounds(replicates, float(below), plain.acceleration, tails, (lower, upper))
            method = f"BCa bootstrap over {unit}s, {n_resamples:,} resamples"
    rows = _unequal(sums, sizes)
    if rows is not None:
        factor = from_unequal(influences, rows).reach(tails) / reach
        lower, upper = value - factor * (value - lower), value + factor * (upper - value)
        method += f", widened for unequal {unit}s"
        lower, upper = _never_narrowing(lower, upper, tails)
    method += f", {len(sums)} strata" if len(sums) > 1 else ""
    clusters = sum(len(stratum) for stratum in sums)
    return make_interval(
        value,
        np.clip(lower, *limits),
        np.clip(upper, *limits),
        n=clusters if n is None else n,
        clusters=clusters,
        method=method,
        alphas=alphas,
    )


def _checked(strata: Sequence[npt.ArrayLike]) -> list[Floats]:
    sums = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    if not sums or any(stratum.ndim != 2 or stratum.shape[1] != sums[0].shape[1] for stratum in sums):
        raise ValueError("strata must be arrays of shape (n_clusters, n_columns) with the same columns")
    if any(len(stratum) < 2 for stratum in sums):
        raise ValueError("every stratum needs at least two clusters")
    return sums


def _unequal(sums: list[Floats], sizes: Sequence[npt.ArrayLike] | None) -> list[Floats] | None:
    """The rows of each cluster where some stratum holds clusters of unequal numbers; else None."""
    if sizes is None:
        return None
    rows = [np.asarray(size, dtype=np.float64) for size in sizes]
    shapes = [(len(stratum),) for stratum in sums]
    if [size.shape for size in rows] != shapes or any((size <= 0).any() for size in rows):
        raise ValueError("sizes must hold a positive number of rows for each cluster of each stratum")
    return rows if any(np.ptp(size) > 0 for size in rows) else None


def _evaluate(statistic: Statistic, totals: Floats) -> Floats:
    values = np.asarray(statistic(totals), dtype=np.float64)
    if values.shape != totals.shape[:1]:
        raise ValueError("the statistic must give one value for each row of totals")
    if not np.isfinite(values).all():
        raise ValueError("the statistic is not finite on the data or on a resample")
    return values


def _negligible(value: float) -> float:
    """Differences up to this come from rounding of sums."""
    return 1e-12 * max(1.0, abs(value))


def _influences(sums: list[Floats], totals: Floats, statistic: Statistic) -> list[Floats] | None:
    """What each cluster of each stratum does to the statistic, by leaving it out (see `jackknife.from_influences`).

    None where that is nothing for all clusters of a stratum.
    """
    influences = []
    for index, stratum in enumerate(sums):
        left_out = np.repeat(totals[None], len(stratum), axis=0)
        left_out[:, index] -= stratum
        values = _evaluate(statistic, left_out)
        if np.ptp(values) <= _negligible(float(values[0])):
            return None
        size = len(stratum)
        influences.append((size - 1) * (values.mean() - values) / size)
    return influences


def _resampled_totals(sums: list[Floats], rng: np.random.Generator, n_resamples: int) -> Floats:
    """Totals of resamples, shape (n_resamples, n_strata, n_columns).

    Drawing n clusters with replacement is drawing how often each *distinct* row of sums occurs: far fewer of them for
    0/1 outcomes, and their sorted order makes the result independent of the order of clusters.
    """
    totals = np.empty((n_resamples, len(sums), sums[0].shape[1]))
    for index, stratum in enumerate(sums):
        rows, counts = np.unique(stratum, axis=0, return_counts=True)
        block = max(1, _BLOCK // len(rows))
        for start in range(0, n_resamples, block):
            stop = min(start + block, n_resamples)
            totals[start:stop, index] = _products(_draw(counts, rng, stop - start), rows)
    return totals


def _draw(counts: npt.NDArray[np.int64], rng: np.random.Generator, n_resamples: int) -> npt.NDArray[np.int64]:
    """Draw how often each distinct row occurs among as many clusters as there are, shape (n_resamples, n_rows).

    Either the multinomial counts at once or one cluster after the other, whichever is faster: the distribution is one.

    Args:
        counts: how many clusters have each row, shape (n_rows,).
        rng: the source of randomness.
        n_resamples: how many resamples.
    """
    n_rows, n_clusters = len(counts), int(counts.sum())
    if n_clusters > _COST_OF_COUNT * n_rows:
        return rng.multinomial(n_clusters, counts / n_clusters, size=n_resamples)
    row_of = np.repeat(np.arange(n_rows), counts)
    block = max(1, _DRAW_BLOCK // n_clusters)
    drawn = np.empty((n_resamples, n_rows), np.int64)
    for start in range(0, n_resamples, block):
        part = drawn[start : start + block]
        cells = row_of[rng.integers(n_clusters, size=(len(part), n_clusters), dtype=np.uint32)]
        cells += np.arange(len(part))[:, None] * n_rows
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)
    return drawn


def _products(drawn: npt.NDArray[np.int64], rows: Floats) -> Floats:
    """`drawn` @ `rows`, the same on any number of threads."""
    occupied = rows != 0
    if (occupied.sum(axis=0) <= 1).all():
        # Nothing is summed, as where every cluster has a column of its own.
        source = occupied.argmax(axis=0)
        return np.asarray(drawn[:, source] * rows[source, np.arange(rows.shape[1])] + 0.0)
    # einsum, not @: BLAS sums in an order that depends on the number of threads.
    return np.asarray(np.einsum("rk,kc->rc", drawn.astype(np.float64), rows), dtype=np.float64)


def _bca_bounds(
    replicates: Floats, below: float, acceleration: float, tails: Floats, t_bounds: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """BCa bounds from sorted replicates, a share `below` of them under the estimate; ranks are rounded outwards."""
    from scipy.special import ndtr, ndtri

    n = len(replicates)
    bias = ndtri(below)

    def adjusted(z: Floats) -> Floats:
        scale = 1 - acceleration * (bias + z)
        # Past its pole (scale <= 0) the correction would turn round: its limit before the pole is kept.
        safe = np.where(scale > 0, scale, 1.0)
        levels = np.where(scale > 0, ndtr(bias + (bias + z) / safe), bias + z > 0)
        return np.asarray(levels, dtype=np.float64)

    ranks = np.floor(adjusted(ndtri(tails)) * (n + 1)).astype(int)
    ranks_above = np.floor((1 - adjusted(-ndtri(tails))) * (n + 1)).astype(int)
    lower = replicates[np.clip(ranks - 1, 0, n - 1)]
    upper = replicates[np.clip(n - ranks_above, 0, n - 1)]
    unsure = (tails < EXTREME_ALPHA) | (np.minimum(ranks, ranks_above) < MIN_REPLICATES_BEYOND)
    lower = np.where(unsure, np.minimum(lower, t_bounds[0]), lower)
    upper = np.where(unsure, np.maximum(upper, t_bounds[1]), upper)
    return lower, upper


def _never_narrowing(lower: Floats, upper: Floats, tails: Floats) -> tuple[Floats, Floats]:
    """The bounds, each at least as far out as those of larger tails: factors of widening differ between levels."""
    order = np.argsort(-tails)
    back = np.argsort(order)
    return np.minimum.accumulate(lower[order])[back], np.maximum.accumulate(upper[order])[back]


@dataclass(frozen=True)
class SignFlip:
    """A paired permutation test.

    Attributes:
        total: sum of the differences.
        two_sided: p that the total is as far from 0, if signs were coin flips.
        greater: p that it is as large.
        clusters: how many clusters were flipped.
    """

    total: float
    two_sided: float
    greater: float
    clusters: int


def sign_flip(differences: npt.ArrayLike, rng: np.random.Generator, n_flips: int = 10_000) -> SignFlip:
    """Sign-flip permutation test of paired differences by cluster (methods.md#statistics).

    Exact where all 2^clusters sign patterns are no more than `n_flips`; else drawn, with 1 added to both counts, so
    that p is never 0.

    Args:
        differences: one sum of differences a cluster, shape (n_clusters,), at least one cluster.
        rng: the source of randomness.
        n_flips: how many random sign patterns.

    Raises:
        ValueError: there are no differences, or one is not finite.
    """
    from scipy.stats import permutation_test

    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError("differences must be a non-empty array of finite numbers of one dimension")
    # A cluster without a difference is the same either way; without it more cases can be enumerated exactly.
    flipped = np.sort(values[values != 0])
    if flipped.size == 0:
        return SignFlip(0.0, 1.0, 1.0, values.size)
    seed = rng.integers(2**63)

    def p(alternative: str) -> float:
        if flipped.size == 1:
            return 1.0 if alternative == "two-sided" else float(0.5 if flipped[0] > 0 else 1.0)
        test = permutation_test(
            (flipped,),
            lambda sample, axis: np.sum(sample, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=n_flips,
            batch=max(1, _BLOCK // flipped.size),
            alternative=alternative,
            # The same flips for both alternatives.
            rng=np.random.default_rng(seed),
        )
        return float(test.pvalue)

    return SignFlip(float(values.sum()), p("two-sided"), p("greater"), values.size)
