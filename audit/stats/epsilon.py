"""Lower bounds on epsilon from one run, and the trade-off of Gaussian mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.stats.guesses import p_value

MAX_EPSILON = 200.0
"""Beyond it epsilons are not distinguished (ours)."""


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The least delta at which the mu-Gaussian mechanism is (epsilon, delta)-private (Balle & Wang 2018, theorem 8).

    Args:
        epsilon: at least 0.
        mu: sensitivity over standard deviation, positive.

    Returns:
        In [0, 1).
    """
    from scipy.special import log_ndtr, ndtr

    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return max(0.0, float(ndtr(near) - math.exp(epsilon + float(log_ndtr(far)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at which the mu-Gaussian mechanism is (epsilon, delta)-private, at most `MAX_EPSILON`.

    Args:
        mu: sensitivity over standard deviation, at least 0.
        delta: in (0, 1).
    """
    from scipy.optimize import brentq

    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if gaussian_delta(MAX_EPSILON, mu) > delta:
        return MAX_EPSILON
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, MAX_EPSILON, xtol=1e-9))


def rules_out(mu: float, n_canaries: int, n_guesses: int, n_right: int, level: float) -> bool:
    """Test whether a mu-Gaussian mechanism gives so many right guesses with probability at most `level`.

    Let p_i be the probability of exactly i right guesses. Flipping the coin of one guessed canary makes its right guess
    wrong, so that sum_{j > i} j p_j / m <= fbar(sum_{j >= i} (n_guesses - j) p_j / m) for every i, fbar being one minus
    the trade-off function (Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run"). The
    recursion (their algorithm with abstentions, `audit_rh_with_cap`) starts from a tail of `level` at `n_right` and
    adds what these force upon fewer right guesses; it is ruled out when that is more than there is. No more and no less
    is ruled out by the constraints (tested by linear programming).

    Args:
        mu: at least 0.
        n_canaries: m, whose coins are guessed or abstained from.
        n_guesses: in 1..n_canaries, fixed before the scores of these canaries were seen.
        n_right: in 0..n_guesses.
        level: in (0, 1).
    """
    return bool(_forced(mu, n_canaries, n_guesses, n_right, level) > n_guesses / n_canaries)


def gaussian_mu(n_canaries: int, n_guesses: int, n_right: int, level: float) -> float:
    """The largest mu that the right guesses rule out at `level`; 0: none. Arguments are those of `rules_out`."""

    def ruled_out(mu: float) -> bool:
        return rules_out(mu, n_canaries, n_guesses, n_right, level)

    if not ruled_out(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while ruled_out(high):
        low, high = high, 2 * high
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


def _forced(mu: float, n_canaries: int, n_guesses: int, n_right: int, level: float) -> float:
    """The least of sum_j n_guesses p_j / m, over all numbers j of right guesses, that a tail of `level` allows."""
    from scipy.special import ndtr, ndtri

    right = level * n_right / n_canaries
    wrong = level * (n_guesses - n_right) / n_canaries
    for i in range(n_right - 1, -1, -1):
        needed = float(ndtr(ndtri(right) - mu))
        if needed <= wrong:
            break  # Neither changes any more.
        right = min(right + i / (n_guesses - i) * (needed - wrong), 1.0)
        wrong = needed
    return right + wrong


CONFIDENCE = 0.95
GRID_RATIO = 2**0.25
"""Of the numbers of guesses that are tried on the first half (ours: fine enough that the best is hardly missed, and all
guessed, half in and half out, is among them)."""
CHOICE_LEVEL = 0.01
"""Of the lower bound on the share of right guesses that the number of guesses is chosen by (ours: of many numbers the
luckiest looks best, and at 0.05 it is too often a small one; in simulations 0.01 gave randomised response 3 % more, and
a model that remembers one in twenty canaries 1 % less)."""
FEWEST = 4
"""Guesses in, or out, under which none is tried but zero (ours)."""
UNFAIR = 1e-6
"""Two-sided probability under which so many included canaries are no fair coins (ours)."""
MANY = 1_000
"""Canaries beyond which more do not help a bound at some delta (ours)."""


@dataclass(frozen=True)
class EpsilonBound:
    """The result of one run.

    Attributes:
        low: epsilon is at least this, at `confidence`; 0: nothing shown.
        delta: at which the bound holds.
        confidence: one-sided, in (0, 1).
        n_guesses: coins that were guessed.
        n_right: guesses that were right.
        n_canaries: with those that the number of guesses was chosen on.
        n_evaluated: canaries of the other half; the guesses are among them.
        cap: `low` if all of these had been guessed, and rightly: it could not have been more.
        low_if_gaussian: the bound that holds, at the same delta and confidence, if the training is a Gaussian mechanism
            (`trade_off.rules_out`): it rests on that hypothesis, and `cap` is not its limit. None at delta 0, where no
            such mechanism is private.
    """

    low: float
    delta: float
    confidence: float
    n_guesses: int
    n_right: int
    n_canaries: int
    n_evaluated: int
    cap: float
    low_if_gaussian: float | None


@dataclass(frozen=True)
class _Rule:
    """Whom to guess: the shares of a half with the highest and the lowest scores, in [0, 1]."""

    highest: float
    lowest: float


def epsilon_bound(
    scores: npt.ArrayLike,
    coins: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    delta: float = 0.0,
    confidence: float = CONFIDENCE,
) -> EpsilonBound | None:
    """Bound epsilon from below.

    The bound holds when the coins were fair and independent of each other and of all else, an exact half being no more
    than one of the possible outcomes, and when the scores were computed without them. Neither can be seen here.

    Args:
        scores: of each canary, higher is more like an included one, shape (n_canaries,).
        coins: whether each was included, bool, same shape.
        rng: of the halves and of ties; independent of the coins.
        delta: in [0, 1).
        confidence: one-sided, in (0.5, 1).

    Returns:
        None with fewer than `needed_canaries`.

    Raises:
        ValueError: lengths differ, a score is not a number, the coins cannot be fair, or delta or confidence is out of
            range.
    """
    values, included = np.asarray(scores, np.float64), np.asarray(coins)
    if values.ndim != 1 or included.shape != values.shape or included.dtype != np.bool_:
        raise ValueError("every canary needs one score and one coin, true or false")
    if np.isnan(values).any():
        raise ValueError("a score that is not a number cannot be ranked")
    _in_range(delta, confidence)
    n = values.size
    if not _showing(n, delta, confidence):
        return None
    _fair(int(included.sum()), n)
    order = rng.permutation(n)
    first, second = order[: n // 2], order[n // 2 :]
    rule = _chosen(values[first], included[first])
    guessed, guesses = _guesses(rule, values[first], values[second], rng)
    right = int(np.sum(guesses == included[second][guessed]))
    counts = (second.size, guessed.size, right)
    mu = gaussian_mu(*counts, 1 - confidence) if delta else 0.0
    return EpsilonBound(
        low=lower_bound(*counts, delta=delta, confidence=confidence),
        delta=delta,
        confidence=confidence,
        n_guesses=guessed.size,
        n_right=right,
        n_canaries=n,
        n_evaluated=second.size,
        cap=lower_bound(second.size, second.size, second.size, delta=delta, confidence=confidence),
        low_if_gaussian=gaussian_epsilon(mu, delta) if delta else None,
    )


def lower_bound(
    n_canaries: int, n_guesses: int, n_right: int, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon whose `p_value` is at most 1 - confidence; 0 where there is none.

    At delta 0 the odds of the lower Clopper-Pearson bound on the share of right guesses, as a logarithm.

    Raises:
        ValueError: counts, delta or confidence out of range.
    """
    from scipy.optimize import brentq

    _in_range(delta, confidence)

    def excess(epsilon: float) -> float:
        return p_value(n_canaries, n_guesses, n_right, epsilon=epsilon, delta=delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))


def needed_canaries(delta: float = 0.0, confidence: float = CONFIDENCE) -> int:
    """The fewest canaries, half of them for the number of guesses, with which all right guesses show an epsilon.

    Raises:
        ValueError: delta or confidence is out of range, or no number of canaries is enough at this delta.
    """
    _in_range(delta, confidence)
    for n in range(2, MANY):
        if _showing(n, delta, confidence):
            return n
    raise ValueError(f"no number of canaries shows an epsilon at delta {delta:g}")


def _in_range(delta: float, confidence: float) -> None:
    """Refuse what is no delta or no confidence."""
    if not 0 <= delta < 1:
        raise ValueError("delta must lie in [0, 1)")
    if not 0.5 < confidence < 1:
        raise ValueError("confidence must lie between 0.5 and 1")


def _showing(n: int, delta: float, confidence: float) -> bool:
    """Whether all right guesses on the second half of so many canaries would show an epsilon."""
    evaluated = n - n // 2
    return n >= 2 and p_value(evaluated, evaluated, evaluated, epsilon=0.0, delta=delta) < 1 - confidence


def perhaps_fair(n_included: int, n: int) -> bool:
    """Test whether the coins of `n` canaries may be fair, by the number that was included."""
    from scipy.stats import binomtest

    return bool(binomtest(n_included, n, 0.5).pvalue >= UNFAIR)


def _fair(n_included: int, n: int) -> None:
    if not perhaps_fair(n_included, n):
        raise ValueError(f"{n_included} of {n} canaries are included: not by independent fair coins")


def _chosen(scores: Floats, coins: Bools) -> _Rule:
    """The numbers of guesses in and out that show most on these canaries, at delta 0; of equal ones the most guesses.

    Tried are pairs from a geometric grid, each number moved to the nearest one that does not part equal scores: what
    would be parted by chance here is parted by chance there.
    """
    from scipy.special import betaincinv

    n = scores.size
    order = np.argsort(-scores, kind="stable")
    ordered, heads = scores[order], np.concatenate([[0], np.cumsum(coins[order])])
    highest = _grid(ordered)
    lowest = _grid(ordered[::-1])
    k_in, k_out = (pair.ravel() for pair in np.meshgrid(highest, lowest))
    possible = (k_in + k_out <= n) & (k_in + k_out > 0)
    k_in, k_out = k_in[possible], k_out[possible]
    guesses = k_in + k_out
    right = heads[k_in] + k_out - (heads[n] - heads[n - k_out])
    shares = np.where(right > 0, betaincinv(np.maximum(right, 1), guesses - right + 1, CHOICE_LEVEL), 0.0)
    best = np.lexsort((guesses, shares))[-1]
    return _Rule(float(k_in[best] / n), float(k_out[best] / n))


def _grid(ordered: Floats) -> Ints:
    """Numbers of guesses to try from one end: 0, and about n, n / ratio, ... `FEWEST`, none between equal scores."""
    n = ordered.size
    steps = int(math.log(n / min(FEWEST, n)) / math.log(GRID_RATIO))
    wanted = n / GRID_RATIO ** np.arange(steps + 1)
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, n)
    nearest = ends[np.abs(ends - wanted[:, None]).argmin(axis=1)]
    return np.unique(np.append(nearest, 0))


def _guesses(rule: _Rule, known: Floats, scores: Floats, rng: np.random.Generator) -> tuple[Ints, Bools]:
    """Which canaries are guessed, and whether in; their number follows from the rule alone.

    A canary ranks where its score would among those of the first half, in [0, 1]. Guessed are those furthest beyond
    the rule's two thresholds there, or least short of them, so that scores of few values are never parted by force.
    """
    ordered = np.sort(known)
    ranks = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")) / (2 * known.size)
    above = ranks - (1 - rule.highest) if rule.highest else np.full(scores.size, -np.inf)
    below = rule.lowest - ranks if rule.lowest else np.full(scores.size, -np.inf)
    n_guesses = max(1, round((rule.highest + rule.lowest) * scores.size))
    furthest = np.lexsort((rng.random(scores.size), -np.maximum(above, below)))[:n_guesses]
    return furthest, np.asarray(above[furthest] > below[furthest], np.bool_)
