"""What the guarantee of a training proves about the metrics of attacks (methods.md#dp-training)."""

from __future__ import annotations

from collections.abc import Iterable

from audit.attacks import text_of
from audit.attacks.threats import Protected, Provable
from audit.policy import Limit
from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, tpr


def provable(attack: str, metric: str) -> Provable | None:
    """The bound that an attack declares for a metric; None where no guarantee bounds it."""
    declared = text_of(attack).provable
    return declared.get(metric, declared.get(metric.partition(".")[0]))


def bound(declared: Provable, promised: Guarantee) -> float:
    """Return the largest value of a metric under a guarantee to the document or provider that it is about."""
    match declared.kind:
        case "auc":
            return auc(promised)
        case "balanced accuracy":
            return balanced_accuracy(promised)
        case "tpr":
            return tpr(promised, declared.fpr)
        case "advantage":
            return advantage(promised, declared.fpr)


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
    return [(found, most) for found, most in declared if found is not None and most is not None]


def proves(asked: Iterable[tuple[Provable, float]], unit: str, promised: Guarantee) -> bool:
    """Return whether a guarantee alone meets all that is asked.

    Args:
        asked: see `asked_of_training`.
        unit: of the guarantee; single documents prove nothing about providers.
        promised: to one unit.
    """
    groups = [(group_of(found.of, unit), found, most) for found, most in asked]
    return all(group is not None and bound(found, promised.of_group(group)) <= most for group, found, most in groups)
