"""Intervals from groups left out in turn, and Welch's: answers of scipy and simulation."""

import numpy as np
import pytest
from scipy import stats

from audit.stats import intervals
from audit.stats.rates import excess_mean
from audit.stats.resampling import group_jackknife, welch_reach, widen_to, widen_to_welch


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 40), (32, 30)])
def test_welch_is_scipys_and_no_bound_is_nearer_than_either(n, m):
    first, second = (
        np.minimum(generator(seed).exponential(0.2, k), 1.0) for seed, k in ((1, n), (2, m))
    )
    reach = welch_reach(first, second)
    for tail, far in zip(intervals.TAILS, reach, strict=True):
        known = stats.ttest_ind(first, second, equal_var=False).confidence_interval(1 - 2 * tail)
        assert far == pytest.approx((known.high - known.low) / 2)
    before = excess_mean(
        [(side, np.zeros(side.size), np.arange(side.size)) for side in (first, second)], generator()
    )
    after = widen_to_welch(before, first, second)
    assert after.ends[0] == pytest.approx(np.minimum(before.ends[0], before.value - reach))
    assert after.ends[1] == pytest.approx(np.maximum(before.ends[1], before.value + reach))
    assert (after.value, after.n) == (before.value, before.n)


def test_groups_of_unequal_sizes_give_the_variance_of_the_mean():
    draw = generator(1)
    groups = np.repeat(np.arange(12), [2, 3] * 6)
    widths = []
    for _ in range(300):
        values = draw.uniform(0.2, 0.8, groups.size)
        without = [values[groups != group].mean() for group in range(12)]
        found = group_jackknife(values.mean(), without, np.bincount(groups), n=groups.size)
        widths.append((found.high - found.low) / 2 / stats.t.ppf(0.975, 11))
    assert np.mean(np.square(widths)) == pytest.approx(0.6**2 / 12 / groups.size, rel=0.1)


def test_a_jackknife_reaches_at_least_as_far_as_an_interval_that_knows_how_many_units_there_are():
    narrow = group_jackknife(0.75, [0.75, 0.75], [1, 1], n=2)
    floor = intervals.clopper_pearson(10, 20)
    found = widen_to(narrow, floor)
    assert found.lower == pytest.approx(tuple(0.25 + bound for bound in floor.lower))
    assert found.high == pytest.approx(0.25 + floor.high)
    wide = group_jackknife(0.5, [0.2, 0.8], [1, 1], n=2)
    assert widen_to(wide, floor) == wide
