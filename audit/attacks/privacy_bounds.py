"""What the guarantee of a training proves about the metrics of attacks (methods.md#dp-training)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.threats import Protected, Provable
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
    declared = text_of(attack).provable
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
    promised = Guarantee(card.epsilon, card.delta, card.curve).of_group(group)
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


def asked_of_training(limits: Iterable[Limit]) -> list[tuple[Provable, float]]:
    """The bounds of limits on the membership of documents and of providers, each with its largest value."""
    declared = [(provable(limit.attack, limit.metric), limit.max) for limit in limits]
    return [
        (found, most) for found, most in declared if found is not None and found.of != "canary" and most is not None
    ]


def proves(asked: Iterable[tuple[Provable, float]], unit: str, promised: Guarantee) -> bool:
    """Return whether a guarantee alone meets all that is asked.

    Args:
        asked: see `asked_of_training`.
        unit: of the guarantee; single documents prove nothing about providers.
        promised: to one unit.
    """
    groups = [(group_of(found.of, unit), found, most) for found, most in asked]
    return all(group is not None and bound(found, promised.of_group(group)) <= most for group, found, most in groups)


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
        return found.model_copy(update={"fpr": next((null for null in nulls if null is not None), found.fpr)})
    rates = [item.value for item in result.diagnostics if item.name.partition(".")[0] == found.fpr_in]
    return found.model_copy(update={"fpr": max(rates, default=found.fpr)}) if found.fpr_in else found


def _bits(found: Provable, result: Completed) -> float:
    """Log2 of the most completions that a secret was ranked among."""
    numbers = [result.parameters.get(name) for name in found.bits_in]
    known = [number for number in numbers if isinstance(number, int) and number > 0]
    return math.log2(1 + max(known)) if known else MOST_BITS
