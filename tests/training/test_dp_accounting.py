"""The accountant: known values, agreement with another library, and refusals."""

import math
from functools import cache

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from opacus.accountants import RDPAccountant
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from audit.errors import UsageError
from audit.extensions.private.options import check_delta, default_delta, noise_for, proving_noise
from audit.stats.dp_accounting import CURVE_POINTS, epsilon_of, privacy_curve, renyi_epsilon
from audit.stats.dp_bounds import Guarantee, auc, tpr

CENTRAL = 1000 / 4149


@cache
def losses(sigma: float, rate: float, steps: int):
    """The same mechanism by Google's accountant."""
    return pld.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=1e-3
    ).self_compose(steps)


def test_one_gaussian_has_its_known_epsilon() -> None:
    assert epsilon_of(1.0, 1e-5, 1.0, 1) == pytest.approx(4.3874, abs=1e-3)
    assert losses(1.0, 1.0, 1).get_epsilon_for_delta(1e-5) == pytest.approx(4.3772, abs=1e-3)
    renyi = RDPAccountant()
    renyi.history = [(1.0, 1.0, 1)]
    assert renyi.get_epsilon(1e-5) == pytest.approx(4.7285, abs=1e-3)
    assert renyi_epsilon(1.0, 1e-5, 1.0, 1) == pytest.approx(4.7285, rel=0.02)  # of fewer orders


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.832, 8), (1.251, 4), (3.307, 1)])
def test_noise_of_the_paper_s_central_training(sigma: float, epsilon: float) -> None:
    assert epsilon_of(sigma, 1e-5, CENTRAL, 10) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.771, 8), (1.136, 4), (2.847, 1)])
def test_noise_of_the_paper_s_federated_training_by_its_accounting(
    sigma: float, epsilon: float
) -> None:
    assert epsilon_of(sigma, 1e-5, 0.2, 10) == pytest.approx(epsilon, rel=2e-3)
    assert epsilon_of(sigma, 1e-5, 1.0, 10, 0.2) > 1.5 * epsilon  # what is proved


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(0.8, 0.2, 20, 1e-3), (2.0, 0.5, 60, 1e-4), (5, 1.0, 9, 1e-5)],
)
def test_another_accountant_agrees(sigma: float, rate: float, steps: int, delta: float) -> None:
    other = losses(sigma, rate, steps).get_epsilon_for_delta(delta)
    assert other <= epsilon_of(sigma, delta, rate, steps) <= 1.02 * other + 0.01


def test_a_federated_delta_is_the_mean_over_rounds_with_the_client() -> None:
    epsilon = epsilon_of(1.0, 1e-5, 0.5, 10, 0.2)

    def mean(at: float) -> float:
        return sum(
            binom.pmf(k, 10, 0.2) * losses(1.0, 0.5, k).get_delta_for_epsilon(at)
            for k in range(1, 11)
        )

    assert mean(epsilon) <= 1e-5 <= mean(0.98 * epsilon - 0.01)


def test_a_client_that_nearly_always_takes_part_changes_nearly_nothing() -> None:
    assert epsilon_of(1.0, 1e-5, 0.3, 10, 1 - 1e-9) == pytest.approx(
        epsilon_of(1.0, 1e-5, 0.3, 10), rel=1e-3
    )


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_noise_is_the_least_that_keeps_epsilon(epsilon: float) -> None:
    sigma = noise_for(epsilon, 1e-3, 0.25, 30)
    assert epsilon_of(sigma, 1e-3, 0.25, 30) <= epsilon < epsilon_of(0.98 * sigma, 1e-3, 0.25, 30)


def test_federated_noise_keeps_epsilon() -> None:
    sigma = noise_for(8.0, 1e-5, 0.5, 10, 0.2)
    assert epsilon_of(sigma, 1e-5, 0.5, 10, 0.2) <= 8.0
    assert sigma >= noise_for(8.0, 1e-5, 0.1, 10)


def test_what_gives_everything_away_has_no_epsilon() -> None:
    assert (epsilon_of(0.0, 1e-5, 0.5, 10), epsilon_of(0.06, 1e-5, 0.5, 1000)) == (
        math.inf,
        math.inf,
    )
    assert epsilon_of(0.0, 1e-5, 0.5, 0) == 0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_nothing_keeps_is_refused(epsilon: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        noise_for(epsilon, 1e-5, 0.5, 10)


def test_delta_is_at_most_one_over_the_units() -> None:
    assert 0 < default_delta(100) < 1 / 100
    check_delta(default_delta(2), 2)
    check_delta(0.01, 100)
    for delta in (0.0, -1.0, 0.011, math.nan):
        with pytest.raises(UsageError, match="1/100"):
            check_delta(delta, 100)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-2), (8.0, 1e-20), (8.0, 1e-40)])
def test_the_accounted_epsilon_is_never_more_than_what_was_asked_for(
    epsilon: float, delta: float
) -> None:
    sigma = noise_for(epsilon, delta, 0.25, 20)
    assert 0 < epsilon_of(sigma, delta, 0.25, 20) <= epsilon


def test_epsilon_is_never_under_zero() -> None:
    assert epsilon_of(1.158, 0.227, 0.0318, 8) == 0


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [
        (1.0, 1.0, 1, 2e-3),
        (0.8, 0.2, 20, 1e-3),
        (1.0, 0.2, 50, 2e-3),
        (2.0, 0.5, 60, 1e-4),
        (20.0, 0.5, 40, 1e-3),
    ],
)
def test_another_accountant_agrees_on_the_whole_curve(
    sigma: float, rate: float, steps: int, delta: float
) -> None:
    first, *others = privacy_curve(sigma, delta, rate, steps)
    assert (first, len(others)) == ((epsilon_of(sigma, delta, rate, steps), delta), CURVE_POINTS)
    assert others[0][0] == 0.0
    assert others[-1][1] < 2e-6
    for epsilon, bound in others:
        other = losses(sigma, rate, steps).get_delta_for_epsilon(epsilon)
        # Theirs is an upper bound too, of an interval of 0.001 a step.
        assert other * 0.97 - 1e-7 <= bound <= 1.03 * other + 0.006


def test_a_federated_curve_is_the_mean_over_rounds_with_the_client() -> None:
    for epsilon, bound in privacy_curve(1.0, 1e-3, 0.5, 10, 0.2)[1::4]:
        other = sum(
            binom.pmf(k, 10, 0.2) * losses(1.0, 0.5, k).get_delta_for_epsilon(epsilon)
            for k in range(1, 11)
        )
        assert other * 0.97 - 1e-7 <= bound <= 1.03 * other + 0.006


def test_one_gaussian_s_bounds_are_nearly_its_own() -> None:
    for mu in (0.3, 0.545, 1.0, 2.0):
        first, *others = privacy_curve(1 / mu, 1e-3, 1.0, 1)
        promised = Guarantee(*first, tuple(others))
        assert ndtr(mu / math.sqrt(2)) <= auc(promised) <= ndtr(mu / math.sqrt(2)) + 0.003
        for rate in (0.001, 0.01, 0.1, 0.5):
            true = ndtr(ndtri(rate) + mu)
            assert true <= tpr(promised, rate) <= true + 0.012


def test_noise_that_proves_an_area_is_the_least() -> None:
    found = proving_noise(lambda promised: auc(promised) <= 0.65, 1e-3, 1.0, 1)
    least = 1 / (math.sqrt(2) * ndtri(0.65))
    assert least <= found <= 1.015 * least


def test_a_training_without_a_curve_has_its_one_point() -> None:
    assert privacy_curve(0.0, 1e-3, 0.5, 10) == ((math.inf, 1e-3),)
    assert privacy_curve(1.0, 1e-3, 0.5, 0) == ((0.0, 1e-3),)
    ((epsilon, delta),) = privacy_curve(50.0, 1e-5, 0.001, 20_000)
    assert 0 < epsilon < 1
    assert delta == 1e-5
