"""P-values that a verdict needs, without scipy: of many tests at once, and of right guesses under a privacy bound."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from audit.arrays import Floats

Key = TypeVar("Key")


def holm(p_values: Mapping[Key, float | None], weights: Mapping[Key, float] | None = None) -> dict[Key, float]:
    """Adjust p-values by Holm's step-down rule (1979), over those that there are; ties in the order given.

    The chance that any true null has an adjusted p of at most alpha is at most alpha, however the tests go together.

    Args:
        p_values: by test; None: the test was not made.
        weights: positive, by test, fixed before the tests; a larger weight gives a test a larger share of alpha (Holm's
            weighted rule). None: equal shares.
    """
    share = {key: 1.0 if weights is None else weights[key] for key in p_values}
    tested = sorted(((p / share[key], key) for key, p in p_values.items() if p is not None), key=itemgetter(0))
    remaining = sum(share[key] for _, key in tested)
    adjusted: dict[Key, float] = {}
    running = 0.0
    for ratio, key in tested:
        running = max(running, min(1.0, ratio * remaining))
        adjusted[key] = running
        remaining -= share[key]
    return adjusted


def guessing_p(n_canaries: int, n_guesses: int, n_right: int, *, epsilon: float, delta: float) -> float:
    """Compute a bound on the probability of so many right guesses under (epsilon, delta)-privacy.

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
    import numpy as np  # takes as long to import as the rest of a verdict, and only a claimed guarantee needs it

    if not 0 <= n_right <= n_guesses <= n_canaries or n_guesses < 1:
        raise ValueError("right guesses are among the guesses, and these among the canaries")
    chances = _binomial(n_guesses, epsilon)
    tail = min(1.0, float(chances[n_right:].sum()))
    if delta == 0 or n_right == 0:
        return tail
    between = np.cumsum(chances[:n_right][::-1])
    return min(1.0, tail + 2 * n_canaries * delta * float(np.max(between / np.arange(1, n_right + 1))))


def _binomial(n: int, epsilon: float) -> Floats:
    """Compute the binomial probability of each number of right guesses, shape (n + 1,), share e^eps / (1 + e^eps)."""
    import numpy as np

    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    right = np.arange(n + 1)
    ways = logs[n] - logs - logs[::-1]
    chances: Floats = np.exp(ways - right * np.logaddexp(0, -epsilon) - (n - right) * np.logaddexp(0, epsilon))
    return chances
