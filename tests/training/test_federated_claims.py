"""What a federated training may claim: a coin that providers share does not amplify (docs/countermeasures.md)."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.stats.dp_accounting import epsilon_of
from benchmarks.calibration.epsilon_calibration import gaussian_delta


def hockey_stick(p, q, epsilon, cell):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_clients_coin_does_not_amplify_where_its_other_providers_show_that_it_took_part(epsilon):
    """One round, client rate 0.2, every provider of a client drawn, sigma 1.

    The client's other providers push along the second axis, far beyond the noise: the sum tells in
    which rounds the client took part, and there the provider is protected by noise alone.
    """
    rate = 0.2
    far = 30.0
    x = np.arange(-8, 9, 0.02)
    y = np.arange(-8, far + 8, 0.1)
    absent = np.outer(norm.pdf(x), norm.pdf(y))
    without = (1 - rate) * absent + rate * np.outer(norm.pdf(x), norm.pdf(y - far))
    with_it = (1 - rate) * absent + rate * np.outer(norm.pdf(x - 1), norm.pdf(y - far))
    true = hockey_stick(with_it, without, epsilon, 0.02 * 0.1)
    assert true == pytest.approx(rate * gaussian_delta(epsilon, 1.0), rel=1e-3)

    alone = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - 1)
    poisson = max(
        hockey_stick(alone, norm.pdf(x), epsilon, 0.02),
        hockey_stick(norm.pdf(x), alone, epsilon, 0.02),
    )
    assert true > 3 * poisson


@pytest.mark.parametrize(
    ("noise", "paper", "proved"), [(0.771, 8.0, 14.5), (1.136, 4.0, 8.6), (2.847, 1.0, 2.8)]
)
def test_what_the_papers_noise_proves(noise, paper, proved):
    """The table in docs/countermeasures.md."""
    assert epsilon_of(noise, 1e-5, 0.2, 10) == pytest.approx(paper, abs=0.05)
    assert epsilon_of(noise, 1e-5, 1.0, 10, 0.2) == pytest.approx(proved, abs=0.05)
