"""Pass errors of `low_fpr_advantage` at its limit, by the shape of the leak.

A pass needs the one-sided bound at `CAUTIOUS_PASS_ALPHA` within the limit of the default policy.
At a true advantage that equals the limit this should happen in at most that share of audits. Members that are known for
certain keep to that. A straight ROC curve does not: the order statistics of the threshold are
skewed, and MOVER takes their reach as even. Scores that crowd just over the threshold are worst.

    python -m benchmarks.calibration.low_fpr_errors  # prints the table; 3 minutes
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from audit.arrays import Floats
from audit.attacks.score_figures import LOW
from audit.measurements import CAUTIOUS_PASS_ALPHA
from audit.policy import load
from audit.stats.intervals import Interval
from audit.stats.roc import LowAdvantage, low_advantage, lowest_resolved

AUDITS = 3000
Shape = Literal["straight", "certain", "crowded"]
"""Straight: the ROC curve is a line from the corner to the rate, as of a leak of all members.
Certain: a share of the members outranks everything, and the others are like unseen documents.
Crowded: that share lies just over the threshold instead."""

SHAPES: tuple[Shape, ...] = ("straight", "certain", "crowded")


def limit_of_default() -> float:
    """Return the limit of the shipped policy."""
    limits = {(limit.attack, limit.metric): limit.max for limit in load("default").limits}
    limit = limits["membership", LOW]
    assert limit is not None
    return limit


def draw_members(
    shape: Shape, advantage: float, rate: float, n: int, rng: np.random.Generator
) -> Floats:
    """Draw scores of members, whose share over the rate's threshold is `rate` + `advantage`.

    Unseen documents have scores between 0 and 1, so that the threshold is 1 - `rate`.
    """
    if shape == "certain":
        known = rng.random(n) < advantage / (1 - rate)
        return np.where(known, 2.0, rng.random(n))
    if shape == "crowded":
        crowded = rng.random(n) < advantage / (1 - rate)
        return np.where(crowded, 1 - rate * (0.55 + 0.42 * rng.random(n)), rng.random(n))
    above = rng.random(n) < rate + advantage
    depth = rng.random(n)
    return np.where(above, 1 - rate * depth, (1 - rate) * depth)


class Errors(NamedTuple):
    """Shares of audits.

    Attributes:
        passed: whose bound is within the limit.
        missed: whose bound is under the truth.
    """

    passed: float
    missed: float


def upper_bound(advantage: Interval) -> float:
    """Return the bound that a pass needs within the limit."""
    for alpha, _, upper in advantage.bounds:
        if alpha == CAUTIOUS_PASS_ALPHA:
            return upper
    raise ValueError(f"an interval has bounds at {CAUTIOUS_PASS_ALPHA}")


def count_errors(shape: Shape, truth: float, limit: float, n: int) -> Errors:
    """Simulate audits of so many documents a side with this true advantage."""
    rng = np.random.default_rng([51, n, round(1000 * truth), SHAPES.index(shape)])
    rate = lowest_resolved(n)
    assert rate is not None
    ends = np.empty(AUDITS)
    for audit in range(AUDITS):
        measured = low_advantage(draw_members(shape, truth, rate, n, rng), rng.random(n))
        assert isinstance(measured, LowAdvantage)
        ends[audit] = upper_bound(measured.advantage)
    return Errors(float((ends <= limit).mean()), float((ends < truth).mean()))


def main() -> None:
    """Print the errors at the limit and at twice the limit."""
    limit = limit_of_default()
    print(f"{AUDITS:,} audits a cell; limit {limit:g}")
    print("leak | true advantage | documents a side | passed | bound under the truth")
    for shape in SHAPES:
        for truth in (limit, 2 * limit):
            for n in (75, 150, 300, 500):
                errors = count_errors(shape, truth, limit, n)
                print(f"{shape} | {truth:g} | {n} | {errors.passed:.4f} | {errors.missed:.4f}")


if __name__ == "__main__":
    main()
