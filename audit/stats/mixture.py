"""A few units among many that a score puts a little higher than the others.

A test of a whole tail of a ranking. Higher criticism (Donoho & Jin 2004) compares the share of
units beyond each threshold with what chance puts there, and takes the threshold that is farthest
out. Here the thresholds are order statistics of the other side, so that the counts beyond them have
an exact distribution, whatever that of the scores.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.stats.roc import check_scores

WIDEST_TAIL = 0.4
"""Share of the other side in the widest tail that is looked at: beyond it a mixture is a shift,
which an AUC shows."""
FEWEST_IN_A_TAIL = 2
"""Others in the narrowest tail: one of them may be mislabelled, or resemble a member."""
GROWTH = 1.5
"""Each tail has at least so many times the others of the one before."""
N_DRAWS = 19_999
"""Draws of the null distribution: the smallest p-value is 1 / 20,000."""
_SEED = 26


def mixture_p(members: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Return the p-value against exchangeable sides.

    It is that of as many members in some upper tail of the others.

    For each tail, which begins at an order statistic of the others, the count of members in it is
    beta-binomial where both sides are exchangeable. The smallest of its p-values over all tails is
    compared with its own distribution, which depends on the two sizes alone and is drawn with a
    fixed seed. Ties count against a finding.

    Args:
        members: scores, shape (n_members,), at least one; each of an independent unit.
        others: scores, shape (n_others,).

    Returns:
        In (0, 1]; 1 where the others are too few for a tail.

    Raises:
        ValueError: a side is empty, or a score is NaN.

    Example:
        >>> round(mixture_p(range(100), range(100)), 1) > 0.2
        True
    """
    inside, outside = check_scores(members, others)
    tails = tail_sizes(outside.size)
    if not tails:
        return 1.0
    descending = np.sort(outside)[::-1]
    thresholds = descending[np.array(tails) - 1]
    counts = (inside[:, None] > thresholds).sum(axis=0)
    smallest = _tail_p_values(counts[None, :], inside.size, outside.size, tails).min()
    null = _draw_smallest(inside.size, outside.size)
    n_as_small = int(np.searchsorted(null, smallest, side="right"))
    return (1 + n_as_small) / (1 + null.size)


def tail_sizes(n_others: int) -> tuple[int, ...]:
    """List how many of the others each tail holds, from the narrowest.

    Empty where there are too few.
    """
    sizes: list[int] = []
    size = FEWEST_IN_A_TAIL
    while size <= WIDEST_TAIL * n_others:
        sizes.append(size)
        size = int(np.ceil(size * GROWTH))
    return tuple(sizes)


def _tail_p_values(
    counts: npt.NDArray[np.int_], n_members: int, n_others: int, tails: tuple[int, ...]
) -> Floats:
    """Compute the chance of at least so many members in each tail: shape (n_draws, n_tails)."""
    p_values = np.empty(counts.shape)
    for column, size in enumerate(tails):
        p_values[:, column] = _chances_of_at_least(n_members, n_others, size)[counts[:, column]]
    return p_values


@lru_cache(maxsize=64)  # for the tails of a few pairs of sizes
def _chances_of_at_least(n_members: int, n_others: int, size: int) -> Floats:
    """Compute the chance of 0, 1, ..., n_members or more members beyond a place.

    The place is that of the `size`-th largest of the others.

    The share of members there is Beta(size, n_others + 1 - size).
    """
    from scipy.stats import betabinom

    chances = betabinom.pmf(np.arange(n_members + 1), n_members, size, n_others + 1 - size)
    at_least: Floats = np.minimum(1.0, chances[::-1].cumsum()[::-1])
    return at_least


@lru_cache(maxsize=8)  # for the scores and directions of a scan
def _draw_smallest(n_members: int, n_others: int) -> Floats:
    """Draw the smallest p-value of all tails where both sides are exchangeable.

    Shape (N_DRAWS,), ascending.
    """
    rng = np.random.default_rng(_SEED)
    tails = tail_sizes(n_others)
    steps = np.diff(np.array([0, *tails, n_others + 1]))
    # Uniform order statistics are sums of exponential spacings; between two thresholds lie gamma
    # many.
    spacings = rng.gamma(steps.astype(np.float64), size=(N_DRAWS, steps.size))
    shares = spacings / spacings.sum(axis=1, keepdims=True)
    counts = rng.multinomial(n_members, shares)[:, :-1].cumsum(axis=1)
    return np.sort(_tail_p_values(counts, n_members, n_others, tails).min(axis=1))
