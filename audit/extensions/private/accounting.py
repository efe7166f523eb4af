"""Accounting of privacy: noise from epsilon, and epsilon from noise (methods.md#dp-training).

The Poisson-sampled Gaussian mechanism under add/remove of one unit, composed numerically (Gopi et al. 2021), by Opacus.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version

from audit.cards import PrivacyCard
from audit.errors import UsageError
from audit.stats.dp_bounds import Guarantee, Point

ACCOUNTANT = "PRV"
EPSILON_ERROR = 0.01
"""The accountant's own error: every epsilon is its upper bound."""
DELTA_ERROR = 1e-3
"""The accountant's error in delta, relative."""
MAX_EPSILON = 200.0
"""Beyond it epsilons are not told from infinity (ours)."""
_MIN_NOISE, _MAX_NOISE = 0.05, 1e6
_TOLERANCE = 5e-3
"""Relative, by which a noise multiplier's epsilon may stay under what was asked for (ours)."""
_MAX_SECANTS = 12
_MOST_STEPS, _LEAST_DELTA = 10**4, 1e-12
"""Of what a card's numbers are held against (ours): memory grows with the root of the steps."""
CURVE_POINTS = 24
"""Points of a privacy curve beside the stated one, equally far apart in epsilon from 0 on (ours)."""
_CURVE_DELTA, _FINEST = 1e-6, 1e-3
"""The delta at which a curve ends, and the least error of its epsilons (ours)."""


def accountant_version() -> str:
    """The version of Opacus, whose accountant it is."""
    return version("opacus")


def default_delta(n_units: int) -> float:
    """1 / N^1.1: under 1/N, at which giving a random unit away whole would count as private."""
    return float(n_units**-1.1)


def check_delta(delta: float, n_units: int) -> None:
    """Refuse a delta that promises nothing.

    Raises:
        UsageError: it is not above 0 and at most 1/N.
    """
    if not 0 < delta <= 1 / n_units:
        raise UsageError(
            f"delta {delta:g} is not above 0 and at most 1/{n_units}: a mechanism that publishes one of the "
            f"{n_units} protected units whole would meet it",
            "leave --delta out: it is 1 / N^1.1 then",
        )


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that no noise can give.

    Raises:
        UsageError: it is not a number above 0.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon {epsilon:g}: only a number above 0 can be kept", "give 1 to 10")


def epsilon_of(noise_multiplier: float, delta: float, sample_rate: float, steps: int) -> float:
    """An upper bound of epsilon of `steps` steps with this noise.

    Args:
        noise_multiplier: sigma, at least 0; at 0 nothing is private.
        delta: in (0, 1).
        sample_rate: q, in (0, 1].
        steps: at least 0.

    Returns:
        Renyi's bound where it is less, as for the smallest epsilons, or where delta is too small for floating point;
        infinite where that is beyond `MAX_EPSILON`: there the numbers are not worth their memory.
    """
    return federated_epsilon(noise_multiplier, delta, sample_rate, 1.0, steps)


def noise_for(epsilon: float, delta: float, sample_rate: float, steps: int) -> float:
    """The least noise multiplier, nearly, at which `epsilon_of` is at most `epsilon`.

    Raises:
        UsageError: no noise gives it.
    """
    return _least_noise(epsilon, delta, sample_rate, 1.0, steps)


@lru_cache(maxsize=256)
def federated_epsilon(
    noise_multiplier: float, delta: float, provider_rate: float, client_rate: float, rounds: int
) -> float:
    """An upper bound of a provider's epsilon in a federated training, whoever else is with its client.

    Providers of one client share the coin of their client, so that the other ones can show that it took part: then a
    provider hides behind its own coin alone. A round loses nothing where the client is absent, and is a Gaussian
    sampled at `provider_rate` where it takes part: delta(epsilon) = sum_k P(k) delta_k(epsilon), k binomial (ours).

    Args:
        noise_multiplier: sigma of the noise of all clients together.
        delta: in (0, 1).
        provider_rate: in (0, 1].
        client_rate: in (0, 1].
        rounds: at least 0.

    Returns:
        See `epsilon_of`.
    """
    if rounds == 0:
        return 0.0
    if noise_multiplier < _MIN_NOISE:
        return math.inf
    from audit.extensions.private.privacy_loss import compose_rounds, renyi_epsilon

    error = delta * DELTA_ERROR
    with _no_warnings():
        bound = renyi_epsilon(noise_multiplier, delta, provider_rate, client_rate, rounds)
        if bound > MAX_EPSILON:
            return math.inf
        losses = compose_rounds(noise_multiplier, provider_rate, client_rate, rounds, EPSILON_ERROR, error)
        try:
            _, _, upper = losses.compute_epsilon(delta, error, EPSILON_ERROR)
        except (RuntimeError, ValueError):  # a delta that floating point cannot resolve
            return max(0.0, bound)
    return max(0.0, min(float(upper), bound))


def federated_noise_for(epsilon: float, delta: float, provider_rate: float, client_rate: float, rounds: int) -> float:
    """The least noise multiplier, nearly, at which `federated_epsilon` is at most `epsilon`.

    Raises:
        UsageError: no noise gives it.
    """
    return _least_noise(epsilon, delta, provider_rate, client_rate, rounds)


@lru_cache(maxsize=64)
def privacy_curve(
    noise_multiplier: float, delta: float, provider_rate: float, client_rate: float, rounds: int
) -> tuple[Point, ...]:
    """Compute upper bounds of the whole privacy curve of a training; for arguments see `federated_epsilon`.

    One composition gives all points. Its error in epsilon is a 500th of the curve's length, between `_FINEST` and
    `EPSILON_ERROR`; both errors are added (Gopi et al. 2021, theorem 5.5).

    Returns:
        Epsilons and their deltas, first that of `delta`; that one alone where nothing else is worth its memory.
    """
    epsilon = federated_epsilon(noise_multiplier, delta, provider_rate, client_rate, rounds)
    if rounds == 0 or rounds > _MOST_STEPS or math.isinf(epsilon):
        return ((epsilon, delta),)
    from audit.extensions.private.privacy_loss import compose_rounds, renyi_epsilon

    numbers, error = (noise_multiplier, provider_rate, client_rate, rounds), _CURVE_DELTA * DELTA_ERROR
    with _no_warnings():
        last = min(MAX_EPSILON, renyi_epsilon(noise_multiplier, _CURVE_DELTA, *numbers[1:]))
        shift = min(EPSILON_ERROR, max(_FINEST, last / 500))
        losses = compose_rounds(*numbers, shift, error)
        at = [last * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
        deltas = [float(losses.compute_delta_estimate(point - shift)) + error for point in at]
    return ((epsilon, delta), *((point, bound) for point, bound in zip(at, deltas, strict=True) if 0 <= bound < 1))


def card_curve(card: PrivacyCard) -> tuple[Point, ...]:
    """The privacy curve of the training that a card describes, without the point that the card states."""
    rate = min(1.0, card.sample_rate / card.client_rate)
    return privacy_curve(card.noise_multiplier, card.delta, rate, card.client_rate, card.steps)[1:]


def proving_noise(
    proves: Callable[[Guarantee], bool], delta: float, provider_rate: float, client_rate: float, rounds: int
) -> float:
    """The least noise multiplier, nearly, whose privacy curve proves what is asked.

    Args:
        proves: whether a guarantee does; a stronger one does where a weaker one does.
        delta: see `federated_epsilon`, as the next three.
        provider_rate: in (0, 1].
        client_rate: in (0, 1].
        rounds: at least 0.

    Raises:
        UsageError: no noise does.
    """

    def holds(sigma: float) -> bool:
        (epsilon, _), *others = privacy_curve(sigma, delta, provider_rate, client_rate, rounds)
        return proves(Guarantee(epsilon, delta, tuple(others)))

    return _bisect(holds, _TOLERANCE)


@lru_cache(maxsize=16)
def gives(card: PrivacyCard) -> bool:
    """Test whether the numbers of a card may give the epsilon that it states.

    The test is a coarse one, quick whatever the numbers are: epsilon is counted from below, at a larger delta where the
    card's is tiny, and of no more steps than `_MOST_STEPS`.

    Args:
        card: with an epsilon.
    """
    assert card.epsilon is not None
    rate, sigma = card.sample_rate / card.client_rate, card.noise_multiplier
    if rate > 1 + 1e-9 or not _MIN_NOISE <= sigma <= _MAX_NOISE:
        return False
    from audit.extensions.private.privacy_loss import compose_rounds, renyi_epsilon

    delta, rounds = max(card.delta, _LEAST_DELTA), min(card.steps, _MOST_STEPS)
    numbers, error = (sigma, min(1.0, rate), card.client_rate, rounds), max(0.1, card.epsilon / 20)
    with _no_warnings():
        bound = renyi_epsilon(sigma, delta, *numbers[1:])
        if bound <= card.epsilon or bound > MAX_EPSILON:
            return bound <= card.epsilon
        try:
            least = compose_rounds(*numbers, error, delta * DELTA_ERROR).compute_epsilon(
                delta, delta * DELTA_ERROR, error
            )[0]
        except (RuntimeError, ValueError):  # floating point cannot resolve it
            return True
    return bool(least <= card.epsilon)


def paper_epsilon(
    noise_multiplier: float, delta: float, provider_rate: float, client_rate: float, rounds: int
) -> float:
    """Epsilon as Tito et al. 2024 account for it, with a coin of `client_rate * provider_rate` for every provider.

    It is no bound where clients have several providers, see `federated_epsilon`.
    """
    return epsilon_of(noise_multiplier, delta, client_rate * provider_rate, rounds)


@lru_cache(maxsize=64)
def _least_noise(epsilon: float, delta: float, provider_rate: float, client_rate: float, rounds: int) -> float:
    """Find the noise by the method of secants on logarithms, from where Renyi's cheap bound has it."""
    from audit.extensions.private.privacy_loss import renyi_epsilon

    check_epsilon(epsilon)
    given = (delta, provider_rate, client_rate, rounds)
    with _no_warnings():
        kept = _bisect(lambda sigma: renyi_epsilon(sigma, *given) <= epsilon, 0.02)
    kept_epsilon = federated_epsilon(kept, *given)
    broken, slope = 0.0, -1.0
    for _ in range(_MAX_SECANTS):
        if kept_epsilon >= epsilon * (1 - _TOLERANCE):
            break
        # A little above the line's own point, which lies where the bound holds or just not.
        sigma = kept * (epsilon * (1 - _TOLERANCE / 2) / max(kept_epsilon, epsilon / 10)) ** (1 / slope)
        sigma = math.sqrt(kept * broken) if sigma <= broken else sigma
        found = federated_epsilon(sigma, *given)
        if math.isfinite(found) and found != kept_epsilon and kept_epsilon > 0:
            slope = min(-0.1, math.log(found / kept_epsilon) / math.log(sigma / kept))
        if found <= epsilon:
            kept, kept_epsilon = sigma, found
        else:
            broken = sigma
    return kept


def _bisect(holds: Callable[[float], bool], tolerance: float) -> float:
    """The least noise at which it holds, within a relative tolerance.

    Raises:
        UsageError: it holds nowhere.
    """
    low, high = _MIN_NOISE, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > _MAX_NOISE:
            raise UsageError("no noise gives so much privacy", "ask for less: a larger epsilon, or higher limits")
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence numpy on logarithms of 0, which the accountant means, and Opacus on the precision of rough bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
