"""Pass errors of `low_fpr_advantage` at its limit, by the shape of the leak.

A pass needs the upper end of the two-sided 95 % interval within the limit of the default policy.
At a true advantage that equals the limit this should happen in at most 2.5 % of audits. Members
that are known for certain keep to that. A leak that raises all members alike does not: the order
statistics of the threshold are skewed, and MOVER takes their reach as even.

    python -m benchmarks.calibration.low_fpr_errors  # prints the table; 2 minutes
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from audit.arrays import Floats
from audit.attacks.score_figures import LOW
from audit.policy import load
from audit.stats.roc import LowAdvantage, low_advantage, lowest_resolved

AUDITS = 3000
Shape = Literal["straight", "certain"]
"""Straight: the ROC curve is a line from the corner to the rate, as of a leak of all members.
Certain: a share of the members outranks everything, and the others are like unseen documents."""


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
    above = rng.random(n) < rate + advantage
    depth = rng.random(n)
    return np.where(above, 1 - rate * depth, (1 - rate) * depth)


class Errors(NamedTuple):
    """Shares of audits.

    Attributes:
        passed: whose upper end is within the limit.
        missed: whose upper end is under the truth.
    """

    passed: float
    missed: float


def count_errors(shape: Shape, truth: float, limit: float, n: int) -> Errors:
    """Simulate audits of so many documents a side with this true advantage."""
    rng = np.random.default_rng([51, n, round(1000 * truth), shape == "certain"])
    rate = lowest_resolved(n)
    assert rate is not None
    ends = np.empty(AUDITS)
    for audit in range(AUDITS):
        measured = low_advantage(draw_members(shape, truth, rate, n, rng), rng.random(n))
        assert isinstance(measured, LowAdvantage)
        ends[audit] = measured.advantage.high
    return Errors(float((ends <= limit).mean()), float((ends < truth).mean()))


def main() -> None:
    """Print the errors at the limit and at twice the limit."""
    limit = limit_of_default()
    print(f"{AUDITS:,} audits a cell; limit {limit:g}")
    print("leak | true advantage | documents a side | passed | upper end under the truth")
    for shape in ("straight", "certain"):
        for truth in (limit, 2 * limit):
            for n in (75, 150, 300, 500):
                errors = count_errors(shape, truth, limit, n)
                print(f"{shape} | {truth:g} | {n} | {errors.passed:.4f} | {errors.missed:.4f}")


if __name__ == "__main__":
    main()
