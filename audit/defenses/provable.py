"""The epsilon at which a guarantee proves what a policy asks (methods.md#dp-training)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from audit.errors import UsageError
from audit.policy import Limit, Policy
from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, tpr

MEMBERSHIP = {"membership": "document", "provider_membership": "provider"}
"""Attacks whose limits a guarantee can prove, by the unit that they ask after."""
_LARGEST, _LEAST = 64.0, 0.01
"""Epsilons that are looked at; beyond them a guarantee says nothing, or no training learns (ours)."""
_HALVINGS = 60


def provable_epsilon(policy: Policy, unit: str, delta: float, *, providers: bool) -> float:
    """The largest epsilon that proves every limit of a policy on membership and on providers.

    An (epsilon, delta) guarantee bounds what any attack reaches, `audit.stats.dp_bounds`. With providers protected, a
    document is one of those of a provider that may stay: exchanging the provider for one without it takes two steps
    (a group of two). An advantage is bounded at every false-positive rate at once.

    Args:
        policy: what the owner accepts.
        unit: "document" or "provider", whoever is protected.
        delta: of the guarantee.
        providers: whether documents of training name providers, so that limits on them apply.

    Raises:
        UsageError: no limit can be proved, or not with this unit or delta.
    """
    limits = list(_provable(policy, providers))
    if not limits:
        raise UsageError(
            f"policy {policy.name} limits no area, accuracy or rate of membership: there is nothing to prove",
            "give --epsilon instead",
        )
    if unit == "document" and any(MEMBERSHIP[limit.attack] == "provider" for limit in limits):
        raise UsageError(
            f"policy {policy.name} limits what is told of providers, which no guarantee for documents proves",
            "protect providers: --unit provider",
        )
    return min(_largest(limit, unit, delta) for limit in limits)


def _provable(policy: Policy, providers: bool) -> Iterator[Limit]:
    for limit in policy.limits:
        about = MEMBERSHIP.get(limit.attack)
        known = about is not None and limit.max is not None and _bound_of(limit.metric) is not None
        if known and (about == "document" or providers):
            yield limit


def _bound_of(metric: str) -> Callable[[Guarantee], float] | None:
    """The most that a metric can be under a guarantee; None: nothing is proved about it."""
    name = metric.split(".", 1)[0]
    bounds = {"auc": auc, "balanced_accuracy": balanced_accuracy, "low_fpr_advantage": advantage}
    if name in bounds:
        return bounds[name]
    rate = name.removeprefix("tpr_at_fpr_")
    return partial(tpr, fpr=int(rate) / 100) if rate != name and rate.isdigit() else None


def _largest(limit: Limit, unit: str, delta: float) -> float:
    bound, most = _bound_of(limit.metric), limit.max
    assert bound is not None
    assert most is not None
    steps = 2 if unit == "provider" and MEMBERSHIP[limit.attack] == "document" else 1

    def proved(epsilon: float) -> bool:
        return bound(Guarantee(epsilon, delta).of_group(steps)) <= most

    if not proved(_LEAST):
        raise UsageError(
            f"no epsilon from {_LEAST:g} on proves {limit.attack} {limit.metric} at most {most:g}, delta {delta:g}",
            "raise the limit, or train on more units",
        )
    low, high = _LEAST, _LARGEST
    if proved(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if proved(middle) else (low, middle)
    return low
