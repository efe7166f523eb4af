"""The numbers of a private training: those that the owner gave, and rules for the others that read no document."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from audit.errors import UsageError
from audit.extensions.private.accounting import (
    check_delta,
    check_epsilon,
    default_delta,
    federated_epsilon,
    federated_noise_for,
    proving_noise,
)
from audit.extensions.private.interface import UnitKind
from audit.extensions.private.mechanism import MechanismPlan
from audit.extensions.private.options import DpOptions, Proves
from audit.stats.dp_bounds import Guarantee

STEPS = 100
"""Server steps (ours)."""
ROUNDS = 10
"""Rounds of local steps: the paper's."""
FEWEST_EXPECTED = 64
"""Units of a step on average, at least; all where there are fewer (ours)."""
EXPECTED_SHARE = 0.25
"""Or this share of all: with steps fixed, the noise of a mean falls faster with q N than sigma grows with q (ours)."""
LEARNING_RATES = {"lora": 2e-3, "head": 5e-3, "full": 1e-3}
"""Adam's, by what is trained (ours); SGD's is `SGD_RATE`."""
SGD_RATE = 0.5
LOCAL_RATE = 2e-4
"""AdamW's of local steps: the kit's."""


@dataclass(frozen=True)
class Budget:
    """The guarantee and its numbers.

    Attributes:
        epsilon: as accounted for, at most what was asked for; None: there is no noise, or it can be drawn again.
        delta: in (0, 1 / N].
        plan: of the mechanism.
    """

    epsilon: float | None
    delta: float
    plan: MechanismPlan


def with_epsilon(options: DpOptions, kind: UnitKind, n_units: int, proves: Proves | None = None) -> DpOptions:
    """The options with epsilon and delta in place of a policy and of rules; wrong numbers are found before training.

    Args:
        options: what the owner chose, checked.
        kind: whoever is protected.
        n_units: N.
        proves: whether a guarantee is strong enough, where `options` names no epsilon.

    Raises:
        UsageError: delta or the number of expected units makes no sense for N, or nobody gives epsilon.
    """
    delta = default_delta(n_units) if options.delta is None else options.delta
    check_delta(delta, n_units)
    expected = _expected(options, n_units)
    if options.epsilon is not None:
        return replace(options, delta=delta, expected_units=expected)
    if proves is None:
        raise UsageError(f"no limit of the policy {options.to_policy} is read here", "give --epsilon instead")
    settled = replace(options, delta=delta, expected_units=expected)
    return replace(settled, epsilon=_provable(settled, kind, n_units, proves), to_policy=None)


def budget_of(options: DpOptions, n_units: int, scope: str) -> Budget:
    """The guarantee and the mechanism's numbers.

    Args:
        options: as `with_epsilon` gives them.
        n_units: N.
        scope: "lora", "head" or "full", which decides the learning rate.
    """
    assert options.epsilon is not None
    assert options.delta is not None
    rate = _expected(options, n_units) / n_units
    given = delta, _, _, steps = _accounted(options, n_units)
    without = math.isinf(options.epsilon)
    sigma = 0.0 if without else federated_noise_for(options.epsilon, *given)
    plan = MechanismPlan(
        noise_multiplier=sigma,
        max_norm=options.max_norm,
        sample_rate=rate,
        n_units=n_units,
        steps=steps,
        learning_rate=learning_rate(options, scope),
        optimizer="add" if options.local_steps else options.optimizer,
        chunk=max(1, options.rows),
    )
    promised = None if without or options.reproducible else federated_epsilon(sigma, *given)
    return Budget(promised, delta, plan)


def check_options(options: DpOptions) -> None:
    """Refuse options that make no sense, before anything is read.

    Raises:
        UsageError: one of them.
    """
    if (options.epsilon is None) == (options.to_policy is None):
        raise UsageError(
            "private training needs a guarantee to keep, and one only",
            "give --epsilon 8, or --to-policy POLICY for one that proves a policy's limits",
        )
    if options.epsilon is not None and options.epsilon != math.inf:
        check_epsilon(options.epsilon)
    if options.steps is not None and options.steps < 1:
        raise UsageError(f"{options.steps} steps: nothing would be trained", "give at least 1")
    if options.local_steps < 0:
        raise UsageError(f"{options.local_steps} local steps", "give 0 for gradients, or 1 and more")
    if options.rows < 1:
        raise UsageError(f"{options.rows} samples of a forward pass", "give at least 1")
    if not 0 < options.client_rate <= 1:
        raise UsageError(f"a client's probability of {options.client_rate:g}", "give more than 0 and at most 1")
    if options.client_rate != 1 and options.clients is None:
        raise UsageError("a client's probability without clients", "name them: --clients FILE")
    if not 0 < options.max_norm < math.inf:
        raise UsageError(f"a largest norm of {options.max_norm:g}", "give a number above 0")
    if options.learning_rate is not None and not 0 < options.learning_rate < math.inf:
        raise UsageError(f"a learning rate of {options.learning_rate:g}", "give a number above 0")


def learning_rate(options: DpOptions, scope: str) -> float:
    """The learning rate that was given, or the rule's."""
    if options.learning_rate is not None:
        return options.learning_rate
    if options.local_steps:
        return LOCAL_RATE
    return SGD_RATE if options.optimizer == "sgd" else LEARNING_RATES[scope]


def _provable(options: DpOptions, kind: UnitKind, n_units: int, proves: Proves) -> float:
    """The epsilon of the least noise whose privacy curve proves what is asked.

    Raises:
        UsageError: no noise does, or so much that epsilon is 0 at this delta.
    """
    given = _accounted(options, n_units)
    advice = "protect providers (--unit provider), train on more units, raise the limit, or give --epsilon"
    if not proves(kind, Guarantee(0.0, 0.0)):
        raise UsageError(f"policy {options.to_policy} has a limit that no guarantee for a {kind} proves", advice)
    sigma = proving_noise(lambda promised: proves(kind, promised), *given)
    if epsilon := federated_epsilon(sigma, *given):
        return epsilon
    raise UsageError(f"the noise that proves policy {options.to_policy} has epsilon 0 at delta {given[0]:.2g}", advice)


def _accounted(options: DpOptions, n_units: int) -> tuple[float, float, float, int]:
    """Delta, a unit's rate where its client takes part, the client's rate, and the number of steps."""
    assert options.delta is not None
    rate = _expected(options, n_units) / n_units
    steps = options.steps or (ROUNDS if options.local_steps else STEPS)
    return options.delta, min(1.0, rate / options.client_rate), options.client_rate, steps


def _expected(options: DpOptions, n_units: int) -> float:
    most = options.client_rate * n_units
    if options.expected_units is None:
        return min(most, max(float(FEWEST_EXPECTED), EXPECTED_SHARE * n_units))
    if not 0 < options.expected_units <= most:
        raise UsageError(
            f"{options.expected_units:g} units a step on average, of {most:g}: no such probability",
            "give more than 0 and at most all",
        )
    return options.expected_units
