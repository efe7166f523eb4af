"""Privacy parameters that one run suggests if the mechanism is Gaussian (methods.md#statistics, "Epsilon").

f-differential privacy describes a mechanism by its whole curve of error rates; a mu-Gaussian one hides a record as well
as noise of standard deviation 1/mu hides a difference of 1 (Dong, Roth & Su 2022). Guesses show more about a mechanism
whose curve is known but for mu; where it has another curve, what they show is wrong.
"""

from __future__ import annotations

import math

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
