"""Curves over fields ranked by how plausible their reconstruction is, and their areas (CDMI, section 5.3, appendix B).

Fields are sorted by a membership score, best first. At(m / M) is the mean outcome of the first m of M fields, the area
the mean of At over m = 1..M. With exact hits as outcomes these are AccAt and AccAUC; with Hamming distances HamAt, and
HamAAC is one minus the area. Fields of equal score count in expectation over a random order of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.measurements import CurvePoint
from audit.stats.intervals import (
    Interval,
    beta_bounds,
    beta_interval,
    effective_number,
    make_interval,
    name_number,
    proportion,
    tail_levels,
)
from audit.stats.means import mean
from audit.stats.resampling import bootstrap

MIN_DIFFERING_DOCUMENTS = 3
"""With fewer documents that have an outcome other than the commonest one (for hits: with a hit), resampling sees too
few orders of the ranking. Ours: with one or two, intervals of nominally 95 % missed in up to a third of simulated
audits, and one hit would give a narrower interval than none."""
_BLOCK = 100_000
"""Entries of the matrix of field weights held at once: 0.8 MB, and as much for each of about ten made from it."""


def depth(p: float, n_fields: int) -> int:
    """The number of fields in T(p): ceil(p M), where p M = 2.0000000000000004 still counts as 2.

    Raises:
        ValueError: p is not in (0, 1], or there are no fields.
    """
    if not 0 < p <= 1 or n_fields < 1:
        raise ValueError("p must lie in (0, 1] and there must be fields")
    return min(n_fields, max(1, int(np.ceil(p * n_fields * (1 - 1e-12)))))


@dataclass(frozen=True, eq=False)
class Ranking:
    """M fields, best score first, in an order that does not depend on the order they were given in.

    Attributes:
        outcomes: shape (M,), in [0, 1], ascending among fields of equal score.
        documents: the document of each field, one of 0..n_documents - 1, shape (M,).
        starts: where each group of fields of equal score starts, shape (n_groups,).
        n_documents: how many documents there are.
    """

    outcomes: Floats
    documents: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    n_documents: int

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """The number of fields of each document, shape (n_documents,)."""
        return np.bincount(self.documents)

    @property
    def n_differing(self) -> int:
        """The number of documents with an outcome other than the commonest one."""
        values, counts = np.unique(self.outcomes, return_counts=True)
        return int(np.unique(self.documents[self.outcomes != values[counts.argmax()]]).size)

    def curve(self) -> Floats:
        """The expected mean outcome of the first m fields, m = 1..M, shape (M,)."""
        sizes = np.diff(self.starts, append=self.outcomes.size)
        sums = np.add.reduceat(self.outcomes, self.starts)
        before, means = np.cumsum(sums) - sums, sums / sizes
        depths = np.arange(1, self.outcomes.size + 1)
        within = depths - np.repeat(self.starts, sizes)
        running: Floats = (np.repeat(before, sizes) + within * np.repeat(means, sizes)) / depths
        return np.clip(running, 0.0, 1.0)  # rounding of the sums

    def first(self, m: int) -> list[npt.NDArray[np.intp]]:
        """The first m fields; where equal scores leave it open, those with the lowest, then the highest outcomes."""
        end = int(np.append(self.starts, self.outcomes.size)[np.searchsorted(self.starts, m)])
        if end == m:
            return [np.arange(m)]
        start = int(self.starts[self.starts < m][-1])
        return [np.arange(m), np.concatenate([np.arange(start), np.arange(end - (m - start), end)])]

    def areas(self, weights: Floats) -> Floats:
        """The area when document d occurs weights[:, d] times: shape (n,), from whole numbers, shape (n, n_documents).

        Copies of a field are fields of equal score. A group of total weight w and mean outcome h that follows a weight
        c with sum S adds sum_{j=1..w} (S + j h) / (c + j) = w h + (S - c h) (H(c + w) - H(c)), H the harmonic numbers.
        """
        block = max(1, _BLOCK // self.outcomes.size)
        return np.concatenate([self._areas(weights[i : i + block]) for i in range(0, len(weights), block)])

    def _areas(self, weights: Floats) -> Floats:
        rows = weights[:, self.documents]
        sizes, sums = rows, rows * self.outcomes
        if self.starts.size < self.outcomes.size:
            sizes, sums = (np.add.reduceat(column, self.starts, axis=1) for column in (sizes, sums))
        ends = np.cumsum(sizes, axis=1)
        starts = ends - sizes
        before = np.cumsum(sums, axis=1) - sums
        means = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(ends.max()) + 1))])
        steps = harmonic[ends.astype(np.intp)] - harmonic[starts.astype(np.intp)]
        areas: Floats = np.sum(sums + (before - starts * means) * steps, axis=1) / ends[:, -1]
        return areas


def rank_fields(scores: npt.ArrayLike, outcomes: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> Ranking:
    """Sort fields by score, best first.

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        outcomes: in [0, 1], shape (M,).
        clusters: the document of each field, shape (M,); each field its own when None.

    Raises:
        ValueError: no fields, shapes differ, a score is NaN, or an outcome is outside [0, 1].
    """
    keys, values = np.asarray(scores, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
    labels = np.arange(keys.size) if clusters is None else np.asarray(clusters)
    if keys.ndim != 1 or keys.size == 0 or not keys.shape == values.shape == labels.shape:
        raise ValueError("give at least one field, and scores, outcomes and clusters of one length")
    if np.isnan(keys).any() or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("scores must be numbers and outcomes must lie in [0, 1]")
    distinct, documents = np.unique(labels, return_inverse=True)
    order = np.lexsort((documents, values, -keys))
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Ranking(values[order], documents[order], starts, distinct.size)


def interval_of_area(
    ranking: Ranking, rng: np.random.Generator, n_resamples: int, alphas: Sequence[float], unit: str
) -> Interval:
    """The area with its interval: BCa over documents where enough of them differ, else bounds for every ranking.

    Of all rankings of outcomes in [0, 1] with mean q, the perfect one has the largest area, at most q (1 - ln q), and
    its reverse the smallest, at least q + (1 - q) ln(1 - q): with m ones on top of M the area is
    m / M (1 + H(M) - H(m)) for harmonic numbers H, and H(M) - H(m) <= ln(M / m); the reverse is one minus the perfect
    area of 1 - q. Both rise with q, from 0 at 0 to 1 at 1, so bounds of q give bounds of the area; those of q are
    Clopper-Pearson with n = number of documents, Kish's effective one (see `means.mean`). Arguments are those of
    `ranking.area_interval`.
    """
    if ranking.n_differing >= MIN_DIFFERING_DOCUMENTS:
        interval = bootstrap(
            [np.eye(ranking.n_documents)],
            lambda totals: ranking.areas(totals[:, 0]),
            rng,
            n_resamples=n_resamples,
            alphas=alphas,
            n=ranking.outcomes.size,
            unit=unit,
            limits=(0.0, 1.0),
            sizes=[ranking.sizes],
        )
        if interval is not None:
            return interval
    share, effective = float(ranking.outcomes.mean()), effective_number(ranking.sizes)
    number = name_number(effective, ranking.n_documents, unit)
    lower, upper = beta_bounds(share, np.float64(effective), tail_levels(alphas))
    return make_interval(
        float(ranking.curve().mean()),
        1 - _perfect_area(1 - lower),
        _perfect_area(upper),
        n=ranking.outcomes.size,
        clusters=ranking.n_documents,
        method=f"any ranking, Clopper-Pearson of the mean with n = {number} ({unit}s too alike to resample)",
        alphas=alphas,
    )


def _perfect_area(share: Floats) -> Floats:
    """The largest area of outcomes with mean q: q (1 - ln q), and its limit 0 at q = 0."""
    logarithm = np.log(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(share * (1 - logarithm), dtype=np.float64)


def curve(scores: npt.ArrayLike, outcomes: npt.ArrayLike) -> Floats:
    """At(m / M) for m = 1..M: the mean outcome of the m fields of the highest scores (CDMI, equations 7 and 9).

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        outcomes: hits (0 or 1) or distances, in [0, 1], shape (M,).

    Returns:
        Shape (M,), in [0, 1]; ties in expectation, exact.

    Raises:
        ValueError: no fields, shapes differ, a score is NaN, or an outcome is outside [0, 1].
    """
    return rank_fields(scores, outcomes).curve()


def at(scores: npt.ArrayLike, outcomes: npt.ArrayLike, p: float) -> float:
    """AccAt(p) from hits, HamAt(p) from Hamming distances: the mean outcome within T(p).

    Args and errors are those of `curve` and `depth`; at(..., 1) is the mean of all outcomes.
    """
    running = curve(scores, outcomes)
    return float(running[depth(p, running.size) - 1])


def area(scores: npt.ArrayLike, outcomes: npt.ArrayLike) -> float:
    """The mean of `curve`: AccAUC from hits; HamAAC is 1 - area of Hamming distances (equations 8 and 10, exact).

    Args and errors are those of `curve`.
    """
    return float(curve(scores, outcomes).mean())


def area_interval(
    scores: npt.ArrayLike,
    outcomes: npt.ArrayLike,
    clusters: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    complement: bool = False,
    n_resamples: int = 10_000,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """`area` with its interval: BCa over documents, the fields of each resample ranked anew (see `bootstrap`).

    Where fewer than 3 documents differ (no hit at all is the usual case), or there is one document only, the bounds are
    those that hold for every ranking (see `interval_of_area`).

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        outcomes: hits (0 or 1) or distances, in [0, 1], shape (M,).
        clusters: the document of each field, shape (M,), integers.
        rng: the source of randomness.
        complement: give 1 - area (HamAAC).
        n_resamples: resamples of the bootstrap.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        A number in [0, 1]; n is M.

    Raises:
        ValueError: as `curve`, or a level out of range.
    """
    # The area of a constant is that constant, so 1 - area of the outcomes is the area of 1 - outcomes.
    ranking = rank_fields(scores, 1 - np.asarray(outcomes, np.float64) if complement else outcomes, clusters)
    return interval_of_area(ranking, rng, n_resamples, alphas, unit)


def at_interval(
    scores: npt.ArrayLike,
    outcomes: npt.ArrayLike,
    clusters: npt.ArrayLike,
    p: float,
    rng: np.random.Generator,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """`at` with its interval, conditional on the ranking: the fields of T(p) are taken as given, not as drawn.

    Outcomes that are all 0 or 1 are a proportion of these fields (`proportion`), others a mean (`means.mean`; with one
    document only, Clopper-Pearson with n = 1). Where T(p) ends among fields of equal score, the value is the expected
    one, and the interval the outer of those with the lowest and with the highest outcomes first among them. p is in
    (0, 1]; the other arguments and the errors are those of `area_interval`.

    Returns:
        A number in [0, 1]; n is the number of fields in T(p), clusters that of their documents (the smaller one, where
        equal scores leave it open).
    """
    ranking = rank_fields(scores, outcomes, clusters)
    m = depth(p, ranking.outcomes.size)
    value = float(ranking.curve()[m - 1])
    intervals = [_mean_of_rows(ranking, rows, rng, alphas, unit) for rows in ranking.first(m)]
    methods = " and ".join(dict.fromkeys(interval.method for interval in intervals))
    ties = ", outer over orders of equal scores" if len(intervals) > 1 else ""
    bounds = np.array([[(interval.low, interval.high), *(b[1:] for b in interval.bounds)] for interval in intervals])
    return make_interval(
        value,
        bounds[:, :, 0].min(axis=0),
        bounds[:, :, 1].max(axis=0),
        n=m,
        clusters=min(interval.clusters for interval in intervals),
        method=f"{methods}{ties}, conditional on the ranking",
        alphas=alphas,
    )


def curve_points(
    scores: npt.ArrayLike,
    outcomes: npt.ArrayLike,
    clusters: npt.ArrayLike,
    ps: Sequence[float],
    rng: np.random.Generator,
    *,
    unit: str = "document",
) -> list[CurvePoint]:
    """The curve with pointwise 95 % intervals, for drawing (CDMI, figure 6): one point for each distinct ceil(p M).

    `ps` are shares of the fields, in (0, 1], in any order; the other arguments and the errors are those of
    `at_interval`. A point does not depend on which others are asked for.

    Returns:
        Points in ascending order of x = p = m / M, of n = m fields each.
    """
    n_fields = np.asarray(scores).size
    seed = int(rng.integers(2**63))
    points = []
    for m in sorted({depth(p, n_fields) for p in ps}):
        share = m / n_fields
        point = at_interval(scores, outcomes, clusters, share, np.random.default_rng(seed), unit=unit)
        points.append(CurvePoint(share, point.value, point.low, point.high, m))
    return points


def _mean_of_rows(
    ranking: Ranking, rows: npt.NDArray[np.intp], rng: np.random.Generator, alphas: Sequence[float], unit: str
) -> Interval:
    outcomes, documents = ranking.outcomes[rows], ranking.documents[rows]
    if np.isin(ranking.outcomes, (0.0, 1.0)).all():
        return proportion(outcomes, documents, alphas=alphas, unit=unit)
    if np.unique(documents).size > 1:
        return mean(outcomes, documents, rng, alphas=alphas, unit=unit)
    return beta_interval(float(outcomes.mean()), 1.0, n=rows.size, clusters=1, alphas=alphas, unit=unit)
