"""Power and validity of the levels at which estimates carry bounds (`measurements.ALPHAS`).

A verdict reads a p-value from the recorded bounds: the smallest level whose bound lies over the
limit. Holm's first step in the last stage asks for 0.03 / tests, so that a level just above it
costs power.

Power: for each number of tests, the policy's own code finds the largest recorded level that
confirms a leak. The bounds are normal ones, and the leak is the one that an exact p-value at 33
tests confirms in 80 % of audits. So power follows in closed form.

Validity: simulated audits at a known truth count the lower bounds over it, and the upper ones
under it. Of a valid bound a share of at most alpha misses the truth. The sides of a skewed mean
are shown because a bootstrap cannot resolve such levels: its bounds are then at least as far out
as those of cluster-t (`stats.resampling`).

    python -m benchmarks.calibration.ladder  # prints both tables; 8 minutes
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from audit.measurements import ALPHAS, Bound, Estimate
from audit.policy import SIGNIFICANCE, Limit, Policy, evaluate
from audit.record import Result
from audit.stats.intervals import Interval, proportion
from audit.stats.rates import excess_rate
from audit.stats.resampling import bootstrap
from audit.stats.roc import auc_interval
from benchmarks.calibration.membership_calibration import record_of

FORMER = (0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0001)
"""The levels of docaudit 0.13."""
TESTS = (30, 31, 33, 48, 60)
PLANNED = 33
POWER = 0.8
NORMAL = NormalDist()


def estimate_at(name: str, z: float, levels: Sequence[float]) -> Estimate:
    """Make a number that lies `z` standard errors over 0, with normal bounds at these levels."""
    reaches = {alpha: -NORMAL.inv_cdf(alpha) for alpha in levels}
    bounds = tuple(Bound(alpha, z - reach, z + reach) for alpha, reach in reaches.items())
    reach = NORMAL.inv_cdf(0.975)
    return Estimate(name, z, z - reach, z + reach, 100, "documents", 100, "normal", bounds=bounds)


def is_confirmed(z: float, n_tests: int, levels: Sequence[float]) -> bool:
    """Test whether the policy confirms such a leak in the last stage.

    Args:
        z: how many standard errors the number lies over its limit.
        n_tests: numbers in all; the others are far under their limits.
        levels: at which every number has bounds.
    """
    names = [f"number{index}" for index in range(n_tests)]
    measurements = [estimate_at(name, -9.0, levels) for name in names]
    measurements[0] = estimate_at(names[0], z, levels)
    limits = tuple(Limit("membership", name, "", max=0.0) for name in names)
    record = record_of(Result("membership", measurements=tuple(measurements)))
    verdict = evaluate(record, Policy(1, "ladder", limits), dt.date(2026, 1, 1))
    return verdict.decisions[0].outcome == "violated"


def power_at(n_tests: int, levels: Sequence[float], shift: float) -> float:
    """Compute the share of audits that confirm a leak of `shift` standard errors."""
    least = {alpha: 1e-9 - NORMAL.inv_cdf(alpha) for alpha in levels}
    confirming = [z for z in least.values() if is_confirmed(z, n_tests, levels)]
    return NORMAL.cdf(shift - min(confirming))


class Miss(NamedTuple):
    """How many of so many bounds at a level miss the truth, on either side."""

    alpha: float
    lower: int
    upper: int


class Cell(NamedTuple):
    """What is simulated, its truth, and how often."""

    name: str
    draw: Callable[[np.random.Generator], Interval]
    truth: float
    audits: int


def count_misses(cell: Cell) -> Iterator[Miss]:
    """Count the bounds that miss the truth, at each recorded level from 0.001 on."""
    rng = np.random.default_rng(51)
    bounds = np.array([cell.draw(rng).bounds for _ in range(cell.audits)])
    for index, alpha in enumerate(ALPHAS):
        if alpha <= FORMER[-2]:
            _, lower, upper = bounds[:, index].T
            yield Miss(alpha, int((lower > cell.truth).sum()), int((upper < cell.truth).sum()))


def draw_area(rng: np.random.Generator) -> Interval:
    """The area of an audit without a leak, 150 documents a side."""
    return auc_interval(rng.normal(size=150), rng.normal(size=150))


def draw_share(rng: np.random.Generator) -> Interval:
    """A share of 5 %, 150 documents of four rows each that go together at correlation 0.3."""
    shares = rng.beta(0.05 * 7 / 3, 0.95 * 7 / 3, 150)
    hits = rng.random((150, 4)) < shares[:, None]
    return proportion(hits.ravel(), np.repeat(np.arange(150), 4))


def draw_excess(rng: np.random.Generator) -> Interval:
    """The excess without a leak where either model hits 1 %, four values a document."""
    rows = np.repeat(np.arange(150), 4)
    sides = [(rng.random(600) < 0.01, rng.random(600) < 0.01, rows) for _ in range(2)]
    return excess_rate(sides, rng)


def draw_mean(rng: np.random.Generator) -> Interval:
    """The mean of 150 skewed numbers (exponential), by the resampling bootstrap."""
    interval = bootstrap([np.stack([rng.exponential(size=150), np.ones(150)], axis=1)], _mean, rng)
    assert interval is not None
    return interval


def _mean(totals: np.ndarray) -> np.ndarray:
    """Return the ratio of the first two sums in each row of totals."""
    return np.asarray(totals[:, 0, 0] / totals[:, 0, 1])


CELLS = (
    Cell("area, 150 a side", draw_area, 0.5, 40_000),
    Cell("share 0.05, 150 documents of four rows", draw_share, 0.05, 100_000),
    Cell("excess, luck 0.01", draw_excess, 0.0, 30_000),
    Cell("mean of exponentials, resampled", draw_mean, 1.0, 3_000),
)


def main() -> None:
    """Print the power by the number of tests, and the misses by level."""
    needed = -NORMAL.inv_cdf(SIGNIFICANCE / PLANNED)
    shift = needed + NORMAL.inv_cdf(POWER)
    print(f"leak of {shift:.2f} standard errors: an exact p has power {POWER} at {PLANNED} tests")
    print("tests | former levels | levels now")
    for n_tests in TESTS:
        powers = [power_at(n_tests, levels, shift) for levels in (FORMER, ALPHAS)]
        print(f"{n_tests} | {powers[0]:.2f} | {powers[1]:.2f}")
    print("interval | level | allowed | lower over truth | upper under truth | audits")
    for cell in CELLS:
        for miss in count_misses(cell):
            allowed = miss.alpha * cell.audits
            counts = f"{allowed:g} | {miss.lower} | {miss.upper}"
            print(f"{cell.name} | {miss.alpha:g} | {counts} | {cell.audits:,}")


if __name__ == "__main__":
    main()
