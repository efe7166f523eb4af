"""What the planner promises, held against the intervals that audits draw."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.measurements import CAUTIOUS_PASS_ALPHA, PASS_ALPHA
from audit.stats.power import CHANCE, DIFFERING, MAX_UNITS, certified, needed, pass_power
from audit.stats.rates import excess_rate, net
from audit.stats.roc import auc_interval, balanced_accuracy, low_advantage, lowest_resolved
from benchmarks.calibration.provider_calibration import accuracy_power, area_power

KINDS = tuple(CHANCE)
N_RUNS = 300
TOLERANCE = 0.08
"""About three standard errors of a share of 300 runs."""


def zeros(n):
    return np.zeros(n)


def hits(rng, n, rate):
    return (rng.random(n) < rate).astype(float)


def bound_for_a_pass(kind, interval):
    """Return the one-sided bounds that must lie within a limit."""
    alpha = {"low advantage": CAUTIOUS_PASS_ALPHA}.get(kind, PASS_ALPHA)
    return next((lower, upper) for level, lower, upper in interval.bounds if level == alpha)


def audited(kind, members, others, rng):
    """The interval of one audit of a model that leaks nothing."""
    if kind == "difference":
        return excess_rate(
            [(hits(rng, n, DIFFERING), zeros(n), np.arange(n)) for n in (members, others)], rng
        )
    if kind == "plain difference":
        return excess_rate(
            [(hits(rng, n, DIFFERING), None, np.arange(n)) for n in (members, others)], rng
        )
    if kind == "paired difference":
        chance = rng.random(members)
        return net(chance < DIFFERING / 2, chance > 1 - DIFFERING / 2, np.arange(members), rng)
    if kind == "auc":
        return auc_interval(rng.normal(size=members), rng.normal(size=others))
    if kind == "low advantage":
        return low_advantage(rng.normal(size=members), rng.normal(size=others)).advantage
    return balanced_accuracy(hits(rng, members, 0.5), hits(rng, others, 0.5), rng)


def test_the_numbers_of_methods_section_6():
    assert certified("paired difference", 59, 0) <= 0.05 < certified("paired difference", 58, 0)
    assert certified("plain difference", 59, 59) <= 0.05 < certified("plain difference", 58, 58)
    assert certified("difference", 60, 60) <= 0.05 < certified("difference", 59, 59)
    assert pass_power("difference", 150, 150, 0.05) == pytest.approx(0.994, abs=0.001)
    assert certified("balanced accuracy", 36, 36) == pytest.approx(0.5 + 0.1, abs=0.005)


@pytest.mark.parametrize(("members", "others"), [(40, 40), (150, 90), (60, 400)])
def test_the_smallest_limit_is_what_an_audit_without_a_leak_shows(members, others):
    rng = np.random.default_rng(0)
    side, other = (zeros(n) for n in (members, others))
    nothing = excess_rate(
        [(side, side, np.arange(members)), (other, other, np.arange(others))], rng
    )
    plain = excess_rate([(side, None, np.arange(members)), (other, None, np.arange(others))], rng)
    paired = net(side, side, np.arange(members), rng)
    calls = balanced_accuracy(np.arange(members) % 2, np.arange(others) % 2, rng)
    even = [stats.norm.ppf((np.arange(n) + 0.5) / n) for n in (members, others)]
    area = auc_interval(*even)

    def highest(kind, interval):
        return bound_for_a_pass(kind, interval)[1]

    assert certified("difference", members, others) == pytest.approx(
        highest("difference", nothing), abs=1e-12
    )
    assert certified("plain difference", members, others) == pytest.approx(
        highest("plain", plain), abs=1e-12
    )
    assert certified("paired difference", members, 0) == pytest.approx(
        highest("paired", paired), abs=1e-12
    )
    assert certified("balanced accuracy", members, others) == pytest.approx(
        highest("accuracy", calls)
    )
    assert certified("auc", members, others) == pytest.approx(highest("auc", area), abs=0.003)


@pytest.mark.parametrize(
    ("kind", "members", "others", "limit"),
    [
        ("difference", 150, 150, 0.05),
        ("difference", 110, 300, 0.05),
        ("plain difference", 100, 100, 0.05),
        ("plain difference", 75, 150, 0.05),
        ("paired difference", 100, 0, 0.05),
        ("auc", 60, 60, 0.65),
        ("auc", 40, 120, 0.65),
        ("balanced accuracy", 80, 80, 0.6),
        ("balanced accuracy", 35, 34, 0.65),
        ("low advantage", 75, 75, 0.15),
        ("low advantage", 150, 150, 0.15),
        ("low advantage", 600, 200, 0.1),
    ],
)
def test_audits_pass_as_often_as_planned(kind, members, others, limit):
    found = [
        audited(kind, members, others, np.random.default_rng((1, run))) for run in range(N_RUNS)
    ]
    # Areas count on both sides of chance.
    least = 1 - limit if CHANCE[kind] else -1.0
    bounds = [bound_for_a_pass(kind, interval) for interval in found]
    passed = np.mean([least <= lower and upper <= limit for lower, upper in bounds])
    assert passed == pytest.approx(pass_power(kind, members, others, limit), abs=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [0.05, 0.1])
def test_the_needed_units_reach_the_power_and_keep_it(kind, room):
    limit = CHANCE[kind] + room
    n = needed(kind, limit)
    assert certified(kind, n, n) <= limit
    assert (
        min(pass_power(kind, more, more, limit) for more in (n, int(1.1 * n), int(1.3 * n), 3 * n))
        >= 0.8
    )
    fewer = int(n / 1.03) - 1
    assert any(
        pass_power(kind, less, less, limit) < 0.8 or certified(kind, less, less) > limit
        for less in range(fewer - 3, fewer + 1)
    )
    assert needed(kind, limit, 0.95) >= n


def test_no_number_of_units_certifies_a_limit_without_room_for_chance():
    for kind in KINDS:
        assert needed(kind, CHANCE[kind]) is None
        assert needed(kind, CHANCE[kind] - 0.1) is None
        assert pass_power(kind, 500, 500, CHANCE[kind] - 0.1) <= 0.001
        assert certified(kind, MAX_UNITS, MAX_UNITS) > CHANCE[kind]


UNITS = st.integers(1, 3000)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), UNITS, UNITS, st.integers(1, 500))
def test_more_units_show_smaller_limits(kind, members, others, more):
    fewest = certified(kind, members, others)
    assert CHANCE[kind] < fewest
    # Under four units a side the bound of an AUC is another, exact one; under ten Satterthwaite's
    # degrees of freedom fall as the sides part (at 4 + 15 against 6 + 15).
    if kind != "auc" or min(members, others) >= 10:
        assert certified(kind, members + more, others) <= fewest + 1e-12
        # More others may resolve a lower rate of false alarms, which is another number.
        if kind != "low advantage" or lowest_resolved(others) == lowest_resolved(others + more):
            assert certified(kind, members, others + more) <= fewest + 1e-12


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), st.integers(1, 400), st.integers(1, 400), st.floats(0.01, 0.4))
def test_powers_are_chances_that_grow_with_the_limit(kind, members, others, room):
    less, more = (
        pass_power(kind, members, others, CHANCE[kind] + own) for own in (room, room + 0.05)
    )
    assert -1e-9 <= less <= more + 1e-6 <= 1 + 2e-6


def test_large_numbers_are_taken_together_without_changing_the_power():
    """By hand: the normal approximation, which a corpus of this size does not need corrected."""
    n = 20_000
    limit = 0.51
    error = math.sqrt(0.25 / (2 * n))
    expected = 2 * stats.norm.cdf((limit - 0.5) / error - 1.645) - 1  # on both sides of chance
    assert pass_power("balanced accuracy", n, n, limit) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("n", "effect", "accuracy", "area"), [(20, 0.65, 0.572, 0.472), (45, 0.7, 0.984, 0.943)]
)
def test_leaks_are_confirmed_as_often_as_the_benchmark_of_providers_says(n, effect, accuracy, area):
    assert (accuracy_power(n, effect), area_power(n, effect)) == pytest.approx(
        (accuracy, area), abs=5e-4
    )
    right = [
        balanced_accuracy(*(hits(rng, n, effect) for _ in "io"), rng)
        for rng in map(np.random.default_rng, range(N_RUNS))
    ]
    assert np.mean([found.p_above(0.5) <= 0.05 for found in right]) == pytest.approx(
        accuracy, abs=TOLERANCE
    )
    shift = math.sqrt(2) * stats.norm.ppf(effect)
    rng = np.random.default_rng(2)
    ranked = [auc_interval(rng.normal(shift, size=n), rng.normal(size=n)) for _ in range(N_RUNS)]
    assert np.mean([found.p_above(0.5) <= 0.05 for found in ranked]) == pytest.approx(
        area, abs=TOLERANCE
    )
    # On the logit scale the chance fell from 0.29 to 0.24 between 0.94 and 0.98 for few units.
    powers = [area_power(4, one / 100) for one in range(50, 100)]
    assert powers == sorted(powers)


@pytest.mark.parametrize(
    ("called", "problem"),
    [
        (lambda: certified("auc", 0, 5), "at least one unit"),
        (lambda: pass_power("difference", 5, 0, 0.1), "at least one unit"),
        (lambda: needed("difference", 0.1, 1.0), "a power lies"),
    ],
)
def test_what_makes_no_sense_is_refused(called, problem):
    with pytest.raises(ValueError, match=problem):
        called()
