"""Curves over fields ranked by how plausible their reconstruction is, and their areas (CDMI, section 5.3, appendix B).

Fields are sorted by a membership score, best first. At(m / M) is the mean outcome of the first m of M fields, the area
the mean of At over m = 1..M. With exact hits as outcomes these are AccAt and AccAUC; with Hamming distances HamAt, and
HamAAC is one minus the area. Fields of equal score count in expectation over a random order of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.measurements import CurvePoint
from audit.stats.intervals import Interval, beta_interval, make_interval, proportion
from audit.stats.means import mean
from audit.stats.rank_order import Ranking, depth, interval_of_area, rank_fields


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
