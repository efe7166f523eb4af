"""Privacy losses of rounds whose participation is seen, composed with the parts of Opacus' accountant."""

from __future__ import annotations

from typing import Any

import numpy as np
from opacus.accountants.analysis.prv import (
    Domain,
    PoissonSubsampledGaussianPRV,
    TruncatedPrivacyRandomVariable,
    compose_heterogeneous,
    compute_safe_domain_size,
    discretize,
)
from opacus.accountants.analysis.rdp import get_privacy_spent

from audit.arrays import Floats

_ORDERS = (1.05, 1.1, 1.2, 1.5, *range(2, 64))
"""Of Renyi divergences: a bound that is only asked for its size."""


class SeenRoundLoss(PoissonSubsampledGaussianPRV):  # type: ignore[misc]  # Opacus has no types
    """The privacy loss of a round in which a client takes part with a probability, for all to see.

    Where the client is absent nothing is lost: its loss is a mass at 0, and the rest is a sampled Gaussian's.

    Args:
        sample_rate: of a unit, given that its client takes part.
        noise_multiplier: sigma.
        seen_rate: of the client.
    """

    def __init__(self, sample_rate: float, noise_multiplier: float, seen_rate: float) -> None:
        super().__init__(sample_rate, noise_multiplier)
        self.seen_rate = seen_rate

    def cdf(self, t: Any) -> Any:
        """The probability of a loss of at most `t`."""
        return self.seen_rate * super().cdf(t) + (1 - self.seen_rate) * (np.asarray(t) >= 0)

    def rdp(self, alpha: float) -> float:
        """The Renyi divergence of order `alpha`, above 1."""
        inner = (alpha - 1) * super().rdp(alpha)
        absent = np.log1p(-self.seen_rate) if self.seen_rate < 1 else -np.inf
        return float(np.logaddexp(absent, np.log(self.seen_rate) + inner) / (alpha - 1))


def compose_rounds(
    noise_multiplier: float,
    sample_rate: float,
    seen_rate: float,
    rounds: int,
    epsilon_error: float,
    delta_error: float,
) -> Any:
    """The loss of all rounds together, as `DiscretePRV` of Opacus; the steps are those of its `PRVAccountant`."""
    loss = SeenRoundLoss(sample_rate, noise_multiplier, seen_rate)
    size = compute_safe_domain_size(
        prvs=[loss], max_self_compositions=[rounds], eps_error=epsilon_error, delta_error=delta_error
    )
    mesh = epsilon_error / np.sqrt(rounds * np.log(12 / delta_error) / 2)
    domain = Domain.create_aligned(-size, size, mesh)
    truncated = TruncatedPrivacyRandomVariable(loss, domain.t_min, domain.t_max)
    return compose_heterogeneous(dprvs=[discretize(truncated, domain)], num_self_compositions=[rounds])


def renyi_epsilon(noise_multiplier: float, delta: float, sample_rate: float, seen_rate: float, rounds: int) -> float:
    """An upper bound of epsilon from Renyi divergences: quick, and up to some tenths above the composed one."""
    loss = SeenRoundLoss(sample_rate, noise_multiplier, seen_rate)
    divergences: Floats = rounds * np.array([loss.rdp(order) for order in _ORDERS])
    return float(get_privacy_spent(orders=_ORDERS, rdp=divergences, delta=delta)[0])
