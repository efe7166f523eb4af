"""Account for the privacy of a training with Opacus' numerical accountant (methods/dp-training.md).

The mechanism is the Poisson-sampled Gaussian under add/remove of one unit (Gopi et al. 2021). In a
federated training the providers of one client share the coin of their client, so that the other
ones can show that it took part: then a provider hides behind its own coin alone. A round loses
nothing where the client is absent, and is a Gaussian sampled at the provider's rate where it takes
part: delta(epsilon) = sum_k P(k) delta_k(epsilon), k binomial.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from opacus.accountants.analysis import prv
from opacus.accountants.analysis.rdp import get_privacy_spent

from audit.arrays import Floats
from audit.stats.dp_bounds import Point

EPSILON_ERROR = 0.01
DELTA_ERROR = 1e-3
"""The accountant's own errors in epsilon (every epsilon is its upper bound) and, relative, in
delta."""
MAX_EPSILON = 200.0
"""Epsilon beyond which an epsilon is infinite."""
MIN_NOISE = 0.05
MAX_NOISE = 1e6
"""Noise multipliers that are accounted for."""
CURVE_POINTS = 24
"""Points of a privacy curve beside the stated one, equally far apart in epsilon from 0 on."""
_MOST_STEPS = 10**4
_LEAST_DELTA = 1e-12
"""Bounds of what is composed for a curve or a check: memory grows with the root of the steps."""
_CURVE_DELTA = 1e-6
_FINEST = 1e-3
"""The delta at which a curve ends, and the least error of its epsilons."""
_ORDERS = (1.05, 1.1, 1.2, 1.5, *range(2, 64))
"""Orders of Renyi divergences: the bound is only asked for its size."""


@lru_cache(maxsize=256)
def epsilon_of(
    noise: float, delta: float, sample_rate: float, steps: int, client_rate: float = 1.0
) -> float:
    """Compute an upper bound of epsilon.

    Args:
        noise: sigma of the noise of a step's sum, at least 0; at 0 nothing is private.
        delta: delta in (0, 1).
        sample_rate: q, in (0, 1], of a unit whose client takes part.
        steps: steps, at least 0.
        client_rate: rate of clients in (0, 1]; 1 for a central training.

    Returns:
        Renyi's bound where it is less, as for the smallest epsilons, or where delta is too small
        for floating point; infinite beyond `MAX_EPSILON`.
    """
    if steps == 0:
        return 0.0
    if noise < MIN_NOISE:
        return math.inf
    numbers = (noise, sample_rate, client_rate, steps)
    error = delta * DELTA_ERROR
    with _no_warnings():
        bound = renyi_epsilon(noise, delta, sample_rate, steps, client_rate)
        if bound > MAX_EPSILON:
            return math.inf
        try:
            _, _, upper = _compose(*numbers, EPSILON_ERROR, error).compute_epsilon(
                delta, error, EPSILON_ERROR
            )
        except (RuntimeError, ValueError):  # a delta that floating point cannot resolve
            return max(0.0, bound)
    return max(0.0, min(float(upper), bound))


@lru_cache(maxsize=64)
def privacy_curve(
    noise: float, delta: float, sample_rate: float, steps: int, client_rate: float = 1.0
) -> tuple[Point, ...]:
    """Compute upper bounds of the whole privacy curve of a training.

    For arguments see `epsilon_of`.

    One composition gives all points. Its error in epsilon is a 500th of the curve's length, between
    `_FINEST` and `EPSILON_ERROR`; both errors are added (Gopi et al. 2021, theorem 5.5).

    Returns:
        Epsilons and their deltas, first that of `delta`; that one alone where nothing else is worth
        its memory.
    """
    epsilon = epsilon_of(noise, delta, sample_rate, steps, client_rate)
    if steps == 0 or steps > _MOST_STEPS or math.isinf(epsilon):
        return ((epsilon, delta),)
    error = _CURVE_DELTA * DELTA_ERROR
    with _no_warnings():
        last = min(MAX_EPSILON, renyi_epsilon(noise, _CURVE_DELTA, sample_rate, steps, client_rate))
        shift = min(EPSILON_ERROR, max(_FINEST, last / 500))
        losses = _compose(noise, sample_rate, client_rate, steps, shift, error)
        at = [last * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
        deltas = [float(losses.compute_delta_estimate(point - shift)) + error for point in at]
    return (
        (epsilon, delta),
        *((point, bound) for point, bound in zip(at, deltas, strict=True) if 0 <= bound < 1),
    )


@lru_cache(maxsize=16)
def may_give(
    epsilon: float,
    noise: float,
    delta: float,
    sample_rate: float,
    steps: int,
    client_rate: float = 1.0,
) -> bool:
    """Test whether the numbers of a training may give an epsilon that somebody states.

    The test is a coarse one, quick whatever the numbers are: epsilon is counted from below, at a
    larger delta where it is tiny, and of no more steps than `_MOST_STEPS`. For arguments see
    `epsilon_of`.
    """
    if not MIN_NOISE <= noise <= MAX_NOISE:
        return False
    delta = max(delta, _LEAST_DELTA)
    steps = min(steps, _MOST_STEPS)
    error = max(0.1, epsilon / 20)
    with _no_warnings():
        bound = renyi_epsilon(noise, delta, sample_rate, steps, client_rate)
        if bound <= epsilon or bound > MAX_EPSILON:
            return bound <= epsilon
        try:
            losses = _compose(noise, sample_rate, client_rate, steps, error, delta * DELTA_ERROR)
            return bool(losses.compute_epsilon(delta, delta * DELTA_ERROR, error)[0] <= epsilon)
        except (RuntimeError, ValueError):  # floating point cannot resolve it
            return True


def renyi_epsilon(
    noise: float, delta: float, sample_rate: float, steps: int, client_rate: float = 1.0
) -> float:
    """Bound epsilon by Renyi divergences: quick, and up to some tenths above `epsilon_of`."""
    with _no_warnings():
        divergences: Floats = steps * np.array(_divergences(noise, sample_rate, client_rate))
        return float(get_privacy_spent(orders=_ORDERS, rdp=divergences, delta=delta)[0])


@lru_cache(maxsize=256)
def _divergences(noise: float, sample_rate: float, client_rate: float) -> tuple[float, ...]:
    """Compute the Renyi divergences of one step, by order."""
    loss = _StepLoss(sample_rate, noise, client_rate)
    return tuple(loss.rdp(order) for order in _ORDERS)


class _StepLoss(prv.PoissonSubsampledGaussianPRV):  # type: ignore[misc]  # Opacus has no types
    """The privacy loss of a step in which a client takes part with a probability, for all to see.

    Where the client is absent nothing is lost: its loss is a mass at 0, and the rest is a sampled
    Gaussian's.
    """

    def __init__(self, sample_rate: float, noise: float, client_rate: float) -> None:
        """Describe the privacy loss of a step, in which each client joins at `client_rate`."""
        super().__init__(sample_rate, noise)
        self.client_rate = client_rate

    def cdf(self, t: Any) -> Any:
        """Compute the probability of a loss of at most `t`."""
        return self.client_rate * super().cdf(t) + (1 - self.client_rate) * (np.asarray(t) >= 0)

    def rdp(self, alpha: float) -> float:
        """Compute the Renyi divergence of order `alpha`, above 1."""
        inner = (alpha - 1) * super().rdp(alpha)
        absent = np.log1p(-self.client_rate) if self.client_rate < 1 else -np.inf
        return float(np.logaddexp(absent, np.log(self.client_rate) + inner) / (alpha - 1))


def _compose(
    noise: float, sample_rate: float, client_rate: float, steps: int, shift: float, error: float
) -> Any:
    """Compose the loss of all steps into Opacus' `DiscretePRV`, as its `PRVAccountant` does.

    Its domain follows from Renyi bounds (Gopi et al. 2021, remark 5.6), here of `_ORDERS`: Opacus'
    own function takes twice 151 orders, most of the time of an epsilon.
    """
    loss = _StepLoss(sample_rate, noise, client_rate)
    without_clients = renyi_epsilon(noise, error / 4, sample_rate, steps)
    single = renyi_epsilon(noise, error / (8 * steps), sample_rate, 1)
    size = max(without_clients, single, shift) + 3
    domain = prv.Domain.create_aligned(-size, size, shift / np.sqrt(steps * np.log(12 / error) / 2))
    truncated = prv.TruncatedPrivacyRandomVariable(loss, domain.t_min, domain.t_max)
    return prv.compose_heterogeneous(
        dprvs=[prv.discretize(truncated, domain)], num_self_compositions=[steps]
    )


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence numpy and Opacus within the block.

    The accountant means logarithms of 0, and the precision of rough bounds does not matter.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
