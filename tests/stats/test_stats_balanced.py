"""Balanced accuracy and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from audit.stats.advantage import balanced_accuracy
from audit.stats.intervals import clopper_pearson

ALPHAS = (0.05, 0.001)
SHARES = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=30)


def rng():
    return np.random.default_rng(0)


def hits(right, n):
    return (np.arange(n) < right).astype(float)


def test_the_value_is_sklearns():
    draw = np.random.default_rng(1)
    member, called = draw.random(90) < 0.3, draw.random(90) < 0.4
    found = balanced_accuracy((called == member)[member], (called == member)[~member], rng())
    assert found.value == pytest.approx(balanced_accuracy_score(member, called))
    assert found.n == found.clusters == 90


def test_reaches_of_the_two_exact_intervals_are_joined():
    """By hand: each side reaches as far as Clopper-Pearson, the mean half as far as the hypotenuse of both."""
    found = balanced_accuracy(hits(27, 40), hits(30, 60), rng(), alphas=ALPHAS)
    first, second = (clopper_pearson(right, n, alphas=ALPHAS) for right, n in ((27, 40), (30, 60)))
    assert found.value == (first.value + second.value) / 2
    assert found.low == pytest.approx(found.value - np.hypot(first.value - first.low, second.value - second.low) / 2)
    assert found.high == pytest.approx(found.value + np.hypot(first.high - first.value, second.high - second.value) / 2)
    for mine, one, other in zip(found.bounds, first.bounds, second.bounds, strict=True):
        assert mine[0] == one[0]
        assert mine[1] == pytest.approx(found.value - np.hypot(first.value - one[1], second.value - other[1]) / 2)


def test_36_units_a_side_give_about_twelve_points():
    found = balanced_accuracy(hits(18, 36), hits(18, 36), rng())
    assert (found.high - found.low) / 2 == pytest.approx(0.12, abs=0.005)
    assert "few" not in found.method


def test_few_units_of_a_side_are_named():
    assert "few providers" in balanced_accuracy(hits(5, 36), hits(1, 3), rng(), unit="provider").method


def test_a_perfect_guess_of_few_units_is_unsure():
    found = balanced_accuracy(np.ones(10), np.ones(10), rng())
    assert found.value == found.high == 1
    assert found.low == pytest.approx(1 - 2**0.5 * (1 - 0.025**0.1) / 2)


def test_calling_nearly_nobody_a_member_is_as_unsure_as_guessing():
    found = balanced_accuracy(hits(1, 80), hits(79, 80), rng(), alphas=ALPHAS)
    even = balanced_accuracy(hits(40, 80), hits(40, 80), rng(), alphas=ALPHAS)
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((even.low, even.high))
    assert np.array(found.bounds) == pytest.approx(np.array(even.bounds))
    assert "called the same" in found.method
    everybody = balanced_accuracy(hits(79, 80), hits(1, 80), rng())
    assert (everybody.low, everybody.high) == pytest.approx((even.low, even.high))


def test_calling_a_tenth_members_is_judged_as_it_is():
    found = balanced_accuracy(hits(12, 80), hits(76, 80), rng())
    assert "called the same" not in found.method
    even = balanced_accuracy(hits(44, 80), hits(44, 80), rng())
    assert found.value == pytest.approx(even.value)
    assert found.high - found.low < even.high - even.low


@settings(max_examples=25)
@given(SHARES, SHARES)
def test_bounds_enclose_the_value_and_widen_with_confidence(members, others):
    found = balanced_accuracy(members, others, rng(), alphas=ALPHAS)
    (_, low, high), (_, lower, higher) = found.bounds
    assert 0 <= lower <= low <= found.value <= high <= higher <= 1
    assert found.value == pytest.approx((np.mean(members) + np.mean(others)) / 2)


@settings(max_examples=25)
@given(SHARES, SHARES)
def test_sides_count_alike(members, others):
    """Up to the resamples where shares are resampled, so only where they are not."""
    one, other = ([float(round(share)) for share in side] for side in (members, others))
    first, second = balanced_accuracy(one, other, rng()), balanced_accuracy(other, one, rng())
    assert (first.value, first.low, first.high) == pytest.approx((second.value, second.low, second.high))


@pytest.mark.parametrize(("sizes", "rates"), [((36, 36), (0.5, 0.5)), ((40, 15), (0.8, 0.6)), ((60, 60), (0.95, 0.9))])
def test_the_interval_holds_the_truth_and_the_bound_raises_few_alarms(sizes, rates):
    draw = np.random.default_rng(2)
    n_runs = 400
    covered = alarms = 0
    for _ in range(n_runs):
        sides = [draw.random(n) < rate for n, rate in zip(sizes, rates, strict=True)]
        found = balanced_accuracy(*sides, draw, alphas=(0.05,))
        covered += found.low <= sum(rates) / 2 <= found.high
        alarms += found.bounds[0][1] > sum(rates) / 2
    # The most, and the fewest, that a share of 5 % gives in 400 runs, but for one time in a thousand.
    assert covered >= 365
    assert alarms <= 35


@pytest.mark.parametrize(("members", "others"), [([], [1]), ([1], []), ([1.5], [1]), ([[1]], [1])])
def test_nonsense_is_refused(members, others):
    with pytest.raises(ValueError, match=r"row|share|shape"):
        balanced_accuracy(members, others, rng())
