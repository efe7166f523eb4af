"""Rows that no interval and no share can be computed from are refused with the reason."""

import math

import numpy as np
import pytest

from audit.stats.intervals import clopper_pearson, effective_number, median_interval, proportion
from audit.stats.lift import lift_share, worst_class
from audit.stats.ranking import rank_correlation
from audit.stats.rates import excess_mean, excess_rate, mean, net, rate
from audit.stats.resampling import group_jackknife, welch_reach
from audit.stats.roc import balanced_accuracy, tpr_at_fpr

ZEROS = np.zeros(4)
HALVES = np.full(4, 0.5)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("compute", "problem"),
    [
        pytest.param(lambda: rate((), (), RNG), "row", id="no rows"),
        pytest.param(lambda: net((0.5,), (0.5,), (0, 1), RNG), "row", id="more clusters than rows"),
        pytest.param(lambda: rate((1.5,), (0,), RNG), "shares", id="a share over one"),
        pytest.param(lambda: mean((math.nan,), (0,), RNG), "shares", id="no number"),
        pytest.param(lambda: net((0.5,), (-0.1,), (0,), RNG), "shares", id="a share below zero"),
        pytest.param(
            lambda: excess_rate(((HALVES, ZEROS, ZEROS), (ZEROS, ZEROS, ZEROS)), RNG),
            "0 or 1",
            id="halves of hits",
        ),
        pytest.param(
            lambda: excess_mean(((ZEROS, ZEROS, ZEROS), ((), (), ())), RNG), "row", id="empty split"
        ),
        pytest.param(lambda: balanced_accuracy((), (1,), RNG), "row", id="no members"),
        pytest.param(lambda: tpr_at_fpr((1.0,), (1.0,), 0.0, RNG), "rate", id="a rate of zero"),
    ],
)
def test_rates_of_rows_without_sense_are_refused(compute, problem):
    with pytest.raises(ValueError, match=problem):
        compute()


@pytest.mark.parametrize(
    ("compute", "problem"),
    [
        pytest.param(lambda: proportion((), ()), "hits must be", id="no hits"),
        pytest.param(
            lambda: proportion((1, 0), (1,)), "one value for each", id="fewer clusters than hits"
        ),
        pytest.param(lambda: proportion((0.5, 1), (1, 2)), "hits must be", id="half a hit"),
        pytest.param(lambda: proportion((math.nan, 1.0), (1, 2)), "hits must be", id="no number"),
        pytest.param(lambda: proportion(((1,),), ((1,),)), "hits must be", id="two dimensions"),
        pytest.param(lambda: clopper_pearson(1, 0), "hits between 0 and n", id="no trial"),
        pytest.param(
            lambda: clopper_pearson(6, 5), "hits between 0 and n", id="more hits than trials"
        ),
    ],
)
def test_hits_without_sense_are_refused(compute, problem):
    with pytest.raises(ValueError, match=problem):
        compute()


@pytest.mark.parametrize(
    ("compute", "problem"),
    [
        pytest.param(lambda: median_interval(()), "at least one", id="no values"),
        pytest.param(lambda: lift_share((1, 1), (1, 1), (0, 1)), "missed", id="nothing missed"),
        pytest.param(lambda: worst_class(ZEROS, ZEROS, ZEROS), "two classes", id="one class"),
        pytest.param(lambda: group_jackknife(0.5, (0.5,), (1,), n=2), "two groups", id="one group"),
        pytest.param(
            lambda: group_jackknife(0.5, (0.5, 0.5), (0, 1), n=3), "needs units", id="empty group"
        ),
        pytest.param(lambda: welch_reach((1.0,), (0.0, 1.0)), "two values", id="one value"),
        pytest.param(lambda: rank_correlation(ZEROS, ZEROS), "5 pairs", id="few pairs"),
        pytest.param(lambda: effective_number((0, 0)), "sizes", id="no size"),
    ],
)
def test_too_few_values_are_refused(compute, problem):
    with pytest.raises(ValueError, match=problem):
        compute()
