"""What the guarantee of a training proves about the metrics of attacks (methods.md#dp-training)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from audit.attacks import BATTERY
from audit.attacks.interface import Protected, Provable
from audit.cards import PrivacyCard
from audit.measurements import Estimate
from audit.policy import Limit
from audit.policy.guarantee import copies_of, group_of_canary
from audit.record import Completed
from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, exposure, tpr

NO_EPSILON = "nothing: coins and noise of the training can be drawn again"
NO_NOISE = "nothing: no noise was added to the training"
OF_DOCUMENTS = (
    "nothing: the guarantee is for single documents, and a provider's m documents together have m times its epsilon"
)
UNKNOWN_COPIES = "nothing: the record does not say how many copies of a planted secret there are"
NO_BOUND = "nothing: no bound is known for this number"
TOLERANCE = 1e-6
"""Of an epsilon that is searched for."""
MOST_BITS = 64.0
"""No search ranks a secret among more completions (ours)."""


@dataclass(frozen=True)
class Proof:
    """What is proved about one metric.

    Attributes:
        most: the metric is at most this in expectation, whatever the attack; None: nothing is proved.
        group: units that whoever the metric tells of may change together; 1: one unit.
        reason: why nothing is proved; empty where something is.
    """

    most: float | None
    group: int = 1
    reason: str = ""


def provable(attack: str, metric: str) -> Provable | None:
    """The bound that an attack declares for a metric; None where no guarantee bounds it."""
    declared = next((kind.provable for kind in BATTERY if kind.name == attack), {})
    return declared.get(metric, declared.get(metric.partition(".")[0]))


def prove(attack: str, metric: str, card: PrivacyCard, result: Completed | None) -> Proof:
    """Prove what can be proved about a metric of an attack.

    Args:
        attack: its name.
        metric: as policies write it.
        card: of the training.
        result: of the attack: false-positive rates, chances and copies are read from it. None: it did not complete, and
            rates are at their largest.
    """
    found = provable(attack, metric)
    if found is None:
        return Proof(None, reason=NO_BOUND)
    if card.epsilon is None:
        return Proof(None, reason=NO_EPSILON if card.noise_multiplier else NO_NOISE)
    group = _group(found.of, card, result)
    if isinstance(group, str):
        return Proof(None, reason=group)
    promised = Guarantee(card.epsilon, card.delta).of_group(group)
    if result is None:
        return Proof(bound(found, promised), group)
    return Proof(bound(_as_measured(found, result), promised, _bits(found, result)), group)


def bound(declared: Provable, promised: Guarantee, bits: float = MOST_BITS) -> float:
    """The largest value of a metric under a guarantee for whoever it tells of.

    Args:
        declared: of the metric; rates that a scan chooses are at their largest unless they were filled in.
        promised: to one document or provider, or to all copies of a canary together.
        bits: the exposure of the first rank, for an exposure.
    """
    match declared.kind:
        case "auc":
            return auc(promised)
        case "balanced accuracy":
            return balanced_accuracy(promised)
        case "tpr":
            return tpr(promised, declared.fpr)
        case "advantage":
            return advantage(promised, declared.fpr)
        case "exposure":
            return exposure(promised, bits)


def group_of(protected: Protected, unit: str) -> int | None:
    """Units that change with one document or provider; None where there are as many as it has documents.

    Taking a document of several from a provider is to replace that provider: one unit less and one more.
    """
    match protected, unit:
        case ("document", "document") | ("provider", "provider"):
            return 1
        case ("document", "provider"):
            return 2
    return None


def largest_epsilon(limits: Iterable[Limit], unit: str, delta: float) -> float | None:
    """The largest epsilon that proves every limit on the membership of documents and of providers.

    Args:
        limits: of a policy; those on other metrics ask nothing.
        unit: of the guarantee.
        delta: of the guarantee.

    Returns:
        None where a limit cannot be proved at this unit and delta; infinity where no limit asks for anything.
    """
    most = math.inf
    for limit in limits:
        declared = provable(limit.attack, limit.metric)
        if declared is None or declared.of == "canary" or limit.max is None:
            continue
        group = group_of(declared.of, unit)
        found = None if group is None else _largest(declared, limit.max, group, delta)
        if found is None:
            return None
        most = min(most, found)
    return most


def _largest(declared: Provable, limit: float, group: int, delta: float) -> float | None:
    def within(epsilon: float) -> bool:
        return bound(declared, Guarantee(epsilon, delta).of_group(group)) <= limit

    if not within(0.0):
        return None
    low, high = 0.0, 1.0
    while within(high):
        if limit >= 1:
            return math.inf
        low, high = high, 2 * high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _group(protected: Protected, card: PrivacyCard, result: Completed | None) -> int | str:
    """Units that change together, or why nothing is proved."""
    if protected == "canary":
        copies = None if result is None else copies_of(result)
        return UNKNOWN_COPIES if copies is None else group_of_canary(card, copies)
    return group_of(protected, card.unit) or OF_DOCUMENTS


def _as_measured(found: Provable, result: Completed) -> Provable:
    """The same with the false-positive rate that the scan had, or the chance of secrets that were never planted."""
    if found.chance_in:
        nulls = [
            item.null for item in result.measurements if isinstance(item, Estimate) and item.name == found.chance_in
        ]
        return replace(found, fpr=next((null for null in nulls if null is not None), found.fpr))
    rates = [item.value for item in result.diagnostics if item.name.partition(".")[0] == found.fpr_in]
    return replace(found, fpr=max(rates, default=found.fpr)) if found.fpr_in else found


def _bits(found: Provable, result: Completed) -> float:
    """Log2 of the most completions that a secret was ranked among."""
    numbers = [result.parameters.get(name) for name in found.bits_in]
    known = [number for number in numbers if isinstance(number, int) and number > 0]
    return math.log2(1 + max(known)) if known else MOST_BITS
