"""The probability of right guesses under differential privacy; apart, because a verdict needs it and no scipy."""

from __future__ import annotations

import numpy as np

from audit.arrays import Floats


def p_value(n_canaries: int, n_guesses: int, n_right: int, *, epsilon: float, delta: float) -> float:
    """A bound on the probability of so many right guesses under (epsilon, delta)-privacy.

    With W binomial of n_guesses and e^epsilon / (1 + e^epsilon): P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i, i
    from 1 to v (Steinke et al. 2023, appendix D), m canaries and v right guesses; cut at 1.

    Args:
        n_canaries: m, whose coins are guessed or abstained from.
        n_guesses: in 1..n_canaries.
        n_right: in 0..n_guesses.
        epsilon: at least 0.
        delta: in [0, 1).

    Raises:
        ValueError: counts out of range.
    """
    if not 0 <= n_right <= n_guesses <= n_canaries or n_guesses < 1:
        raise ValueError("right guesses are among the guesses, and these among the canaries")
    chances = _binomial(n_guesses, epsilon)
    tail = min(1.0, float(chances[n_right:].sum()))
    if delta == 0 or n_right == 0:
        return tail
    between = np.cumsum(chances[:n_right][::-1])
    return min(1.0, tail + 2 * n_canaries * delta * float(np.max(between / np.arange(1, n_right + 1))))


def _binomial(n: int, epsilon: float) -> Floats:
    """The probability of each number of right guesses, shape (n + 1,), one being right in e^eps / (1 + e^eps)."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    right = np.arange(n + 1)
    ways = logs[n] - logs - logs[::-1]
    chances: Floats = np.exp(ways - right * np.logaddexp(0, -epsilon) - (n - right) * np.logaddexp(0, epsilon))
    return chances
