"""Intervals from what a number is without each group of units (methods.md#statistics)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.stats.intervals import clopper_pearson
from audit.stats.means import group_jackknife, widen_to

ALPHAS = (0.05, 0.01)


def without_each(values, groups):
    return [values[groups != group].mean() for group in np.unique(groups)], np.bincount(groups)


def test_of_a_mean_with_groups_of_one_it_is_students_interval():
    values = np.random.default_rng(0).uniform(0.3, 0.7, 30)
    without, sizes = without_each(values, np.arange(30))
    found = group_jackknife(values.mean(), without, sizes, n=30, alphas=ALPHAS, unit="firm")
    low, high = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    one_sided = values.mean() - stats.t.ppf(0.99, 29) * stats.sem(values)
    assert found.bounds[1][:2] == pytest.approx((0.01, one_sided))
    assert (found.n, found.clusters, found.method) == (30, 30, "jackknife of 30 groups of firms")


def test_groups_of_unequal_sizes_give_the_variance_of_the_mean():
    draw, groups = np.random.default_rng(1), np.repeat(np.arange(12), [2, 3] * 6)
    widths = []
    for _ in range(300):
        values = draw.uniform(0.2, 0.8, groups.size)
        found = group_jackknife(values.mean(), *without_each(values, groups), n=groups.size)
        widths.append((found.high - found.low) / 2 / stats.t.ppf(0.975, 11))
    truth = 0.6 / 12**0.5 / groups.size**0.5
    assert np.mean(np.square(widths)) == pytest.approx(truth**2, rel=0.1)


def test_bounds_stay_within_shares():
    found = group_jackknife(0.9, [0.5, 1.0, 0.9], [1, 1, 1], n=3, alphas=ALPHAS)
    assert (found.low, found.high) == (0, 1)


@pytest.mark.parametrize(
    ("without", "sizes", "n", "told"),
    [([0.5], [1], 2, "two groups"), ([0.5, 0.5], [1], 3, "two groups"), ([0.5, 0.5], [0, 1], 3, "needs units")],
)
def test_what_gives_no_spread_is_refused(without, sizes, n, told):
    with pytest.raises(ValueError, match=told):
        group_jackknife(0.5, without, sizes, n=n)


def test_bounds_reach_at_least_as_far_as_those_of_the_other():
    narrow = group_jackknife(0.75, [0.75, 0.75], [1, 1], n=2, alphas=ALPHAS)
    floor = clopper_pearson(10, 20, alphas=ALPHAS)
    found = widen_to(narrow, floor)
    assert (found.value, found.low, found.high) == pytest.approx((0.75, 0.25 + floor.low, 0.25 + floor.high))
    assert found.bounds[1][1] == pytest.approx(0.25 + floor.bounds[1][1])
    assert found.method.startswith("Clopper-Pearson, wider than the jackknife")
    wide = group_jackknife(0.5, [0.2, 0.8], [1, 1], n=2, alphas=ALPHAS)
    assert widen_to(wide, floor) == wide
    with pytest.raises(ValueError, match="same levels"):
        widen_to(narrow, clopper_pearson(10, 20))
