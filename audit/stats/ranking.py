"""Share recovered among the fields ranked first by how plausible their reconstruction is (CDMI, section 5.3).

Fields are sorted by a membership score, best first. At(m / M) is the mean outcome of the first m of M fields: AccAt
where outcomes are exact hits. Fields of equal score count in expectation over a random order of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import Interval, make_interval, proportion


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


def at(scores: npt.ArrayLike, outcomes: npt.ArrayLike, p: float) -> float:
    """Return the mean outcome of the first share p of the fields, T(p).

    Args and errors are those of `rank_fields` and `depth`.
    """
    running = rank_fields(scores, outcomes).curve()
    return float(running[depth(p, running.size) - 1])


def at_interval(
    scores: npt.ArrayLike,
    hits: npt.ArrayLike,
    clusters: npt.ArrayLike,
    p: float,
    *,
    alphas: Sequence[float] = (),
    unit: str = "document",
) -> Interval:
    """Return AccAt(p) with its interval, conditional on the ranking: the fields of T(p) are taken as given.

    The interval is that of a proportion of these fields. Where T(p) ends among fields of equal score, the value is the
    expected one, and the interval the outer of those with the fewest and with the most hits first among them.

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        hits: 0 or 1, shape (M,).
        clusters: the document of each field, shape (M,), integers.
        p: in (0, 1].
        alphas: one-sided levels for `Interval.bounds`.
        unit: what a cluster is, singular, for the method's wording.

    Returns:
        A number in [0, 1]; n is the number of fields in T(p), clusters that of their documents (the smaller one, where
        equal scores leave it open).

    Raises:
        ValueError: see `rank_fields` and `depth`.
    """
    ranking = rank_fields(scores, hits, clusters)
    m = depth(p, ranking.outcomes.size)
    value = float(ranking.curve()[m - 1])
    intervals = [
        proportion(ranking.outcomes[rows], ranking.documents[rows], alphas=alphas, unit=unit)
        for rows in ranking.first(m)
    ]
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
