"""Two-sided intervals with one-sided bounds, sums by cluster, and medians.

See methods/index.md#intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.measurements import ALPHAS


def cluster_sums(columns: Sequence[npt.ArrayLike], clusters: npt.ArrayLike) -> Floats:
    """Sum each column within each cluster.

    Args:
        columns: n_columns arrays of shape (n_rows,).
        clusters: the cluster (document or provider) of each row, shape (n_rows,), integers.

    Returns:
        Shape (n_clusters, n_columns), clusters in ascending order of their label.

    Raises:
        ValueError: there are no rows, or the lengths differ.
    """
    labels = np.asarray(clusters)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError("clusters must be a non-empty array of one dimension")
    values = [np.asarray(column, dtype=np.float64) for column in columns]
    if any(column.shape != labels.shape for column in values):
        raise ValueError("every column needs one value for each entry of clusters")
    distinct, position = np.unique(labels, return_inverse=True)
    return np.stack(
        [np.bincount(position, column, minlength=distinct.size) for column in values], axis=1
    )


def effective_number(sizes: npt.ArrayLike) -> float:
    """Count the clusters of one size that are worth as much as clusters of these sizes (Kish 1965).

    (sum m)^2 / sum m^2, for rows of a cluster that go together: the number of clusters where all
    hold equally many rows, else fewer. Hits that come by whole clusters, the likelier the more rows
    a cluster holds, leave no trace among all of them as often as among so many equal ones.

    Args:
        sizes: rows of each cluster, shape (n_clusters,), at least one positive.

    Returns:
        In [1, n_clusters]; exactly n_clusters where all sizes are equal.

    Raises:
        ValueError: there are no sizes, or one is negative, or none is positive.
    """
    rows = np.asarray(sizes, dtype=np.float64)
    if rows.ndim != 1 or rows.size == 0 or not (rows >= 0).all() or not rows.any():
        raise ValueError(
            "sizes must be a non-empty array of one dimension, none negative and one positive"
        )
    if np.ptp(rows) == 0:
        return float(rows.size)
    return float(rows.sum() ** 2 / np.sum(rows**2))


def join_groups(groups: Iterable[Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Unite groups that share a member, directly or through others.

    Members and groups are sorted.
    """
    owner: dict[str, set[str]] = {}
    for group in groups:
        joined = {id(owner[name]): owner[name] for name in group if name in owner}.values()
        largest = max(joined, key=len, default=set[str]())
        added = set(group)
        for united in joined:
            if united is not largest:
                added |= united
        added -= largest
        largest |= added
        owner.update(dict.fromkeys(added, largest))
    distinct = {id(united): united for united in owner.values()}.values()
    return tuple(sorted(tuple(sorted(united)) for united in distinct))


LEVEL = 0.95
"""Two-sided confidence of every interval of an audit."""
FINE_ALPHAS = (*ALPHAS, 0.00002)
"""One-sided levels of an interval's bounds: those of a record, and a finer one for checks that
share one level."""
TAILS = np.array([(1 - LEVEL) / 2, *FINE_ALPHAS])
"""The levels of all bounds of an interval: that of each end of the two-sided one first."""


@dataclass(frozen=True)
class Interval:
    """A number, its interval, and what it rests on.

    Attributes:
        value: the estimate.
        lower: bounds at `TAILS`, each of which holds on its own at confidence 1 - tail, at most
            `value`.
        upper: likewise, at least `value`.
        n: number of rows (fields, questions) that the value averages.
        clusters: number of independent units (documents, providers, canaries) that these come from.
        method: method of the interval, in words.
    """

    value: float
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: int
    clusters: int
    method: str

    @property
    def low(self) -> float:
        """Return the lower end of the two-sided interval at `LEVEL`."""
        return self.lower[0]

    @property
    def high(self) -> float:
        """Return the upper end of the two-sided interval at `LEVEL`."""
        return self.upper[0]

    @property
    def bounds(self) -> tuple[tuple[float, float, float], ...]:
        """Return (alpha, lower, upper) for each of `ALPHAS`."""
        return tuple(zip(ALPHAS, self.lower[1:], self.upper[1:], strict=False))

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """Return the lower and the upper bounds as arrays, shape (n_tails,) each."""
        return np.array(self.lower), np.array(self.upper)

    def p_above(self, threshold: float, levels: Sequence[float] = ALPHAS) -> float:
        """Return a one-sided p-value against "at most `threshold`".

        It is the smallest of `levels`, 1 without any.
        """
        pairs = zip(FINE_ALPHAS, self.lower[1:], strict=True)
        return min(
            (alpha for alpha, lower in pairs if alpha in levels and lower > threshold), default=1.0
        )

    def transform(self, change: Callable[[float], float]) -> Interval:
        """Return the interval with value and bounds mapped by a function that does not fall."""
        lower, upper = (tuple(map(change, side)) for side in (self.lower, self.upper))
        return replace(self, value=change(self.value), lower=lower, upper=upper)

    def widen(self, lower: Floats, upper: Floats, method: str) -> Interval:
        """Move each bound outwards to `lower` and `upper`, where these lie further.

        They have the shape (n_tails,) each.
        """
        own = self.ends
        ends = np.minimum(own[0], lower), np.maximum(own[1], upper)
        return make_interval(self.value, *ends, n=self.n, clusters=self.clusters, method=method)


def make_interval(
    value: float, lower: Floats, upper: Floats, *, n: int, method: str, clusters: int | None = None
) -> Interval:
    """Pack bounds at `TAILS` into an `Interval`, as plain floats that enclose the value.

    None: `n` clusters.
    """
    # Rounding in a quantile function may put a bound past the value by one unit in the last place.
    below = tuple(min(float(bound), value) for bound in lower)
    above = tuple(max(float(bound), value) for bound in upper)
    return Interval(value, below, above, n, n if clusters is None else clusters, method)


def clopper_pearson(hits: int, n: int) -> Interval:
    """Compute the exact interval of a binomial proportion (Clopper & Pearson 1934).

    It is that of `hits` of `n` independent rows.

    Raises:
        ValueError: n is not positive, or hits not in 0..n.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError("a proportion needs n >= 1 and hits between 0 and n")
    return make_interval(
        hits / n, *beta_bounds(hits / n, np.float64(n), TAILS), n=n, method="Clopper-Pearson"
    )


def proportion(
    hits: npt.ArrayLike, clusters: npt.ArrayLike, weights: Floats | None = None
) -> Interval:
    """Compute the share of hits with the interval that methods/index.md#intervals asks for.

    One row a cluster: Clopper-Pearson. No hit, all hits, or a single cluster: Clopper-Pearson with
    n = number of clusters (Kish's effective number where they hold unequal numbers of rows), since
    nothing is known of how rows of one cluster agree. Otherwise Korn-Graubard.

    Args:
        hits: 0/1 or boolean, shape (n,).
        clusters: the cluster of each row, shape (n,), integers.
        weights: weights, see `weighted_mean`.

    Raises:
        ValueError: there are no rows, the shapes differ, or values other than 0 and 1.
    """
    lower, upper, method = proportion_bounds(hits, clusters, TAILS, weights)
    outcomes = np.asarray(hits, np.float64)
    n_clusters = np.unique(clusters).size
    share = weighted_mean(outcomes, weights)
    return make_interval(share, lower, upper, n=outcomes.size, clusters=n_clusters, method=method)


def weighted_mean(values: Floats, weights: Floats | None) -> float:
    """Compute the mean of rows that were drawn with unequal chances.

    Args:
        values: shape (n,), at least one.
        weights: number of rows that each stands for, positive, shape (n,); None: all alike.
    """
    if weights is None:
        return float(values.mean())
    return float(np.sum(values * weights) / np.sum(weights))


def proportion_bounds(
    hits: npt.ArrayLike, clusters: npt.ArrayLike, tails: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats, str]:
    """Compute lower and upper bounds of `proportion` at one-sided levels, and their method.

    Bounds have the shape (n_tails,) each.

    Korn and Graubard (1998, Survey Methodology 24): Clopper-Pearson at n_eff = n / design effect,
    at most n; the design effect is the ultimate-cluster linearised variance of the ratio mean over
    p (1 - p) / n. It is then multiplied by (t_{n-1} / t_{clusters-1})^2, t at the confidence of
    each bound, which pays for having estimated the design effect from few clusters.

    Where clusters hold unequal numbers of rows m, the largest few decide the variance, and a sample
    in which these agree by chance hides it. It is then at least s^2 / K, with K = (sum m)^2 / sum
    m^2 (Kish) and s^2 the mean over rows of (share of the row's cluster - p)^2: what it is when the
    spread of the clusters' shares does not depend on m. K also takes the place of the number of
    clusters in t (`benchmarks/calibration/unequal_documents.md`). Of rows with weights, m is the
    sum of a cluster's weights, which are scaled to a mean of 1.
    """
    from scipy.special import stdtrit

    outcomes = np.asarray(hits, dtype=np.float64)
    if outcomes.ndim != 1 or outcomes.size == 0:
        raise ValueError("hits must be a non-empty array of one dimension")
    if not np.isin(outcomes, (0.0, 1.0)).all():
        raise ValueError("hits must be 0 or 1")
    rows = np.ones_like(outcomes) if weights is None else weights / weights.mean()
    totals = cluster_sums([rows * outcomes, rows], clusters)
    n = outcomes.size
    n_clusters = len(totals)
    share = weighted_mean(outcomes, weights)
    effective = effective_number(totals[:, 1])
    if n_clusters == n == effective:
        return *beta_bounds(share, np.float64(n), tails), "Clopper-Pearson"
    if n_clusters == 1 or share in (0.0, 1.0):
        return *beta_bounds(share, np.float64(effective), tails), name_beta(effective, n_clusters)
    residuals = (totals[:, 0] - share * totals[:, 1]) / n
    variance = n_clusters / (n_clusters - 1) * float(np.sum(residuals**2))
    if effective < n_clusters:
        alike = float(np.sum(residuals**2 / totals[:, 1])) * n / effective
        variance = max(variance, alike * effective / max(effective - 1, 1.0))
    # Clusters that happen to agree to the digit (variance 0) prove no more than independent rows
    # would.
    n_effective = min(float(n), share * (1 - share) / variance) if variance > 0 else float(n)
    correction = (stdtrit(n - 1, tails) / stdtrit(max(effective - 1, 1.0), tails)) ** 2
    return *beta_bounds(share, n_effective * correction, tails), "Korn-Graubard"


def beta_bounds(share: float, n: Floats | np.float64, tails: Floats) -> tuple[Floats, Floats]:
    """Compute one-sided Clopper-Pearson bounds at confidence 1 - tails.

    The number of trials may be any real number.

    Args:
        share: observed share, in [0, 1].
        n: number of trials, positive: one for all tails, or shape (n_tails,).
        tails: one-sided levels, shape (n_tails,).

    Returns:
        Lower and upper bounds, each of shape (n_tails,).
    """
    from scipy.special import betainccinv, betaincinv

    hits = share * n
    misses = (1 - share) * n
    lower = betaincinv(hits, misses + 1, tails) if share > 0 else np.zeros_like(tails)
    upper = betainccinv(hits + 1, misses, tails) if share < 1 else np.ones_like(tails)
    return np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)


def name_beta(effective: float, n_clusters: int) -> str:
    """Name `beta_interval` in the wording of a method, by whether all clusters count."""
    return f"Clopper-Pearson with n = {'' if effective == n_clusters else 'effective '}number of independent units"


def beta_interval(
    value: float,
    *,
    n: int,
    clusters: int,
    effective: float | None = None,
    note: str = " (all agree)",
) -> Interval:
    """Compute the interval of a mean over clusters of whose spread nothing is known.

    That of as many hits among them. Clopper-Pearson with n = number of clusters: of all variables
    in [0, 1] with a given mean the 0/1 one spreads most (Hoeffding 1963).

    Args:
        value: value in [0, 1].
        n: rows that the value averages.
        clusters: number of clusters.
        effective: number of clusters that they count as, see `effective_number`; None: `clusters`.
        note: appended to the method; by default that resampling shows no spread.
    """
    effective = float(clusters) if effective is None else effective
    ends = beta_bounds(value, np.float64(effective), TAILS)
    return make_interval(
        value, *ends, n=n, clusters=clusters, method=name_beta(effective, clusters) + note
    )


def median_interval(values: npt.ArrayLike) -> Interval:
    """Compute the median of independent units with its interval.

    It lies between two order statistics by the sign test.

    Of n units the number under the median is Binomial(n, 1/2), so that the k-th smallest is a lower
    bound at confidence 1 - alpha for the largest k with P(B < k) <= alpha, and the k-th largest an
    upper one. Where there is no such k, as among fewer than 6 units at 95 %, the bound is the
    smallest, or the largest, value.

    Args:
        values: shape (n,), finite, at least one.

    Raises:
        ValueError: there are no values.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, np.float64))
    if ordered.ndim != 1 or not ordered.size:
        raise ValueError("give at least one value")
    n = ordered.size
    # P(B <= index) <= tail, where index = k - 1 is that of the k-th smallest.
    indices = np.array([int((binom.cdf(np.arange(n), n, 0.5) <= tail).sum()) - 1 for tail in TAILS])
    indices = np.clip(indices, 0, (n - 1) // 2)
    middle = float(np.median(ordered))
    method = "order statistics by the sign test"
    return make_interval(middle, ordered[indices], ordered[n - 1 - indices], n=n, method=method)
