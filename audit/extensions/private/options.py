"""The settings of a private training.

What the owner chooses, and rules for the rest that read no document.
"""

import math
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.cards import PrivacyCard
from audit.errors import UsageError
from audit.stats.dp_bounds import Guarantee

UnitKind = Literal["document", "provider"]
Proves = Callable[[UnitKind, Guarantee], bool]
"""Tells whether a guarantee to such a unit proves the limits of a policy."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

STEPS = 100
ROUNDS = 10
"""Steps with gradients, and rounds with local steps (the latter as in Tito et al. 2024)."""
FEWEST_EXPECTED = 64
EXPECTED_SHARE = 0.25
"""Units of a step, at least, and their share: noise of a mean falls faster with q N than sigma
grows with q."""
LEARNING_RATES = {"lora": 2e-3, "head": 5e-3, "full": 1e-3}
"""Adam's, by what is trained."""
SGD_RATE = 0.5
LOCAL_RATE = 2e-4
"""SGD's, and AdamW's in local steps (the latter that of Tito et al.'s code)."""
_MIN_NOISE = 0.05
_MAX_NOISE = 1e6
_TOLERANCE = 5e-3
"""By which the epsilon of a noise multiplier may stay under what was asked for, relative."""
_MAX_SECANTS = 12


@dataclass(frozen=True)
class DpOptions:
    """The choices of the owner; None: docaudit chooses, by a rule that reads no document.

    Attributes:
        unit: whoever is protected; None: the provider where the manifest names one for every
            member, else the document.
        epsilon: infinite: no noise, and no guarantee; None: as `to_policy` needs.
        to_policy: a policy: the noise is such that the guarantee proves every limit on membership
            and providers.
        delta: delta of the guarantee; None: 1 / N^1.1 of N units; refused above 1 / N.
        per_unit: documents of a unit at most, drawn once; None: all.
        trained: "lora:RANK", "head" or "full".
        embeddings: whether embeddings are trained too.
        steps: steps of the server; None: by rule.
        expected_units: units of a step on average, q N; None: by rule.
        max_norm: C, to which a unit's contribution is clipped.
        optimizer: optimizer of the noisy mean gradient; local steps have AdamW and the server plain
            addition.
        learning_rate: learning rate of the optimizer; None: by what is trained.
        local_steps: 0: a unit contributes its gradient; k: the change after k passes of AdamW over
            its documents.
        clients: a file that names the client of every provider (FL-PROVIDER-DP); None: central.
        client_rate: the probability that a client takes part in a round.
        rows: samples of one forward pass at most.
        reproducible: seeded coins and noise, for tests; no guarantee, and no epsilon is printed.
        seed: seed of fresh weights, masks, and of coins and noise where `reproducible`.
    """

    unit: UnitKind | None = None
    epsilon: Annotated[float, Field(gt=0)] | None = None
    to_policy: str | None = None
    delta: Positive | None = None
    per_unit: Count | None = None
    trained: Annotated[str, Field(pattern=r"^(lora:[1-9][0-9]{0,3}|head|full)$")] = "lora:16"
    embeddings: bool = False
    steps: Count | None = None
    expected_units: Positive | None = None
    max_norm: Positive = 1.0
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Positive | None = None
    local_steps: Annotated[int, Field(ge=0)] = 0
    clients: Path | None = None
    client_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    rows: Count = 8
    reproducible: bool = False
    seed: Annotated[int, Field(ge=0)] = 0


def check_options(options: DpOptions) -> None:
    """Refuse options that contradict each other, before anything is read.

    Raises:
        UsageError: two of them do.
    """
    if (options.epsilon is None) == (options.to_policy is None):
        raise UsageError(
            "private training needs a guarantee to keep, and one only",
            "give --epsilon 8, or --to-policy POLICY for one that proves a policy's limits",
        )
    if options.client_rate != 1 and options.clients is None:
        raise UsageError("a client's probability without clients", "name them: --set clients=FILE")


def settle(
    options: DpOptions, kind: UnitKind, n_units: int, proves: Proves | None = None
) -> PrivacyCard:
    """Return the privacy card of a training: its noise, steps, rates and guarantee.

    Nothing is known yet of the model and its weights.

    Args:
        options: what the owner chose, checked.
        kind: whoever is protected.
        n_units: N.
        proves: whether a guarantee is strong enough, where `options` names no epsilon.

    Returns:
        The card, with an epsilon of at most what was asked; None where there is no noise, or it can
        be drawn again.

    Raises:
        UsageError: delta or the number of expected units makes no sense for N, or no noise gives
            what is asked; or so much that epsilon is 0 at this delta.
    """
    # Loads Opacus and torch, which a command line does without.
    from audit.stats.dp_accounting import epsilon_of

    delta = default_delta(n_units) if options.delta is None else options.delta
    check_delta(delta, n_units)
    steps = options.steps or (ROUNDS if options.local_steps else STEPS)
    rate = _expected_units(options, n_units) / n_units
    accounted = (delta, min(1.0, rate / options.client_rate), steps, options.client_rate)
    if options.epsilon is None:
        sigma = _noise_of_policy(options, kind, proves, accounted)
    elif math.isinf(options.epsilon):
        sigma = 0.0
    else:
        sigma = noise_for(options.epsilon, *accounted)
    epsilon = None
    if sigma and not options.reproducible:
        epsilon = epsilon_of(sigma, *accounted)
    return PrivacyCard(
        unit=kind,
        n_units=n_units,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=sigma,
        max_norm=options.max_norm,
        sample_rate=rate,
        steps=steps,
        per_unit=options.per_unit,
        local_steps=options.local_steps,
        clients=None,
        client_rate=options.client_rate,
        accountant=version("opacus"),
        optimizer="add" if options.local_steps else options.optimizer,
        learning_rate=learning_rate(options, options.trained),
        trained=options.trained,
        embeddings=options.embeddings,
        head=True,
        trained_parameters=0,
        frozen_parameters=0,
        secure=not options.reproducible,
        weights="0" * 64,
    )


Accounted = tuple[float, float, int, float]
"""What epsilon follows from beside the noise: delta, the probability of a unit in a round of which
its client is part, the steps, and the probability of a client."""


def _noise_of_policy(
    options: DpOptions, kind: UnitKind, proves: Proves | None, accounted: Accounted
) -> float:
    """Return the noise multiplier with which training proves the limits of a policy.

    Raises:
        UsageError: no guarantee proves them, or only one with epsilon 0.
    """
    from audit.stats.dp_accounting import epsilon_of

    policy = options.to_policy
    if proves is None:
        raise UsageError(f"no limit of the policy {policy} is read here", "give --epsilon instead")
    advice = "protect providers (--unit provider), train on more units, raise the limit, or give --epsilon"
    if not proves(kind, Guarantee(0.0, 0.0)):
        raise UsageError(
            f"policy {policy} has a limit that no guarantee for a {kind} proves", advice
        )
    sigma = proving_noise(partial(proves, kind), *accounted)
    if not epsilon_of(sigma, *accounted):
        problem = f"the noise that proves policy {policy} has epsilon 0 at delta {accounted[0]:.2g}"
        raise UsageError(problem, advice)
    return sigma


def learning_rate(options: DpOptions, trained: str) -> float:
    """Return the owner's learning rate, else the usual one for what is trained.

    Args:
        options: what the owner chose.
        trained: what is trained: "lora:RANK", "head" or "full".
    """
    if options.local_steps:
        rule = LOCAL_RATE
    elif options.optimizer == "sgd":
        rule = SGD_RATE
    else:
        rule = LEARNING_RATES[trained.partition(":")[0]]
    return options.learning_rate or rule


def default_delta(n_units: int) -> float:
    """Return the default delta, 1 / N^1.1, which is under 1/N.

    At 1/N giving a random unit away whole would count as private.
    """
    return float(n_units**-1.1)


def check_delta(delta: float, n_units: int) -> None:
    """Refuse a delta that promises nothing.

    Raises:
        UsageError: it is not above 0 and at most 1/N.
    """
    if not 0 < delta <= 1 / n_units:
        raise UsageError(
            f"delta {delta:g} is not above 0 and at most 1/{n_units}. A mechanism that publishes one of the "
            f"{n_units} protected units whole would meet it",
            "leave delta out: it is 1 / N^1.1 then",
        )


def noise_for(
    epsilon: float, delta: float, sample_rate: float, steps: int, client_rate: float = 1.0
) -> float:
    """Return nearly the least noise multiplier whose epsilon is at most `epsilon`.

    The method of secants on logarithms starts from where Renyi's cheap bound has it.

    Raises:
        UsageError: no noise gives it.
    """
    from audit.stats.dp_accounting import epsilon_of, renyi_epsilon

    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon {epsilon:g}: only a number above 0 can be kept", "give 1 to 10")
    given = (delta, sample_rate, steps, client_rate)
    kept = _least_noise(lambda sigma: renyi_epsilon(sigma, *given) <= epsilon, 0.02)
    kept_epsilon = epsilon_of(kept, *given)
    broken = 0.0
    slope = -1.0
    for _ in range(_MAX_SECANTS):
        if kept_epsilon >= epsilon * (1 - _TOLERANCE):
            break
        # A little above the line's own point, which lies where the bound holds or just not.
        sigma = kept * (epsilon * (1 - _TOLERANCE / 2) / max(kept_epsilon, epsilon / 10)) ** (
            1 / slope
        )
        sigma = math.sqrt(kept * broken) if sigma <= broken else sigma
        found = epsilon_of(sigma, *given)
        if math.isfinite(found) and found != kept_epsilon and kept_epsilon > 0:
            slope = min(-0.1, math.log(found / kept_epsilon) / math.log(sigma / kept))
        if found <= epsilon:
            kept = sigma
            kept_epsilon = found
        else:
            broken = sigma
    return kept


def proving_noise(
    proves: Callable[[Guarantee], bool],
    delta: float,
    sample_rate: float,
    steps: int,
    client_rate: float = 1.0,
) -> float:
    """Return nearly the least noise multiplier whose guarantees satisfy `proves`.

    Raises:
        UsageError: no noise does.
    """
    from audit.stats.dp_accounting import privacy_curve

    def holds(sigma: float) -> bool:
        """Test whether the guarantees of this noise multiplier satisfy `proves`."""
        (epsilon, _), *others = privacy_curve(sigma, delta, sample_rate, steps, client_rate)
        return proves(Guarantee(epsilon, delta, tuple(others)))

    return _least_noise(holds, _TOLERANCE)


def _expected_units(options: DpOptions, n_units: int) -> float:
    """Return the mean number of units a step: the owner's, else a share of all units."""
    most = options.client_rate * n_units
    if options.expected_units is None:
        return min(most, max(float(FEWEST_EXPECTED), EXPECTED_SHARE * n_units))
    if options.expected_units > most:
        raise UsageError(
            f"{options.expected_units:g} units a step on average, of {most:g}: no such probability",
            "give more than 0 and at most all",
        )
    return options.expected_units


def _least_noise(holds: Callable[[float], bool], tolerance: float) -> float:
    """Return the least noise at which `holds` is true, within a relative tolerance.

    Raises:
        UsageError: it holds nowhere.
    """
    low = _MIN_NOISE
    high = 1.0
    while not holds(high):
        low = high
        high = 2 * high
        if high > _MAX_NOISE:
            raise UsageError(
                "no noise gives so much privacy", "ask for less: a larger epsilon, or higher limits"
            )
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
