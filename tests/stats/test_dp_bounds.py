"""Bounds that a guarantee proves: attained by the worst mechanism, exceeded by none, monotone, right at the ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, tpr
from audit.stats.p_values import guessing_p
from benchmarks.calibration.epsilon_calibration import gaussian_delta

EPSILONS = st.floats(0, 12)
DELTAS = st.floats(0, 0.2)
RATES = st.floats(0, 1)
BOUNDS = {
    "tpr": lambda promised, rate: tpr(promised, rate),
    "advantage": lambda promised, rate: advantage(promised, rate),
    "balanced accuracy": lambda promised, _: balanced_accuracy(promised),
    "auc": lambda promised, _: auc(promised),
}


def worst_mechanism(promised):
    """Outputs of a unit that is in, and out: delta tells the truth, else randomised response."""
    odds = math.exp(promised.epsilon)
    honest = 1 - promised.delta
    inside = np.array([promised.delta, honest * odds / (1 + odds), honest / (1 + odds), 0])
    return inside, inside[::-1]


def ranked_by_likelihood(inside, outside):
    """The ROC curve of the best attack on a discrete mechanism: false and true positive rates, from (0, 0)."""
    order = np.argsort(-inside / np.maximum(outside, 1e-300), kind="stable")
    return np.append(0, np.cumsum(outside[order])), np.append(0, np.cumsum(inside[order]))


@given(EPSILONS, DELTAS)
def test_a_leak_of_delta_beside_randomised_response_attains_every_bound(epsilon, delta):
    promised = Guarantee(epsilon, delta)
    false, true = ranked_by_likelihood(*worst_mechanism(promised))
    assert auc(promised) == pytest.approx(np.trapezoid(true, false), abs=1e-9)
    assert balanced_accuracy(promised) == pytest.approx(max((true + 1 - false) / 2), abs=1e-9)
    assert advantage(promised) == pytest.approx(max(true - false), abs=1e-9)
    for rate in (0.001, 0.1, 0.5, 0.9):
        assert tpr(promised, rate) == pytest.approx(np.interp(rate, false, true), abs=1e-9)


def test_the_curve_is_the_best_of_all_mechanisms_found_by_linear_programming():
    promised = Guarantee(0.7, 0.05)
    rate = 0.15
    n = 4
    odds = math.exp(promised.epsilon)
    # P and Q on n outputs, the slacks of P - e^eps Q and of Q - e^eps P; output 0 is the one that
    # accuses.
    identity = np.eye(n)
    zero = np.zeros((n, n))
    upper = np.block(
        [
            [identity, -odds * identity, -identity, zero],
            [-odds * identity, identity, zero, -identity],
        ]
    )
    sums = np.kron(np.eye(4), np.ones(n))
    accused = np.zeros((1, 4 * n))
    accused[0, n] = 1
    most = {
        "A_ub": np.vstack([upper, sums[2:]]),
        "b_ub": np.append(np.zeros(2 * n), [promised.delta] * 2),
    }
    best = linprog(
        -np.eye(4 * n)[0], **most, A_eq=np.vstack([sums[:2], accused]), b_eq=[1, 1, rate]
    )
    assert tpr(promised, rate) == pytest.approx(-best.fun, abs=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_gaussian_mechanism_stays_below(mu, epsilon):
    promised = Guarantee(epsilon, gaussian_delta(epsilon, mu))
    rates = np.linspace(0.001, 0.999, 200)
    reached = ndtr(ndtri(rates) + mu)
    assert all(reached <= [tpr(promised, rate) + 1e-12 for rate in rates])
    assert ndtr(mu / math.sqrt(2)) < auc(promised)
    assert ndtr(mu / 2) <= balanced_accuracy(promised)
    assert 2 * ndtr(mu / 2) - 1 <= advantage(promised)


@given(EPSILONS, DELTAS, EPSILONS, DELTAS, RATES)
def test_bounds_rise_with_epsilon_and_with_delta(epsilon, delta, more, further, rate):
    weaker = Guarantee(epsilon + more, min(1, delta + further))
    for bound in BOUNDS.values():
        assert bound(Guarantee(epsilon, delta), rate) <= bound(weaker, rate) + 1e-9


@given(EPSILONS, DELTAS, RATES)
def test_bounds_are_those_of_shares(epsilon, delta, rate):
    promised = Guarantee(epsilon, delta)
    assert rate - 1e-12 <= tpr(promised, rate) <= 1
    assert 0.5 <= balanced_accuracy(promised) <= 1
    assert balanced_accuracy(promised) == pytest.approx((1 + advantage(promised)) / 2)
    assert 0.5 <= auc(promised) <= 1 + 1e-12
    corners = sorted({(1 - delta) / (1 + math.exp(epsilon)), 1 - delta})
    assert auc(promised) == pytest.approx(
        quad(lambda x: tpr(promised, x), 0, 1, points=corners)[0], abs=1e-7
    )


def test_no_epsilon_leaves_delta_alone_and_nothing_promises_nothing():
    assert balanced_accuracy(Guarantee(0, 0.1)) == pytest.approx(0.55)
    assert (advantage(Guarantee(0, 0.1)), tpr(Guarantee(0, 0), 0.3)) == (
        pytest.approx(0.1),
        pytest.approx(0.3),
    )
    assert auc(Guarantee(0, 0)) == pytest.approx(0.5)
    for vacuous in (Guarantee(0, 1), Guarantee(1e9, 0)):
        assert balanced_accuracy(vacuous) == auc(vacuous) == tpr(vacuous, 0.01) == pytest.approx(1)


def test_a_known_answer_at_epsilon_one():
    promised = Guarantee(1, 1e-5)
    assert auc(promised) == pytest.approx(0.731063, abs=1e-5)
    assert balanced_accuracy(promised) == pytest.approx(0.731061, abs=1e-6)
    assert tpr(promised, 0.01) == pytest.approx(0.01 * math.e + 1e-5)


def test_an_area_over_pairs_of_one_run_exceeds_it_by_half_of_one_over_m_at_most():
    """One of two documents, drawn by lot: noise on their difference has sensitivity 1 and tells more than the curve."""
    promised = Guarantee(1, 0)
    noisy = np.random.default_rng(0).laplace(0, 1 / promised.epsilon, 200_000)
    right = np.mean(1 + noisy > 0)
    assert right == pytest.approx(tpr(promised, 0.5), abs=0.005)
    assert auc(promised) < right < auc(promised) + 1 / 2


@given(st.floats(0.01, 4), st.floats(1e-7, 0.01), st.integers(2, 30))
def test_a_group_is_promised_what_its_steps_add_up_to(epsilon, delta, size):
    one = Guarantee(epsilon, delta)
    step = 1.0
    summed = 0.0
    for _ in range(size):
        summed = summed + step * delta
        step = step * math.exp(epsilon)
    group = one.of_group(size)
    assert (group.epsilon, group.delta) == (
        pytest.approx(size * epsilon),
        pytest.approx(min(1, summed)),
    )
    assert one.of_group(1) == one


def test_a_group_without_epsilon_or_delta():
    assert Guarantee(0, 0.01).of_group(3) == Guarantee(0, 0.03)
    assert (Guarantee(2, 0).of_group(3), Guarantee(8, 1e-5).of_group(1_000).delta) == (
        Guarantee(6, 0),
        1,
    )
    with pytest.raises(ValueError, match="one unit"):
        Guarantee(1, 0).of_group(0)
    for epsilon, delta in ((-1, 0), (1, 1.1), (math.nan, 0)):
        with pytest.raises(ValueError, match="must not be negative"):
            Guarantee(epsilon, delta)


@given(st.integers(1, 300), st.data())
def test_right_guesses_are_as_likely_as_the_binomial_says(n, data):
    right = data.draw(st.integers(0, n))
    epsilon = data.draw(st.floats(0, 30))
    expected = binom.sf(right - 1, n, 1 / (1 + math.exp(-epsilon)))
    assert guessing_p(n, n, right, epsilon=epsilon, delta=0) == pytest.approx(
        expected, rel=1e-8, abs=1e-300
    )


def gaussian_curve(mu):
    """The points of a Gaussian mechanism to a delta of 1e-6, with nothing added for an accountant's error."""
    epsilons = np.linspace(0, mu * (4.75 + mu / 2), 24)
    points = [(float(epsilon), float(gaussian_delta(epsilon, mu))) for epsilon in epsilons]
    return Guarantee(*points[-1], tuple(points[:-1]))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_a_whole_curve_comes_close_to_the_gaussian_mechanism_and_never_under_it(mu):
    """Its trade-off function is known: TPR = Phi(Phi^-1(FPR) + mu) (Dong, Roth, Su 2022)."""
    promised = gaussian_curve(mu)
    rates = np.linspace(0.001, 0.999, 200)
    gaps = np.array([tpr(promised, rate) for rate in rates]) - ndtr(ndtri(rates) + mu)
    assert gaps.min() >= -1e-12
    assert gaps.max() < 0.006
    assert 0 <= auc(promised) - ndtr(mu / math.sqrt(2)) < 0.003
    assert 0 <= balanced_accuracy(promised) - ndtr(mu / 2) < 1e-9
    assert auc(promised) < min(auc(Guarantee(*point)) for point in promised.points) - 0.005


@given(st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=6), st.integers(1, 4))
def test_bounds_of_several_points_are_those_of_their_least_curve(points, group):
    promised = Guarantee(*points[0], tuple(points[1:])).of_group(group)
    rates = np.concatenate([np.linspace(0, 1, 4001), np.geomspace(1e-9, 1, 2001)])
    rates.sort()
    each = [Guarantee(*point).of_group(group) for point in points]
    least = np.min([[tpr(one, rate) for rate in rates] for one in each], axis=0)
    assert [tpr(promised, rate) for rate in rates[::50]] == pytest.approx(least[::50])
    assert auc(promised) == pytest.approx(np.trapezoid(least, rates), abs=1e-3)
    assert advantage(promised) == pytest.approx(np.max(least - rates), abs=1e-3)
