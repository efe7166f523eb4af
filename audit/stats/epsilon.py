"""Lower bounds on epsilon from one run (Steinke, Nasr & Jagielski 2023)."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.stats.p_values import guessing_p

CONFIDENCE = 0.95
GRID_RATIO = 2**0.25
"""Of the numbers of guesses that are tried on the first half; all guessed, half of them in, is
among them."""
CHOICE_LEVEL = 0.01
"""Of the lower bound on the share of right guesses that the number of guesses is chosen by."""
# Of many numbers the luckiest looks best, and at 0.05 it is too often a small one. In simulations
# 0.01 gave randomised response 3 % more, and a model that remembers one in twenty canaries 1 %
# less.
FEWEST = 4
"""Guesses in, or out, under which none is tried but zero."""
UNFAIR = 1e-6
"""Two-sided probability under which so many included canaries are no fair coins."""
MANY = 1_000
"""Canaries beyond which more do not help a bound at some delta."""


@dataclass(frozen=True)
class EpsilonBound:
    """The result of one run.

    Attributes:
        low: epsilon is at least this, at `CONFIDENCE`; 0: nothing shown.
        delta: delta at which the bound holds.
        n_guesses: coins that were guessed.
        n_right: guesses that were right.
        n_canaries: number of canaries, with those that the number of guesses was chosen on.
        n_evaluated: canaries of the other half; the guesses are among them.
        cap: `low` if all of these had been guessed, and rightly: it could not have been more.
    """

    low: float
    delta: float
    n_guesses: int
    n_right: int
    n_canaries: int
    n_evaluated: int
    cap: float


_Rule = tuple[float, float]
"""Whom to guess: the shares of a half with the highest and with the lowest scores, in [0, 1]."""


def epsilon_bound(
    scores: npt.ArrayLike, coins: npt.ArrayLike, rng: np.random.Generator, *, delta: float = 0.0
) -> EpsilonBound | None:
    """Bound epsilon from below at `CONFIDENCE`.

    The bound holds when the coins were fair and independent of each other and of all else, an exact
    half being no more than one of the possible outcomes, and when the scores were computed without
    them. Neither can be seen here.

    Args:
        scores: scores of each canary, higher is more like an included one, shape (n_canaries,).
        coins: whether each was included, bool, same shape.
        rng: random generator of the halves and of ties; independent of the coins.
        delta: delta in [0, 1).

    Returns:
        None with fewer than `needed_canaries`.

    Raises:
        ValueError: lengths differ, a score is not a number, the coins cannot be fair, or delta is
            out of range.
    """
    values = np.asarray(scores, np.float64)
    included = np.asarray(coins)
    if values.ndim != 1 or included.shape != values.shape or included.dtype != np.bool_:
        raise ValueError("every canary needs one score and one coin, true or false")
    if np.isnan(values).any():
        raise ValueError("a score that is not a number cannot be ranked")
    n = values.size
    if not _can_show(n, delta):
        return None
    if not perhaps_fair(n_included := int(included.sum()), n):
        raise ValueError(
            f"{n_included} of {n} canaries are included: not by independent fair coins"
        )
    order = rng.permutation(n)
    first = order[: n // 2]
    second = order[n // 2 :]
    rule = _choose_rule(values[first], included[first])
    guessed, guesses = _guess_coins(rule, values[first], values[second], rng)
    right = int(np.sum(guesses == included[second][guessed]))
    low = lower_bound(second.size, guessed.size, right, delta=delta)
    cap = lower_bound(second.size, second.size, second.size, delta=delta)
    return EpsilonBound(low, delta, guessed.size, right, n, second.size, cap)


def lower_bound(n_canaries: int, n_guesses: int, n_right: int, *, delta: float = 0.0) -> float:
    """Compute the largest epsilon whose `guessing_p` is at most 1 - `CONFIDENCE`.

    0 where there is none.

    At delta 0 the odds of the lower Clopper-Pearson bound on the share of right guesses, as a
    logarithm.

    Raises:
        ValueError: counts or delta out of range.
    """
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        """Compute by how much the chance of so many right guesses exceeds 1 - `CONFIDENCE`."""
        return guessing_p(n_canaries, n_guesses, n_right, epsilon=epsilon, delta=delta) - (
            1 - CONFIDENCE
        )

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))


def needed_canaries(delta: float = 0.0) -> int:
    """Find the fewest canaries that can show an epsilon.

    Half of them serve to choose the number of guesses.

    Raises:
        ValueError: delta is out of range, or no number of canaries is enough at this delta.
    """
    for n in range(2, MANY):
        if _can_show(n, delta):
            return n
    raise ValueError(f"no number of canaries shows an epsilon at delta {delta:g}")


def _can_show(n: int, delta: float) -> bool:
    """Test whether all right guesses on the second half of the canaries would show an epsilon."""
    evaluated = n - n // 2
    return (
        n >= 2
        and guessing_p(evaluated, evaluated, evaluated, epsilon=0.0, delta=delta) < 1 - CONFIDENCE
    )


def perhaps_fair(n_included: int, n: int) -> bool:
    """Test whether the coins of `n` canaries may be fair, by the number that was included."""
    from scipy.stats import binomtest

    return bool(binomtest(n_included, n, 0.5).pvalue >= UNFAIR)


def _choose_rule(scores: Floats, coins: Bools) -> _Rule:
    """Choose the numbers of guesses in and out that show most on these canaries.

    Of equal ones the most guesses.

    Tried are pairs from a geometric grid, each number moved to the nearest one that does not part
    equal scores: what would be parted by chance here is parted by chance there.
    """
    from scipy.special import betaincinv

    n = scores.size
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    heads = np.concatenate([[0], np.cumsum(coins[order])])
    k_in, k_out = (pair.ravel() for pair in np.meshgrid(_grid(ordered), _grid(ordered[::-1])))
    possible = (k_in + k_out <= n) & (k_in + k_out > 0)
    k_in = k_in[possible]
    k_out = k_out[possible]
    guesses = k_in + k_out
    right = heads[k_in] + k_out - (heads[n] - heads[n - k_out])
    shares = np.where(
        right > 0, betaincinv(np.maximum(right, 1), guesses - right + 1, CHOICE_LEVEL), 0.0
    )
    best = np.lexsort((guesses, shares))[-1]
    return float(k_in[best] / n), float(k_out[best] / n)


def _grid(ordered: Floats) -> Ints:
    """List numbers of guesses to try from one end of ordered scores, none between equal ones.

    They are 0, and about n, n / ratio, and so on.
    """
    n = ordered.size
    steps = int(math.log(n / min(FEWEST, n)) / math.log(GRID_RATIO))
    numbers = n / GRID_RATIO ** np.arange(steps + 1)
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, n)
    nearest = ends[np.abs(ends - numbers[:, None]).argmin(axis=1)]
    return np.unique(np.append(nearest, 0))


def _guess_coins(
    rule: _Rule, known: Floats, scores: Floats, rng: np.random.Generator
) -> tuple[Ints, Bools]:
    """Choose the canaries to guess, and guess whether each is in.

    Their number follows from the rule alone.

    A canary ranks where its score would among those of the first half, in [0, 1]. Guessed are those
    furthest beyond the rule's two thresholds there, or least short of them, so that scores of few
    values are never parted by force.
    """
    highest, lowest = rule
    ordered = np.sort(known)
    ranks = (
        np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    ) / (2 * known.size)
    above = ranks - (1 - highest) if highest else np.full(scores.size, -np.inf)
    below = lowest - ranks if lowest else np.full(scores.size, -np.inf)
    n_guesses = max(1, round((highest + lowest) * scores.size))
    furthest = np.lexsort((rng.random(scores.size), -np.maximum(above, below)))[:n_guesses]
    return furthest, np.asarray(above[furthest] > below[furthest], np.bool_)
