"""Medians with bounds by the sign test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from audit.stats.intervals import median_interval


def test_bounds_are_the_order_statistics_that_the_sign_test_does_not_refuse():
    values = np.arange(1.0, 41.0)
    found = median_interval(values, alphas=(0.05,), unit="provider")
    assert found.value == 20.5
    refused = [x for x in values if binomtest(int((values > x).sum()), 40, 0.5).pvalue <= 0.05]
    assert (found.low, found.high) == (14, 27)
    assert 13 in refused
    assert 14 not in refused
    assert found.bounds == ((0.05, 15.0, 26.0),)
    assert (found.n, found.clusters, found.method) == (40, 40, "order statistics by the sign test, providers")


def test_too_few_units_are_bounded_by_their_smallest_and_largest():
    found = median_interval([3.0, 1.0, 2.0], alphas=(0.0001,))
    assert (found.value, found.low, found.high) == (2, 1, 3)
    assert found.bounds == ((0.0001, 1.0, 3.0),)
    assert median_interval([5.0]).low == 5


def test_values_that_agree_leave_no_room():
    found = median_interval(np.full(80, 2.0))
    assert (found.value, found.low, found.high) == (2, 2, 2)


def test_it_holds_the_median_as_often_as_said():
    draw = np.random.default_rng(0)
    held = [found.low <= 3 <= found.high for found in (median_interval(draw.poisson(3.0, 41)) for _ in range(400))]
    assert np.mean(held) >= 0.93


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])
