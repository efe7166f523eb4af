"""P-values that a verdict needs, without scipy.

Of many tests at once, and of right guesses under a privacy bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

from audit.stats.dp_bounds import LARGEST, Point

Key = TypeVar("Key")
HALVINGS = 30  # of the interval of a probability: what is left is under any level


def holm(
    p_values: Mapping[Key, float | None], weights: Mapping[Key, float] | None = None
) -> dict[Key, float]:
    """Adjust p-values by Holm's step-down rule (1979), over those that there are.

    Ties in the order given.

    The chance that any true null has an adjusted p of at most alpha is at most alpha, however the
    tests go together.

    Args:
        p_values: p-values by test; None: the test was not made.
        weights: positive, by test, fixed before the tests; a larger weight gives a test a larger
            share of alpha (Holm's weighted rule). None: equal shares.
    """
    share = {key: 1.0 if weights is None else weights[key] for key in p_values}
    tested = sorted(
        ((p / share[key], key) for key, p in p_values.items() if p is not None), key=itemgetter(0)
    )
    remaining = sum(share[key] for _, key in tested)
    adjusted: dict[Key, float] = {}
    running = 0.0
    for ratio, key in tested:
        running = max(running, min(1.0, ratio * remaining))
        adjusted[key] = running
        remaining -= share[key]
    return adjusted


def guessing_p(
    n_canaries: int, n_guesses: int, n_right: int, *, epsilon: float, delta: float
) -> float:
    """Compute a bound on the probability of so many right guesses under (epsilon, delta)-privacy.

    With W binomial of n_guesses and e^epsilon / (1 + e^epsilon): P[W >= v] + 2 m delta max_i P[v >
    W >= v - i] / i, i from 1 to v (Steinke et al. 2023, appendix D), m canaries and v right
    guesses; cut at 1.

    Args:
        n_canaries: m, whose coins are guessed or abstained from.
        n_guesses: number of guesses, in 1..n_canaries.
        n_right: number of right guesses, in 0..n_guesses.
        epsilon: epsilon, at least 0.
        delta: delta in [0, 1].

    Raises:
        ValueError: counts or delta out of range.
    """
    import numpy as np  # takes as long to import as the rest of a verdict, and only a claimed guarantee needs it

    if not 0 <= delta <= 1:
        raise ValueError("delta must lie in [0, 1]")
    if not 0 <= n_right <= n_guesses <= n_canaries or n_guesses < 1:
        raise ValueError("right guesses are among the guesses, and these among the canaries")
    logs = np.append(0.0, np.cumsum(np.log(np.arange(1, n_guesses + 1))))
    right = np.arange(n_guesses + 1)
    wrong = n_guesses - right
    ways = logs[-1] - logs - logs[::-1]
    chances = np.exp(ways - right * np.logaddexp(0, -epsilon) - wrong * np.logaddexp(0, epsilon))
    steepest = np.max(np.cumsum(chances[:n_right][::-1]) / np.arange(1, n_right + 1), initial=0.0)
    return min(1.0, float(chances[n_right:].sum() + 2 * n_canaries * delta * steepest))


def curve_p(n_canaries: int, n_guesses: int, n_right: int, points: Sequence[Point]) -> float:
    """Compute a bound on the probability of so many right guesses under a whole privacy curve.

    A coin that is flipped makes a right guess wrong. So the curve, which bounds a true-positive by
    a false-positive rate, bounds R(i + 1) by W(i). R(i) is the mean of right guesses / m, and W(i)
    that of wrong ones / m, both over the outcomes of i right guesses or more (Mahloujifar, Melis &
    Chaudhuri 2025, theorem 3.2). The largest chance that fits at every i is found by halving, from
    the least `guessing_p` of a point downwards: both bound the same probability.

    Args:
        n_canaries: m, see `guessing_p`.
        n_guesses: likewise; they may be chosen by what the model gives.
        n_right: likewise.
        points: epsilons and deltas that hold at once, at least one.

    Raises:
        ValueError: counts out of range.
    """
    import numpy as np

    odds = np.exp([min(epsilon, LARGEST) for epsilon, _ in points])
    deltas = np.array([delta for _, delta in points])

    def fits(chance: float) -> bool:
        """Test whether the privacy curve allows so many right guesses with probability `chance`."""
        right = chance * n_right / n_canaries
        wrong = chance * (n_guesses - n_right) / n_canaries
        for i in reversed(range(n_right)):
            needed = float(
                np.maximum((right - deltas) / odds, 1 - deltas - (1 - right) * odds).max()
            )
            if needed <= wrong or right + wrong > n_guesses / n_canaries:
                break
            right = right + i / (n_guesses - i) * (needed - wrong)
            wrong = needed
        return right + wrong <= n_guesses / n_canaries

    low = 0.0
    high = min(guessing_p(n_canaries, n_guesses, n_right, epsilon=e, delta=d) for e, d in points)
    for _ in range(0 if fits(high) else HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return high
