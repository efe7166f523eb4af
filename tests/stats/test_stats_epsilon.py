"""The one-run bound on epsilon: published values, scipy, linear programming, and mechanisms whose epsilon is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, linprog
from scipy.special import expit, logit
from scipy.stats import binom, norm

from audit.stats.epsilon import epsilon_bound, lower_bound, needed_canaries
from audit.stats.intervals import clopper_pearson
from audit.stats.p_values import curve_p, guessing_p
from benchmarks.calibration.epsilon_calibration import deviation, gaussian_delta

DETERMINISTIC = settings(max_examples=60, deadline=None, derandomize=True)
COUNTS = st.integers(1, 80).flatmap(
    lambda m: st.integers(1, m).flatmap(
        lambda r: st.tuples(st.just(m), st.just(r), st.integers(0, r))
    )
)
"""Canaries, guesses, right guesses."""


def coins_of(rng, n):
    return rng.random(n) < 0.5


def randomised_response(rng, coins, epsilon):
    return (coins ^ (rng.random(coins.size) > expit(epsilon))).astype(float)


def test_the_values_printed_in_the_paper():
    # Steinke et al. 2023: appendix D, and section 7 (cut there, not rounded).
    assert lower_bound(1000, 100, 75, delta=1e-4) == pytest.approx(0.673, abs=5e-4)
    assert lower_bound(100_000, 1510, 1439, delta=1e-5) == pytest.approx(2.6755, abs=5e-4)


def test_the_cap_of_64_canaries_half_of_them_for_the_threshold():
    caps = [round(lower_bound(32, 32, 32, delta=delta), 2) for delta in (0, 1e-5, 1e-4, 1e-3)]
    assert caps == [2.32, 2.32, 2.31, 2.23]


@DETERMINISTIC
@given(COUNTS)
def test_at_delta_0_the_bound_is_the_logit_of_clopper_pearson(counts):
    m, r, v = counts
    share = clopper_pearson(v, r).bounds[2][1]  # at 0.05
    assert lower_bound(m, r, v) == pytest.approx(
        max(0.0, logit(share)) if share > 0 else 0.0, abs=1e-6
    )


@DETERMINISTIC
@given(COUNTS, st.sampled_from([0.0, 1e-6, 1e-4, 2e-3]))
def test_the_bound_rises_with_right_guesses_and_falls_with_delta_and_with_canaries_abstained_from(
    counts, delta
):
    m, r, v = counts
    low = lower_bound(m, r, v, delta=delta)
    if v < r:
        assert lower_bound(m, r, v + 1, delta=delta) >= low - 1e-7
    assert lower_bound(m, r, v, delta=2 * delta + 1e-6) <= low + 1e-7
    assert lower_bound(m + 10, r, v, delta=delta) <= low + 1e-7


@DETERMINISTIC
@given(COUNTS, st.floats(0, 4), st.sampled_from([0.0, 1e-5, 1e-3]))
def test_p_is_the_tail_plus_the_steepest_step_below_it(counts, epsilon, delta):
    m, r, v = counts
    masses = binom.pmf(np.arange(r + 1), r, expit(epsilon))
    steepest = max((masses[v - i : v].sum() / i for i in range(1, v + 1)), default=0.0)
    expected = min(1.0, masses[v:].sum() + 2 * m * delta * steepest)
    assert guessing_p(m, r, v, epsilon=epsilon, delta=delta) == pytest.approx(expected)
    assert curve_p(m, r, v, [(epsilon, delta), (600.0, 0.0)]) <= expected + 1e-9


def likeliest(n_canaries, rules, points):
    """The largest chance that any mechanism under a curve rejects: which rule holds may follow from what it gives.

    Variables are the probabilities of so many right guesses under each rule, and how far each
    exceeds, per canary, what a flipped coin allows: in sum no more than delta at any point, by
    linear programming.
    """
    sizes = [n_guesses + 1 for n_guesses, _ in rules]
    total = sum(sizes)
    excess = sum(sizes) - len(sizes)
    gain, loss = (np.zeros((excess, total)) for _ in range(2))
    row = first = 0
    for n_guesses, _ in rules:
        for right in range(1, n_guesses + 1):
            gain[row, first + right] = right / n_canaries
            loss[row, first + right - 1] = (n_guesses - right + 1) / n_canaries
            row += 1
        first += n_guesses + 1
    upper = np.hstack(
        [np.vstack([gain - math.exp(e) * loss for e, _ in points]), -np.eye(len(points) * excess)]
    )
    sums = np.hstack(
        [np.zeros((len(points), total)), np.kron(np.eye(len(points)), np.ones(excess))]
    )
    rejected = np.concatenate(
        [np.arange(n + 1) >= least for n, least in rules] + [np.zeros(len(points) * excess)]
    )
    limits = np.append(np.zeros(len(upper)), [delta for _, delta in points])
    equal = np.append(np.ones(total), np.zeros(len(points) * excess))[None]
    return -linprog(-rejected, np.vstack([upper, sums]), limits, equal, [1]).fun


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_mechanism_under_a_curve_rejects_it_more_often_than_it_may_even_where_it_chooses_the_number_of_guesses(
    epsilon,
):
    points = gaussian_points(epsilon)
    rules = []
    for n_guesses in (6, 12, 20, 30):
        p_values = [curve_p(30, n_guesses, right, points) for right in range(n_guesses + 1)]
        assert p_values == sorted(p_values, reverse=True)
        if p_values[-1] <= 0.05:
            rules.append((n_guesses, int(np.argmax(np.array(p_values) <= 0.05))))
            assert (
                0.6 * p_values[rules[-1][1]]
                < likeliest(30, rules[-1:], points)
                < p_values[rules[-1][1]] + 1e-6
            )
    assert len(rules) > 1
    assert likeliest(30, rules, points) < 0.05


def gaussian_points(epsilon, delta=1e-5):
    """Points of the curve of the Gaussian mechanism that gives this epsilon."""
    mu = brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 20)
    return [(float(one), gaussian_delta(one, mu)) for one in np.linspace(0, 1.2 * epsilon, 20)]


def test_a_curve_is_refuted_where_none_of_its_points_is():
    points = gaussian_points(4.0)
    assert (
        min(guessing_p(500, 250, 238, epsilon=epsilon, delta=delta) for epsilon, delta in points)
        > 0.25
    )
    assert curve_p(500, 250, 238, points) == pytest.approx(0.0195, abs=1e-3)


def test_the_true_curve_of_a_mechanism_is_refuted_as_rarely_as_a_test_may():
    refuted = 0
    points = gaussian_points(2.0)
    for seed in range(100):
        rng = np.random.default_rng([seed, 1])
        coins = coins_of(rng, 100)
        found = epsilon_bound(coins + rng.normal(0, deviation(2.0, 1e-5), 100), coins, rng)
        refuted += curve_p(found.n_evaluated, found.n_guesses, found.n_right, points) <= 0.05
    assert refuted <= 0.05 * 100 + 2.33 * (0.05 * 0.95 * 100) ** 0.5


@pytest.mark.parametrize("delta", [0.01, 0.05])
def test_p_covers_a_mechanism_that_gives_everything_away_with_probability_delta(delta):
    # All coins are told with probability delta (the worst that an (epsilon, delta)-private one may
    # do for each alone).
    m = 20
    epsilon = 0.5
    rng = np.random.default_rng(0)
    right = rng.binomial(m, expit(epsilon), 200_000)
    right[rng.random(right.size) < delta] = m
    for v in range(m + 1):
        assert np.mean(right >= v) <= guessing_p(m, m, v, epsilon=epsilon, delta=delta) + 0.003


def test_randomised_response_is_found_and_its_epsilon_rarely_passed():
    low = {epsilon: [] for epsilon in (2, 4)}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        coins = coins_of(rng, 1000)
        for epsilon, found in low.items():
            found.append(epsilon_bound(randomised_response(rng, coins, epsilon), coins, rng).low)
    for epsilon, found in low.items():
        assert np.mean(found) >= 0.8 * epsilon
        assert np.mean(np.array(found) > epsilon) <= 0.1


@pytest.mark.parametrize("values", [2, 5, 10**9])
def test_scores_that_know_nothing_show_nothing_more_often_than_they_may(values):
    # With two values the thresholds lie among equal scores.
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, values])
        coins = coins_of(rng, 100)
        alarms += epsilon_bound(rng.integers(0, values, 100), coins, rng).low > 0
    assert alarms <= 0.05 * 300 + 2.33 * (0.05 * 0.95 * 300) ** 0.5


def test_the_bound_on_a_gaussian_mechanism_does_not_pass_the_truth():
    mu = 1 / 1.0811618495
    delta = 1e-5
    assert gaussian_delta(4.0, mu) == pytest.approx(delta, rel=1e-4)
    low = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        coins = coins_of(rng, 1000)
        low.append(epsilon_bound(coins + rng.normal(0, 1 / mu, 1000), coins, rng, delta=delta).low)
    assert 0.8 < np.mean(low) < 4
    assert np.mean(np.array(low) > 4) <= 0.05


def test_a_few_remembered_canaries_are_guessed_and_the_rest_abstained_from():
    rng = np.random.default_rng(3)
    coins = coins_of(rng, 1000)
    remembered = coins & (rng.random(1000) < 0.2)
    found = epsilon_bound(rng.normal(size=1000) + 9 * remembered, coins, rng)
    assert found.low > 1
    assert 40 < found.n_guesses < 200
    assert found.n_right / found.n_guesses > 0.85


def test_the_counts_and_the_cap_are_stated():
    rng = np.random.default_rng(4)
    coins = coins_of(rng, 65)
    found = epsilon_bound(coins.astype(float), coins, rng)
    assert (found.n_canaries, found.n_evaluated, found.n_guesses, found.n_right) == (65, 33, 33, 33)
    assert found.low == found.cap == lower_bound(33, 33, 33)
    assert found.delta == 0


def test_scores_that_rank_excluded_canaries_higher_show_nothing():
    rng = np.random.default_rng(5)
    coins = coins_of(rng, 200)
    assert epsilon_bound(-coins.astype(float), coins, rng).low == 0


def test_only_the_order_of_scores_counts():
    coins = coins_of(np.random.default_rng(6), 300)
    scores = np.random.default_rng(7).normal(size=300) + 2 * coins
    found, stretched = (
        epsilon_bound(values, coins, np.random.default_rng(8), delta=1e-5)
        for values in (scores, np.exp(scores))
    )
    assert found == stretched


def test_the_number_of_guesses_is_fixed_before_the_evaluated_coins_and_scores_are_seen():
    rng = np.random.default_rng(9)
    n = 400
    seed = 10
    coins = coins_of(rng, n)
    scores = rng.normal(size=n) + coins
    second = np.random.default_rng(seed).permutation(n)[n // 2 :]
    known = epsilon_bound(scores, coins, np.random.default_rng(seed)).n_guesses
    for _ in range(20):
        coins[second] = coins_of(rng, second.size)
        scores[second] = rng.choice([0.0, 1.0, 2.0], second.size)
        assert epsilon_bound(scores, coins, np.random.default_rng(seed)).n_guesses == known


def test_too_few_canaries_show_nothing_and_the_number_that_would_is_told():
    needed = needed_canaries()
    assert needed == 9  # 4 for the threshold, 5 all right: 1 / 32.
    rng = np.random.default_rng(0)
    coins = np.array([True, False] * 5)
    assert epsilon_bound(np.arange(8.0), coins[:8], rng) is None
    assert epsilon_bound(np.arange(9.0), coins[:9], rng) is not None
    assert epsilon_bound([], np.zeros(0, bool), rng) is None
    with pytest.raises(ValueError, match="no number of canaries"):
        needed_canaries(delta=0.02)


def test_an_exact_half_is_possible_and_what_no_fair_coins_give_is_refused():
    rng = np.random.default_rng(0)
    coins = np.array([True, False] * 32)
    assert epsilon_bound(np.arange(64.0), coins, rng) is not None
    with pytest.raises(ValueError, match="63 of 64 canaries"):
        epsilon_bound(np.arange(64.0), np.arange(64) > 0, rng)


@pytest.mark.parametrize(
    ("scores", "coins", "options", "message"),
    [
        (np.zeros(20), np.zeros(19, bool), {}, "one score and one coin"),
        (np.zeros(20), np.zeros(20, int), {}, "one score and one coin"),
        (np.zeros((20, 1)), np.zeros((20, 1), bool), {}, "one score and one coin"),
        ([math.nan] * 20, np.zeros(20, bool), {}, "not a number"),
        (np.zeros(20), np.zeros(20, bool), {"delta": 1.1}, "delta"),
        (np.zeros(20), np.zeros(20, bool), {"delta": -1e-5}, "delta"),
    ],
)
def test_what_cannot_be_bounded_is_refused(scores, coins, options, message):
    with pytest.raises(ValueError, match=message):
        epsilon_bound(scores, coins, np.random.default_rng(0), **options)


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (10, 0, 0), (10, 5, -1)])
def test_counts_that_contradict_each_other_are_refused(counts):
    with pytest.raises(ValueError, match="among"):
        lower_bound(*counts)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 1.0), (0.5, 0.3), (2.0, 1.0), (4.0, 3.0)])
def test_the_gaussian_delta_is_the_mass_that_one_density_has_above_the_other(epsilon, mu):
    mass, _ = quad(
        lambda x: max(0.0, norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x)), -12, 15, limit=400
    )
    assert gaussian_delta(epsilon, mu) == pytest.approx(mass, abs=1e-7)
