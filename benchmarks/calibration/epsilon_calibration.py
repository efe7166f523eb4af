"""How often the bound on epsilon lies above the truth, and how near it comes.

Method: methods/canaries.md and methods/index.md#limits-and-methods.

No model is trained: the mechanism gives each canary's score itself, so that its epsilon is known.
Randomised response tells each coin rightly with probability e^eps / (1 + e^eps); the Gaussian
mechanism adds noise to it, of the deviation that is exactly (epsilon, delta)-private (Balle & Wang
2018). Where nothing leaks scores are noise and epsilon is 0; the rule that takes the largest bound
over all numbers of guesses stands beside.

    python -m benchmarks.calibration.epsilon_calibration  # writes epsilon_calibration.json
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from audit.arrays import Bools, Floats
from audit.stats.epsilon import CONFIDENCE, epsilon_bound

ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""
REACHED = 0.8
"""Of the truth that the bound reaches on average for randomised response."""


@dataclass(frozen=True)
class Setting:
    """One kind of run.

    Attributes:
        mechanism: "randomised response", "gaussian" or "none".
        epsilon: the true one, at `delta`.
        delta: of the mechanism and of the bound.
        canaries: of each run.
    """

    mechanism: str
    epsilon: float
    delta: float = 0.0
    canaries: int = 1000


SETTINGS = {
    "randomised response, epsilon 2": Setting("randomised response", 2.0),
    "randomised response, epsilon 4": Setting("randomised response", 4.0),
    "Gaussian mechanism, epsilon 2": Setting("gaussian", 2.0, 1e-5),
    "Gaussian mechanism, epsilon 4": Setting("gaussian", 4.0, 1e-5),
    "no leak": Setting("none", 0.0),
    "no leak, delta 1e-5": Setting("none", 0.0, 1e-5),
    "no leak, 64 canaries": Setting("none", 0.0, canaries=64),
}


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The least delta at which the mu-Gaussian mechanism is (epsilon, delta)-private (Balle & Wang 2018, theorem 8).

    Args:
        epsilon: at least 0.
        mu: sensitivity over standard deviation, positive.

    Returns:
        In [0, 1).
    """
    near = mu / 2 - epsilon / mu
    far = -mu / 2 - epsilon / mu
    return max(0.0, float(ndtr(near) - math.exp(epsilon + float(log_ndtr(far)))))


def deviation(epsilon: float, delta: float) -> float:
    """The standard deviation of noise that is exactly (epsilon, delta)-private at sensitivity 1."""
    return 1 / float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 20.0, xtol=1e-12))


def scores_of(setting: Setting, coins: Bools, rng: np.random.Generator) -> Floats:
    """What the mechanism tells of each coin."""
    if setting.mechanism == "randomised response":
        lies = rng.random(coins.size) > 1 / (1 + math.exp(-setting.epsilon))
        return np.asarray(coins ^ lies, np.float64)
    if setting.mechanism == "gaussian":
        return coins + rng.normal(0, deviation(setting.epsilon, setting.delta), coins.size)
    return rng.normal(0, 1, coins.size)


def largest_above_zero(scores: Floats, coins: Bools, both_ends: bool) -> bool:
    """Whether the largest bound at delta 0 is above 0, over all numbers of highest (and of lowest) scores guessed."""
    n = coins.size
    ordered = coins[np.argsort(-scores)]
    highest, lowest = (np.append(0, np.cumsum(right)) for right in (ordered, ~ordered[::-1]))
    # So many of 0..n guesses must be right, that a bound is above 0.
    enough = binom.isf(1 - CONFIDENCE, np.arange(n + 1), 0.5) + 1
    if not both_ends:
        return bool(np.any(highest >= enough))
    return any(bool(np.any(highest[: n + 1 - k] + lowest[k] >= enough[k:])) for k in range(n + 1))


def summary(bounds: Floats, truth: float) -> dict[str, Any]:
    """How bounds lie to the truth."""
    quantiles = np.quantile(bounds, (0.05, 0.5, 0.95))
    return {
        "above_truth": int(np.sum(bounds > truth)),
        "mean": round(float(bounds.mean()), 3),
        "quantiles_5_50_95": [round(float(value), 3) for value in quantiles],
        "mean_share_of_truth": round(float(bounds.mean() / truth), 3) if truth else None,
    }


def calibrate(setting: Setting, runs: int) -> dict[str, Any]:
    """What so many runs show."""
    found = []
    largest = np.zeros((runs, 2), bool)
    for run in range(runs):
        rng = np.random.default_rng(
            [run, setting.canaries, round(setting.epsilon), len(setting.mechanism)]
        )
        coins = rng.random(setting.canaries) < 0.5
        scores = scores_of(setting, coins, rng)
        bound = epsilon_bound(scores, coins, rng, delta=setting.delta)
        assert bound is not None
        found.append(bound)
        if setting.mechanism == "none":
            largest[run] = [
                largest_above_zero(scores, coins, both_ends) for both_ends in (False, True)
            ]
    result: dict[str, Any] = {
        "setting": asdict(setting),
        "runs": runs,
        "bound": summary(np.array([bound.low for bound in found]), setting.epsilon),
        "cap": round(found[0].cap, 3),
        "median_guesses": int(np.median([bound.n_guesses for bound in found])),
    }
    if setting.mechanism == "none" and not setting.delta:
        result["largest_over_thresholds_above_0"] = {
            "highest scores": int(largest[:, 0].sum()),
            "highest and lowest scores": int(largest[:, 1].sum()),
        }
    return result


def main() -> None:
    """Simulate every setting and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found = {}
    for name, setting in SETTINGS.items():
        found[name] = result = calibrate(setting, options.runs)
        kinds = ["at most 5 %" if result["bound"]["above_truth"] <= ALLOWED else "too many"]
        if setting.mechanism == "randomised response":
            kinds.append(
                "near enough" if result["bound"]["mean_share_of_truth"] >= REACHED else "too low"
            )
        print(f"{name}: {json.dumps(result, sort_keys=True)} ({', '.join(kinds)})", flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
