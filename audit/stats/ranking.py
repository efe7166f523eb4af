"""Ranks: the share recovered among the fields ranked first, members that outrank the others, rank correlation.

The first is that of CDMI (section 5.3): fields are sorted by how plausible their reconstruction is,
best first. At(m / M) is the mean outcome of the first m of M fields, AccAt where outcomes are exact
hits. Fields of equal score count in expectation over a random order of them.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import TAILS, Interval, make_interval, proportion
from audit.stats.leaking import scale_lower, scale_upper
from audit.stats.roc import check_scores


def depth(p: float, n_fields: int) -> int:
    """Compute how many of `n_fields` fields the first share `p` of a ranking holds.

    This is ceil(p M), where p M = 2.0000000000000004 still counts as 2.

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
        starts: start of each group of fields of equal score, shape (n_groups,).
        n_documents: number of documents.
    """

    outcomes: Floats
    documents: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    n_documents: int

    def curve(self) -> Floats:
        """Compute the expected mean outcome of the first m fields, m = 1..M, shape (M,)."""
        sizes = np.diff(self.starts, append=self.outcomes.size)
        sums = np.add.reduceat(self.outcomes, self.starts)
        before = np.cumsum(sums) - sums
        means = sums / sizes
        depths = np.arange(1, self.outcomes.size + 1)
        within = depths - np.repeat(self.starts, sizes)
        running: Floats = (np.repeat(before, sizes) + within * np.repeat(means, sizes)) / depths
        return np.clip(running, 0.0, 1.0)  # rounding of the sums

    def first(self, m: int) -> list[npt.NDArray[np.intp]]:
        """Return the indices of the first m fields, in two ways where equal scores are divided.

        Where equal scores leave them open, those of lowest, then of highest outcomes.
        """
        end = int(np.append(self.starts, self.outcomes.size)[np.searchsorted(self.starts, m)])
        if end == m:
            return [np.arange(m)]
        start = int(self.starts[self.starts < m][-1])
        return [np.arange(m), np.concatenate([np.arange(start), np.arange(end - (m - start), end)])]


def rank_fields(
    scores: npt.ArrayLike, outcomes: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> Ranking:
    """Sort fields by score, best first.

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        outcomes: outcomes in [0, 1], shape (M,).
        clusters: the document of each field, shape (M,); each field its own when None.

    Raises:
        ValueError: no fields, shapes differ, a score is NaN, or an outcome is outside [0, 1].
    """
    keys = np.asarray(scores, dtype=np.float64)
    values = np.asarray(outcomes, dtype=np.float64)
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
    """Return the mean outcome of the first share `p` of the fields, ranked by score.

    Args and errors are those of `rank_fields` and `depth`.
    """
    running = rank_fields(scores, outcomes).curve()
    return float(running[depth(p, running.size) - 1])


def at_interval(
    scores: npt.ArrayLike, hits: npt.ArrayLike, clusters: npt.ArrayLike, p: float
) -> Interval:
    """Return AccAt(p) with its interval, conditional on the ranking.

    The fields of T(p) are taken as given. The interval is that of a proportion of these fields.
    Where T(p) ends among fields of equal score, the value is the expected one, and the interval the
    outer of those with the fewest and with the most hits first among them.

    Args:
        scores: larger = more plausible, shape (M,); may be infinite.
        hits: 0 or 1, shape (M,).
        clusters: the document of each field, shape (M,), integers.
        p: p-value in (0, 1].

    Returns:
        A number in [0, 1]; n is the number of fields in T(p), clusters that of their documents (the
        smaller one, where equal scores leave it open).

    Raises:
        ValueError: see `rank_fields` and `depth`.
    """
    ranking = rank_fields(scores, hits, clusters)
    m = depth(p, ranking.outcomes.size)
    value = float(ranking.curve()[m - 1])
    intervals = [
        proportion(ranking.outcomes[rows], ranking.documents[rows]) for rows in ranking.first(m)
    ]
    methods = " and ".join(dict.fromkeys(interval.method for interval in intervals))
    ties = ", outer over orders of equal scores" if len(intervals) > 1 else ""
    lower = np.min([interval.lower for interval in intervals], axis=0)
    upper = np.max([interval.upper for interval in intervals], axis=0)
    n_clusters = min(interval.clusters for interval in intervals)
    method = f"{methods}{ties}, conditional on the ranking"
    return make_interval(value, lower, upper, n=m, clusters=n_clusters, method=method)


_GRID = 401
"""Values of the unknown share that the largest p-value is sought among."""
_ROUNDING = 1e-9


@lru_cache(maxsize=1024)  # kinds of values often have the same counts
def excess_p(found: int, n: int, found_others: int, n_others: int, allowed: float) -> float:
    """Test whether a share exceeds another one by more than `allowed`, without conditioning.

    See Santner and Snell 1980. The p-value is the chance of as large a difference, at the unknown
    share of the others that makes it largest.

    Args:
        found: number found of `n` units.
        n: number of units, at least one.
        found_others: number found of `n_others` other units.
        n_others: number of other units, at least one.
        allowed: the largest excess that is no finding, in [0, 1).

    Raises:
        ValueError: counts out of range.
    """
    from scipy.stats import binom

    if not (0 <= found <= n and 0 <= found_others <= n_others and n and n_others):
        raise ValueError("both groups need units, and no more may be found than there are")
    share = np.linspace(0, 1, _GRID)[:, None]
    each = np.arange(n + 1)
    # With so many found, at most this many of the others leave as large a difference.
    most = np.floor(n_others * (each / n - (found / n - found_others / n_others)) + _ROUNDING)
    chances = binom.pmf(each, n, np.minimum(1.0, share + allowed)) * binom.cdf(
        most, n_others, share
    )
    return float(min(1.0, chances.sum(axis=1).max()))


ALLOWED = 1
"""Others that may rank higher: one of them may be mislabelled, or resemble a member."""
FEWEST_OTHERS = ALLOWED + 1


def count_outranking(
    members: npt.ArrayLike, others: npt.ArrayLike, total: int | None = None
) -> Interval:
    """Count the members that outrank all others but `ALLOWED`, beyond those that chance puts there.

    Args:
        members: scores, shape (n_members,), at least one; each of an independent unit.
        others: scores, shape (n_others,), at least `FEWEST_OTHERS`.
        total: members that the data set holds, of which these were drawn at random; None: no more.

    Returns:
        The count among `total`. Lower bounds are exact. Upper bounds are those of the members that
        rank so high: a few others that rank high hide members that the scores know, and nothing
        bounds the number of these.

    Raises:
        ValueError: too few scores, a NaN, or a total under n_members.
    """
    n, m, reached = _ranked(members, others)
    number = n if total is None else total
    if number < n:
        raise ValueError("the data set holds at least the members that have scores")
    tails = TAILS if number == n else TAILS / 2
    chances = _chances(n, m)
    # The most by chance at each level: the largest F that is not rarer than the level.
    certain = [max(0, reached - int(np.flatnonzero(chances > tail)[-1])) for tail in tails]
    value = max(0.0, reached - (ALLOWED + 1) * n / (m + 1)) * number / n
    method = f"exact, units that rank above all but {ALLOWED} of {m} on the other side"
    lower = scale_lower(certain, n, number, tails)
    upper = scale_upper(np.full(TAILS.size, reached), n, number, tails)
    return make_interval(value, lower, upper, n=n, method=method)


def outranking_p(members: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Return the exact p-value against exchangeable sides.

    It is that of as many members above all others but `ALLOWED`.

    Args and errors are those of `count_outranking`.
    """
    n, m, reached = _ranked(members, others)
    return float(_chances(n, m)[reached])


def _ranked(members: npt.ArrayLike, others: npt.ArrayLike) -> tuple[int, int, int]:
    """Compute the numbers of members and of others, and of members that outrank the others.

    These outrank all but `ALLOWED`.
    """
    inside, outside = check_scores(members, others)
    if outside.size < FEWEST_OTHERS:
        raise ValueError(f"give at least {FEWEST_OTHERS} scores of the other side")
    return inside.size, outside.size, int((inside > np.sort(outside)[-1 - ALLOWED]).sum())


@lru_cache(maxsize=8)  # for the methods and kinds of a scan
def _chances(n: int, m: int) -> Floats:
    """Compute the chance that 0, 1, ..., n + 1 members or more outrank the others.

    They outrank all but `ALLOWED`, and both sides are exchangeable.
    """
    from scipy.stats import hypergeom

    reached = np.arange(n + 2)
    # As many members rank there just when at most `ALLOWED` others are among the first `reached +
    # ALLOWED` of all.
    drawn = np.minimum(reached + ALLOWED, n + m)
    return np.where(
        reached > n, 0.0, np.asarray(hypergeom.cdf(ALLOWED, n + m, m, drawn), np.float64)
    )


FEWEST_PAIRS = 5
"""Pairs without which the interval has no meaning: its variance is 1.06 / (n - 3)."""


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> Interval:
    """Compute Spearman's rank correlation with its interval.

    Fisher's z, variance of Fieller et al. (1957).

    Args:
        first: shape (n,), finite, at least `FEWEST_PAIRS`.
        second: shape (n,), finite.

    Returns:
        In [-1, 1]; 0 where a side does not vary.

    Raises:
        ValueError: too few pairs, or sides of unequal length.
    """
    from scipy.stats import norm, rankdata

    sides = [np.asarray(side, np.float64) for side in (first, second)]
    if sides[0].shape != sides[1].shape or sides[0].ndim != 1 or sides[0].size < FEWEST_PAIRS:
        raise ValueError(f"give {FEWEST_PAIRS} pairs or more, in two arrays of one length")
    ranks = [rankdata(side) for side in sides]
    varies = all(np.ptp(side) > 0 for side in ranks)
    value = float(np.clip(np.corrcoef(ranks)[0, 1], -1, 1)) if varies else 0.0
    n = sides[0].size
    # Fisher's z of 1 is infinite; the nearest correlation below it that n pairs can have is farther
    # away.
    centre = np.arctanh(np.clip(value, -1 + 1 / n**3, 1 - 1 / n**3))
    reach = -norm.ppf(TAILS) * (1.06 / (n - 3)) ** 0.5
    method = "Fisher's z of Spearman's rank correlation"
    return make_interval(
        value, np.tanh(centre - reach), np.tanh(centre + reach), n=n, method=method
    )
