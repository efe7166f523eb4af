"""Four readings of one run: which are bounds on epsilon, and how near they come.

- points: the bound of the product (Steinke et al. 2023), which holds for any mechanism;
- claim, points and claim, curve: the largest epsilon at delta 1e-5 for which the claim of a
  Gaussian mechanism is refuted at 5 %, by each point of its curve alone, and by the whole curve
  (Mahloujifar et al. 2025, `curve_p`);
- Gauss: the epsilon of two Gaussians with the means of the scores in and out and their pooled
  variance, at the 5 % quantile of 300 bootstrap samples (Agrawal et al. 2026, arXiv 2606.12733, and
  their code).

As in epsilon_calibration.py no model is trained: the mechanism gives each canary's score, so that
its epsilon is known. Laplace noise, Cauchy noise and randomised response have delta 0, and their
epsilon holds at 1e-5 as well.

    python -m benchmarks.calibration.one_run_methods  # writes one_run_methods.json
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

from audit.arrays import Bools, Floats
from audit.stats.epsilon import epsilon_bound
from audit.stats.p_values import curve_p, guessing_p
from benchmarks.calibration.epsilon_calibration import deviation, gaussian_delta

DELTA = 1e-5
LEVEL = 0.05
BOOTSTRAP = 300
SIZES = (64, 200, 1000, 2000)
METHODS = ("points", "claim, points", "claim, curve", "Gauss")
CLAIMED = np.geomspace(0.05, 40, 80)
"""Epsilons that are claimed."""


def points_of(epsilon: float) -> list[tuple[float, float]]:
    """The stated point of a Gaussian mechanism and 24 more, as an accountant gives them."""
    mu = 1 / deviation(epsilon, DELTA)
    last = float(brentq(lambda one: gaussian_delta(one, mu) - 1e-6, 0, 600))
    curve = [(float(one), gaussian_delta(float(one), mu)) for one in np.linspace(0, last, 24)]
    return [(epsilon, DELTA), *curve]


CLAIMS = [points_of(float(epsilon)) for epsilon in CLAIMED]
SLOPES = np.array([1 / deviation(float(epsilon), DELTA) for epsilon in CLAIMED])


@cache
def cauchy_scale(epsilon: float) -> float:
    """The scale of Cauchy noise on a coin that is exactly epsilon-private."""

    def loss(scale: float) -> float:
        """Return the privacy loss of Cauchy noise of this scale."""
        ratio = minimize_scalar(
            lambda x: -math.log((scale**2 + (x + 1) ** 2) / (scale**2 + x**2)), (0, 1)
        )
        return -float(ratio.fun)

    return float(brentq(lambda scale: loss(scale) - epsilon, 0.01, 100))


def scores_of(mechanism: str, epsilon: float, coins: Bools, rng: np.random.Generator) -> Floats:
    """What the mechanism tells of each coin."""
    match mechanism:
        case "Gaussian":
            return coins + rng.normal(0, deviation(epsilon, DELTA), coins.size)
        case "Laplace":
            return coins + rng.laplace(0, 1 / epsilon, coins.size)
        case "Cauchy":
            return coins + cauchy_scale(epsilon) * rng.standard_cauchy(coins.size)
        case "randomised response":
            return np.asarray(
                coins ^ (rng.random(coins.size) > 1 / (1 + math.exp(-epsilon))), np.float64
            )
    # Ranks of canaries that nobody remembers, as exposure in bits.
    return -np.log2(rng.random(coins.size))


def largest_refuted(counts: tuple[int, int, int], whole: bool) -> float:
    """The largest claim that is refuted; 0 where none is."""

    def refuted(place: int) -> bool:
        """Test whether the guesses refute the claim at this place of `CLAIMS`."""
        points = CLAIMS[place]
        if whole:
            return curve_p(*counts, points) <= LEVEL
        return (
            min(guessing_p(*counts, epsilon=epsilon, delta=delta) for epsilon, delta in points)
            <= LEVEL
        )

    low = -1
    high = len(CLAIMS)
    while high - low > 1:
        middle = (low + high) // 2
        # The curve itself is a little below the polygon of its points, and sooner computed.
        found = exactly_refuted(counts, SLOPES[middle]) if whole else refuted(middle)
        low, high = (middle, high) if found else (low, middle)
    while whole and low >= 0 and not refuted(low):
        low -= 1
    if low >= 0:
        return float(CLAIMED[low])
    return 0.0


def exactly_refuted(counts: tuple[int, int, int], slope: float) -> bool:
    """Whether the exact curve of a Gaussian mechanism is refuted."""
    n_canaries, n_guesses, n_right = counts
    right = LEVEL * n_right / n_canaries
    wrong = LEVEL * (n_guesses - n_right) / n_canaries
    for i in reversed(range(n_right)):
        needed = float(ndtr(ndtri(right) - slope))
        if needed <= wrong or right + wrong > n_guesses / n_canaries:
            break
        right = right + i / (n_guesses - i) * (needed - wrong)
        wrong = needed
    return right + wrong > n_guesses / n_canaries


def by_gauss(scores: Floats, coins: Bools, rng: np.random.Generator) -> float:
    """The lower bound of the Gaussian score."""
    inside = scores[coins]
    outside = scores[~coins]
    drawn = [side[rng.integers(0, side.size, (BOOTSTRAP, side.size))] for side in (inside, outside)]
    gap = drawn[0].mean(1) - drawn[1].mean(1)
    deviations = np.sqrt((drawn[0].var(1, ddof=1) + drawn[1].var(1, ddof=1)) / 2)
    slopes = np.maximum(gap / np.maximum(deviations, 1e-12), 0)
    return float(np.quantile(np.interp(slopes, [0, *SLOPES], [0, *CLAIMED]), LEVEL))


def measured(mechanism: str, epsilon: float, n: int, runs: int) -> dict[str, Any]:
    """What so many runs show."""
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for run in range(runs):
        rng = np.random.default_rng([run, n, round(10 * epsilon), len(mechanism)])
        coins = rng.random(n) < 0.5
        scores = scores_of(mechanism, epsilon, coins, rng)
        bound = epsilon_bound(scores, coins, rng, delta=DELTA)
        assert bound is not None
        counts = bound.n_evaluated, bound.n_guesses, bound.n_right
        values = (bound.low, largest_refuted(counts, whole=False), largest_refuted(counts, whole=True),
                  by_gauss(scores, coins, rng))  # fmt: skip
        for name, value in zip(METHODS, values, strict=True):
            found[name].append(value)
    shown = {
        name: {
            "above": int(np.sum(np.array(values) > epsilon)),
            "mean": round(float(np.mean(values)), 2),
        }
        for name, values in found.items()
    }
    return {"mechanism": mechanism, "epsilon": epsilon, "canaries": n, "runs": runs, **shown}


def main() -> None:
    """Simulate every setting and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=100, help="of up to 200 canaries; a quarter of them beyond"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    results = json.loads(options.out.read_text())["results"] if options.out.exists() else []
    known = {(one["mechanism"], one["epsilon"], one["canaries"]) for one in results}
    settings = [("none", 0.0)]
    settings += [(name, 4.0) for name in ("Gaussian", "randomised response", "Laplace", "Cauchy")]
    for n in SIZES:
        for mechanism, epsilon in [*settings, ("Gaussian", 2.0), ("Gaussian", 8.0)]:
            if (mechanism, epsilon, n) in known:
                continue
            results.append(
                measured(mechanism, epsilon, n, options.runs if n <= 200 else options.runs // 4)
            )
            print(json.dumps(results[-1]), flush=True)
            written = {"date": time.strftime("%Y-%m-%d"), "results": results}
            options.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
