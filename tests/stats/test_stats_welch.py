"""Welch's bounds beside scipy's, and intervals that reach as far."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from audit.measurements import ALPHAS
from audit.stats.means import welch_reach, widen_to_welch
from audit.stats.rates import excess_mean


def exponential(n, seed, scale=0.11):
    return np.minimum(np.random.default_rng(seed).exponential(scale, n), 1.0)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 40), (32, 30)])
def test_bounds_are_those_of_scipy(n, m):
    first, second = exponential(n, 1), exponential(m, 2, 0.3)
    found = welch_reach(first, second, [0.025, 0.005])
    for level, reach in zip((0.95, 0.99), found, strict=True):
        known = ttest_ind(first, second, equal_var=False).confidence_interval(level)
        assert reach == pytest.approx((known.high - known.low) / 2)


def test_no_bound_is_nearer_than_either():
    first, second = exponential(32, 3), exponential(32, 4)
    sides = [(side, np.zeros(side.size), np.arange(side.size)) for side in (first, second)]
    before = excess_mean(*sides[0], *sides[1], np.random.default_rng(0), alphas=ALPHAS, unit="canary")
    after = widen_to_welch(before, first, second)
    reach = welch_reach(first, second, [0.025, *ALPHAS])
    assert after.low == min(before.low, before.value - reach[0])
    assert after.high == max(before.high, before.value + reach[0])
    for (alpha, low, high), (_, lower, upper), far in zip(after.bounds, before.bounds, reach[1:], strict=True):
        assert (low, high) == (min(lower, before.value - far), max(upper, before.value + far)), alpha
    assert "Welch" in after.method
    assert (after.value, after.n) == (before.value, before.n)


def test_sides_without_spread_and_single_values():
    assert welch_reach([1.0, 1.0], [0.0, 0.0, 0.0], [0.025]).tolist() == [0.0]
    with pytest.raises(ValueError, match="two values"):
        welch_reach([1.0], [0.0, 1.0], [0.025])
