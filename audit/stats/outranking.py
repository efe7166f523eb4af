"""Small groups and members that outrank the others: exact tests and counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.intervals import Interval, make_interval, tail_levels
from audit.stats.roc import check_scores

_GRID = 401
"""Values of the unknown share that the largest p-value is sought among (ours)."""
_ROUNDING = 1e-9


def excess_p(found: int, n: int, found_others: int, n_others: int, allowed: float) -> float:
    """Test whether a share exceeds another one by more than `allowed`, without conditioning (Santner and Snell 1980).

    The p-value is the chance of as large a difference, at the unknown share of the others that makes it largest.

    Args:
        found: of `n` units.
        n: at least one.
        found_others: of `n_others` other units.
        n_others: at least one.
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
    chances = binom.pmf(each, n, np.minimum(1.0, share + allowed)) * binom.cdf(most, n_others, share)
    return float(min(1.0, chances.sum(axis=1).max()))


ALLOWED = 1
"""Others that may rank higher (ours): one of them may be mislabelled, or resemble a member."""
FEWEST_OTHERS = ALLOWED + 1


def count_outranking(
    members: npt.ArrayLike, others: npt.ArrayLike, *, alphas: Sequence[float] = (), unit: str = "document"
) -> Interval:
    """Count the members that outrank all others but `ALLOWED`, beyond those that chance puts there.

    Args:
        members: scores, shape (n_members,), at least one; each of an independent unit.
        others: scores, shape (n_others,), at least `FEWEST_OTHERS`.
        alphas: one-sided levels for `Interval.bounds`.
        unit: what one score belongs to, singular, for the method's wording.

    Returns:
        The count, from 0 to K. Lower bounds are exact; each upper bound is K, since only these members are counted.

    Raises:
        ValueError: too few scores, a NaN, or a level out of range.
    """
    n, m, reached = _ranked(members, others)
    tails = tail_levels(alphas)
    most = np.arange(n + 2)
    chance = _chance(most, n, m)
    # The most by chance at each level: the largest F that is not rarer than the level.
    lower = [max(0.0, float(reached - np.max(most[chance > tail]))) for tail in tails]
    value = max(0.0, reached - (ALLOWED + 1) * n / (m + 1))
    method = f"exact, {unit}s that rank above all but {ALLOWED} of {m} others"
    upper = np.full(tails.size, float(reached))
    return make_interval(value, np.array(lower), upper, n=n, clusters=n, method=method, alphas=alphas)


def outranking_p(members: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Return the exact p-value against exchangeable sides of as many members above all others but `ALLOWED`.

    Args and errors are those of `count_outranking`.
    """
    n, m, reached = _ranked(members, others)
    return float(_chance(np.array([reached]), n, m)[0])


def _ranked(members: npt.ArrayLike, others: npt.ArrayLike) -> tuple[int, int, int]:
    """The numbers of members and of others, and how many members outrank all others but `ALLOWED`."""
    inside, outside = check_scores(members, others)
    if outside.size < FEWEST_OTHERS:
        raise ValueError(f"give at least {FEWEST_OTHERS} scores of others")
    threshold = np.sort(outside)[-1 - ALLOWED]
    return inside.size, outside.size, int((inside > threshold).sum())


def _chance(reached: npt.NDArray[np.int64], n: int, m: int) -> Floats:
    """The chance that as many members or more outrank all others but `ALLOWED`, when both are exchangeable."""
    from scipy.stats import hypergeom

    # As many members rank there just when at most `ALLOWED` others are among the first `reached + ALLOWED` of all.
    drawn = np.minimum(reached + ALLOWED, n + m)
    return np.where(reached > n, 0.0, np.asarray(hypergeom.cdf(ALLOWED, n + m, m, drawn), np.float64))
