"""What the planner promises, held against the intervals that audits draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.stats.advantage import balanced_accuracy, low_advantage, lowest_resolved
from audit.stats.power import CHANCE, DIFFERING, MAX_UNITS, certified, needed, pass_power, power
from audit.stats.rates import excess_rate, net
from audit.stats.roc import auc_interval

KINDS = tuple(CHANCE)
ALPHAS = (0.05, 0.01)
N_RUNS = 300
TOLERANCE = 0.08
"""About three standard errors of a share of 300 runs."""


def zeros(n):
    return np.zeros(n)


def hits(rng, n, rate):
    return (rng.random(n) < rate).astype(float)


def audited(kind, members, others, leak, rng):
    """The interval of one audit in which the metric is truly `leak` above chance."""
    if kind == "difference":
        sides = (hits(rng, members, DIFFERING + leak), zeros(members)), (hits(rng, others, DIFFERING), zeros(others))
        columns = [column for gained, lost in sides for column in (gained, lost, np.arange(gained.size))]
        return excess_rate(*columns, rng, alphas=ALPHAS)
    if kind == "paired difference":
        chance = rng.random(members)
        gained, lost = chance < DIFFERING / 2 + leak, chance > 1 - DIFFERING / 2
        return net(gained.astype(float), lost.astype(float), np.arange(members), rng, alphas=ALPHAS)
    if kind == "auc":
        shift = math.sqrt(2) * stats.norm.ppf(0.5 + leak)
        return auc_interval(rng.normal(shift, size=members), rng.normal(size=others), alphas=ALPHAS)
    if kind == "low advantage":
        scores, known = rng.normal(size=(2, max(members, others))), rng.random(members) < leak / 0.9
        return low_advantage(scores[0, :members] + 20 * known, scores[1, :others], alphas=ALPHAS).advantage
    return balanced_accuracy(hits(rng, members, 0.5 + leak), hits(rng, others, 0.5 + leak), rng, alphas=ALPHAS)


def simulated(kind, members, others, leak, seed):
    return [audited(kind, members, others, leak, np.random.default_rng((seed, run))) for run in range(N_RUNS)]


def test_the_numbers_of_methods_section_6():
    assert certified("paired difference", 72, 0) <= 0.05 < certified("paired difference", 71, 0)
    assert pass_power("difference", 150, 150, 0.05) == pytest.approx(0.96, abs=0.005)
    assert certified("balanced accuracy", 36, 36) == pytest.approx(0.5 + 0.12, abs=0.005)


@pytest.mark.parametrize(("members", "others"), [(40, 40), (150, 90), (60, 400)])
def test_the_smallest_limit_is_what_an_audit_without_a_leak_shows(members, others):
    rng = np.random.default_rng(0)
    side, other = (zeros(n) for n in (members, others))
    nothing = excess_rate(side, side, np.arange(members), other, other, np.arange(others), rng)
    assert certified("difference", members, others) == pytest.approx(nothing.high, abs=1e-12)
    paired = net(side, side, np.arange(members), rng)
    assert certified("paired difference", members, 0) == pytest.approx(paired.high, abs=1e-12)
    half = [np.arange(n) % 2 for n in (members, others)]
    assert certified("balanced accuracy", members, others) == pytest.approx(balanced_accuracy(*half, rng).high)
    even = [stats.norm.ppf((np.arange(n) + 0.5) / n) for n in (members, others)]
    assert certified("auc", members, others) == pytest.approx(auc_interval(*even).high, abs=0.003)


CASES = [
    ("difference", 150, 150, 0.05, 0.15),
    ("difference", 110, 300, 0.05, 0.12),
    ("paired difference", 100, 0, 0.05, 0.15),
    ("auc", 60, 60, 0.65, 0.75),
    ("auc", 30, 120, 0.65, 0.8),
    ("balanced accuracy", 80, 80, 0.6, 0.7),
    ("balanced accuracy", 35, 34, 0.65, 0.75),
    ("low advantage", 75, 75, 0.15, 0.35),
    ("low advantage", 150, 150, 0.15, 0.25),
    ("low advantage", 600, 200, 0.1, 0.2),
]


@pytest.mark.parametrize(("kind", "members", "others", "limit", "effect"), CASES)
def test_audits_pass_and_confirm_as_often_as_planned(kind, members, others, limit, effect):
    nothing = simulated(kind, members, others, 0.0, seed=1)
    # Areas count on both sides of chance.
    least = 1 - limit if CHANCE[kind] else -1.0
    assert np.mean([least <= found.low and found.high <= limit for found in nothing]) == pytest.approx(
        pass_power(kind, members, others, limit), abs=TOLERANCE
    )
    leaking = simulated(kind, members, others, effect - CHANCE[kind], seed=2)
    for place, alpha in enumerate(ALPHAS):
        confirmed = np.mean([found.bounds[place][1] > limit for found in leaking])
        assert confirmed == pytest.approx(power(kind, members, others, effect, limit, alpha=alpha), abs=TOLERANCE), (
            alpha
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_leak_that_does_not_exceed_the_limit_is_hardly_ever_confirmed(kind):
    limit = CHANCE[kind] + 0.1
    assert power(kind, 120, 120, limit, limit) <= 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [0.05, 0.1])
def test_the_needed_units_reach_the_power_and_keep_it(kind, room):
    limit = CHANCE[kind] + room
    n = needed(kind, limit)
    assert certified(kind, n, n) <= limit
    assert min(pass_power(kind, more, more, limit) for more in (n, int(1.1 * n), int(1.3 * n), 3 * n)) >= 0.8
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
    # Under four units a side the bound of an AUC is another, exact one; under ten Satterthwaite's degrees of freedom
    # fall as the sides part (at 4 + 15 against 6 + 15).
    if kind != "auc" or min(members, others) >= 10:
        assert certified(kind, members + more, others) <= fewest + 1e-12
        # More others may resolve a lower rate of false alarms, which is another number.
        if kind != "low advantage" or lowest_resolved(others) == lowest_resolved(others + more):
            assert certified(kind, members, others + more) <= fewest + 1e-12


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), st.integers(1, 400), st.integers(1, 400), st.floats(0.01, 0.4), st.floats(0, 0.45))
def test_powers_are_chances_that_grow_with_what_they_stand_for(kind, members, others, room, leak):
    limit, effect = CHANCE[kind] + room, CHANCE[kind] + leak
    passed = pass_power(kind, members, others, limit), pass_power(kind, members, others, limit + 0.05)
    found = power(kind, members, others, effect, limit), power(kind, members, others, effect + 0.04, limit)
    for less, more in (passed, found):
        assert -1e-9 <= less <= more + 1e-6 <= 1 + 2e-6
    assert power(kind, members, others, effect, limit, alpha=0.01) <= found[0] + 1e-9


@pytest.mark.parametrize("n", [4, 6, 10, 24])
def test_the_power_of_an_area_near_one_does_not_fall(n):
    # On the logit scale the chance fell from 0.29 to 0.24 between 0.94 and 0.98.
    found = [power("auc", n, n, effect / 100, 0.51) for effect in range(50, 100)]
    assert found == sorted(found)


def test_large_numbers_are_taken_together_without_changing_the_power():
    """By hand: the normal approximation, which a corpus of this size does not need corrected."""
    n, limit = 20_000, 0.51
    error = math.sqrt(0.25 / (2 * n))
    expected = 2 * stats.norm.cdf((limit - 0.5) / error - 1.96) - 1  # on both sides of chance
    assert pass_power("balanced accuracy", n, n, limit) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("called", "problem"),
    [
        (lambda: certified("auc", 0, 5), "at least one unit"),
        (lambda: pass_power("difference", 5, 0, 0.1), "at least one unit"),
        (lambda: power("auc", 5, 5, 0.4, 0.6), "the effect lies"),
        (lambda: power("difference", 5, 5, 1.0, 0.6), "the effect lies"),
        (lambda: power("difference", 5, 5, 0.1, 0.05, alpha=0.6), "the level"),
        (lambda: needed("difference", 0.1, 1.0), "a power lies"),
    ],
)
def test_what_makes_no_sense_is_refused(called, problem):
    with pytest.raises(ValueError, match=problem):
        called()
