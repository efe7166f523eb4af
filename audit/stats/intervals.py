"""Two-sided intervals with one-sided bounds, sums by cluster, and medians (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats


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
    return np.stack([np.bincount(position, column, minlength=distinct.size) for column in values], axis=1)


def effective_number(sizes: npt.ArrayLike) -> float:
    """Number of clusters of one size that are worth as much as clusters of these sizes (Kish 1965).

    (sum m)^2 / sum m^2, for rows of a cluster that go together: the number of clusters where all hold equally many
    rows, else fewer. Hits that come by whole clusters, the likelier the more rows a cluster holds, leave no trace among
    all of them as often as among so many equal ones.

    Args:
        sizes: rows of each cluster, shape (n_clusters,), at least one positive.

    Returns:
        In [1, n_clusters]; exactly n_clusters where all sizes are equal.

    Raises:
        ValueError: there are no sizes, or one is negative, or none is positive.
    """
    rows = np.asarray(sizes, dtype=np.float64)
    if rows.ndim != 1 or rows.size == 0 or not (rows >= 0).all() or not rows.any():
        raise ValueError("sizes must be a non-empty array of one dimension, none negative and one positive")
    if np.ptp(rows) == 0:
        return float(rows.size)
    return float(rows.sum() ** 2 / np.sum(rows**2))


def join_groups(groups: Iterable[Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Unite groups that share a member, directly or through others; members and groups are sorted."""
    owner: dict[str, set[str]] = {}
    for group in groups:
        whole = set(group).union(*(owner[name] for name in group if name in owner))
        owner.update(dict.fromkeys(whole, whole))
    return tuple(sorted({tuple(sorted(whole)) for whole in owner.values()}))


LEVEL = 0.95
"""Two-sided confidence of every interval of an audit."""


@dataclass(frozen=True)
class Interval:
    """A number, its interval, and what it rests on.

    Attributes:
        value: the estimate.
        low, high: two-sided interval at `level`; the value lies in it.
        n: how many rows (fields, questions) the value averages.
        clusters: how many independent units (documents, providers) these come from.
        method: how the interval was made, in words.
        level: two-sided confidence level, in (0, 1).
        bounds: (alpha, lower, upper) for each alpha asked for; each bound holds on its own at confidence 1 - alpha.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    method: str
    level: float
    bounds: tuple[tuple[float, float, float], ...]

    @property
    def one_sided(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds, without their levels, shape (n_alphas,) each."""
        _, lower, upper = np.array(self.bounds, np.float64).reshape(-1, 3).T
        return lower, upper

    def transform(self, change: Callable[[float], float]) -> Interval:
        """The interval of an increasing function of the number."""
        return replace(
            self,
            value=change(self.value),
            low=change(self.low),
            high=change(self.high),
            bounds=tuple((alpha, change(lower), change(upper)) for alpha, lower, upper in self.bounds),
        )


def tail_levels(alphas: Sequence[float], level: float = LEVEL) -> Floats:
    """List the one-sided levels to compute: that of the two-sided interval first, then `alphas`.

    Raises:
        ValueError: a level is not in (0, 1), or an alpha not in (0, 0.5).
    """
    if not 0 < level < 1:
        raise ValueError("level must lie between 0 and 1")
    if not all(0 < alpha < 0.5 for alpha in alphas):
        raise ValueError("each alpha must lie between 0 and 0.5")
    return np.array([(1 - level) / 2, *alphas])


def make_interval(
    value: float,
    lower: Floats,
    upper: Floats,
    *,
    n: int,
    clusters: int,
    method: str,
    alphas: Sequence[float],
    level: float = LEVEL,
) -> Interval:
    """Pack bounds at `tail_levels(alphas, level)` into an `Interval`, as plain floats that enclose the value."""
    # Rounding in a quantile function may put a bound past the value by one unit in the last place.
    below = [min(float(bound), value) for bound in lower]
    above = [max(float(bound), value) for bound in upper]
    bounds = tuple((float(alpha), below[i], above[i]) for i, alpha in enumerate(alphas, start=1))
    return Interval(value, below[0], above[0], n, clusters, method, level, bounds)


def clopper_pearson(hits: int, n: int, level: float = LEVEL, *, alphas: Sequence[float] = ()) -> Interval:
    """Exact interval of a binomial proportion (Clopper & Pearson 1934): `hits` of `n` independent rows.

    Raises:
        ValueError: n is not positive, hits not in 0..n, or a level out of range.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError("a proportion needs n >= 1 and hits between 0 and n")
    lower, upper = beta_bounds(hits / n, np.float64(n), tail_levels(alphas, level))
    return make_interval(hits / n, lower, upper, n=n, clusters=n, method="Clopper-Pearson", level=level, alphas=alphas)


def korn_graubard(
    hits: npt.ArrayLike,
    clusters: npt.ArrayLike,
    level: float = LEVEL,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Clopper-Pearson at the effective sample size of a clustered sample (Korn & Graubard 1998, Survey Methodology 24).

    n_eff = n / design effect, at most n; the design effect is the ultimate-cluster linearised variance of the ratio
    mean over p (1 - p) / n. It is then multiplied by (t_{n-1} / t_{clusters-1})^2, t at the confidence of each bound,
    which pays for having estimated the design effect from few clusters.

    Where clusters hold unequal numbers of rows m, the largest few decide the variance, and a sample in which these
    agree by chance hides it. It is then at least s^2 / K, with K = (sum m)^2 / sum m^2 (Kish) and s^2 the mean over
    rows of (share of the row's cluster - p)^2: what it is when the spread of the clusters' shares does not depend on m.
    K also takes the place of the number of clusters in t (ours; `benchmarks/unequal_documents.md`).

    Args:
        hits: 0/1 or boolean, shape (n,), at least one of each.
        clusters: the cluster of each row, shape (n,), integers; two distinct ones at least.
        level: two-sided confidence level.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Raises:
        ValueError: all rows agree, there is one cluster only, the shapes differ, or a level is out of range.
    """
    from scipy.special import stdtrit

    outcomes = _outcomes(hits)
    totals = cluster_sums([outcomes, np.ones_like(outcomes)], clusters)
    n, n_clusters, effective = outcomes.size, len(totals), effective_number(totals[:, 1])
    share = float(outcomes.mean())
    if share in (0.0, 1.0) or n_clusters < 2:
        raise ValueError("the design effect needs hits, misses and two clusters: see `proportion` for the other cases")
    residuals = (totals[:, 0] - share * totals[:, 1]) / n
    variance = n_clusters / (n_clusters - 1) * float(np.sum(residuals**2))
    if effective < n_clusters:
        alike = float(np.sum(residuals**2 / totals[:, 1])) * n / effective
        variance = max(variance, alike * effective / max(effective - 1, 1.0))
    # Documents that happen to agree to the digit (variance 0) prove no more than independent rows would.
    n_effective = min(float(n), share * (1 - share) / variance) if variance > 0 else float(n)
    tails = tail_levels(alphas, level)
    correction = (stdtrit(n - 1, tails) / stdtrit(max(effective - 1, 1.0), tails)) ** 2
    lower, upper = beta_bounds(share, n_effective * correction, tails)
    return make_interval(
        share,
        lower,
        upper,
        n=n,
        clusters=n_clusters,
        method=f"Korn-Graubard, clustered by {unit}",
        level=level,
        alphas=alphas,
    )


def proportion(
    hits: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    level: float = LEVEL,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The share of hits with the interval that methods.md#statistics asks for.

    One row a cluster: Clopper-Pearson. No hit, all hits, or a single cluster: Clopper-Pearson with n = number of
    clusters (Kish's effective number where they hold unequal numbers of rows), since nothing is known of how rows of
    one cluster agree. Otherwise Korn-Graubard.

    Args:
        hits: 0/1 or boolean, shape (n,).
        clusters: the cluster of each row, shape (n,), integers.
        level: two-sided confidence level.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Raises:
        ValueError: there are no rows, the shapes differ, values other than 0 and 1, or a level out of range.
    """
    outcomes = _outcomes(hits)
    sizes = cluster_sums([np.ones_like(outcomes)], clusters)[:, 0]
    n, n_clusters, share = outcomes.size, sizes.size, float(outcomes.mean())
    if n_clusters < n and n_clusters > 1 and 0 < share < 1:
        return korn_graubard(outcomes, clusters, level, alphas=alphas, unit=unit)
    if n_clusters == n:
        return clopper_pearson(int(outcomes.sum()), n, level, alphas=alphas)
    effective = effective_number(sizes)
    return beta_interval(share, effective, n=n, clusters=n_clusters, level=level, alphas=alphas, unit=unit)


def beta_bounds(share: float, n: Floats | np.float64, tails: Floats) -> tuple[Floats, Floats]:
    """One-sided Clopper-Pearson bounds at confidence 1 - tails, for a real-valued number of trials.

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


def name_number(effective: float, n_clusters: int, unit: str) -> str:
    """Name, in the wording of a method, the number of clusters that count as `effective`."""
    return f"number of {unit}s" if effective == n_clusters else f"effective number of {unit}s"


def beta_interval(
    value: float,
    effective: float,
    *,
    n: int,
    clusters: int,
    level: float = LEVEL,
    alphas: Sequence[float] = (),
    unit: str = "document",
    note: str = "",
) -> Interval:
    """The interval of a mean over clusters of whose spread nothing is known: that of a share of hits among them.

    Clopper-Pearson with n = number of clusters: of all variables in [0, 1] with a given mean the 0/1 one spreads most
    (Hoeffding 1963).

    Args:
        value: in [0, 1].
        effective: as how many clusters they count, see `effective_number`.
        n: rows that the value averages.
        clusters: how many there are.
        level: two-sided confidence level.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.
        note: appended to the method.
    """
    lower, upper = beta_bounds(value, np.float64(effective), tail_levels(alphas, level))
    method = f"Clopper-Pearson with n = {name_number(effective, clusters, unit)}{note}"
    return make_interval(value, lower, upper, n=n, clusters=clusters, method=method, level=level, alphas=alphas)


def agreement_interval(
    value: float,
    *,
    n: int,
    clusters: int,
    effective: float | None = None,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """The `beta_interval` of a number on which all clusters agree, so that resampling shows no spread.

    Args are those of `beta_interval`; `effective` is `clusters` when None.
    """
    effective = float(clusters) if effective is None else effective
    return beta_interval(value, effective, n=n, clusters=clusters, alphas=alphas, unit=unit, note=" (all agree)")


def _outcomes(hits: npt.ArrayLike) -> Floats:
    outcomes = np.asarray(hits, dtype=np.float64)
    if outcomes.ndim != 1 or outcomes.size == 0:
        raise ValueError("hits must be a non-empty array of one dimension")
    if not np.isin(outcomes, (0.0, 1.0)).all():
        raise ValueError("hits must be 0 or 1")
    return outcomes


def median_interval(values: npt.ArrayLike, *, alphas: Sequence[float] = (), unit: str = "document") -> Interval:
    """The median of independent units, and the order statistics between which it lies by the sign test.

    Of n units the number under the median is Binomial(n, 1/2), so that the k-th smallest is a lower bound at confidence
    1 - alpha for the largest k with P(B < k) <= alpha, and the k-th largest an upper one. Where there is no such k, as
    among fewer than 6 units at 95 %, the bound is the smallest, or the largest, value.

    Args:
        values: shape (n,), finite, at least one.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a value belongs to, singular, for the method's wording.

    Raises:
        ValueError: no values, or a level out of range.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, np.float64))
    if ordered.ndim != 1 or not ordered.size:
        raise ValueError("give at least one value")
    n = ordered.size
    tails = tail_levels(alphas)
    # P(B <= index) <= tail, where index = k - 1 is that of the k-th smallest.
    indices = np.array([int((binom.cdf(np.arange(n), n, 0.5) <= tail).sum()) - 1 for tail in tails])
    indices = np.clip(indices, 0, (n - 1) // 2)
    return make_interval(
        float(np.median(ordered)),
        ordered[indices],
        ordered[n - 1 - indices],
        n=n,
        clusters=n,
        method=f"order statistics by the sign test, {unit}s",
        alphas=alphas,
    )
