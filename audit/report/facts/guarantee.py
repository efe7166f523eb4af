"""Compute what the guarantee of a training promises, and what planted secrets say of it."""

from dataclasses import dataclass

from audit.cards import PrivacyCard
from audit.measurements import Estimate
from audit.policy.guarantees import CANARIES, EPSILON
from audit.record import AuditRecord
from audit.stats.dp_bounds import Guarantee, balanced_accuracy


@dataclass(frozen=True)
class GuaranteeFacts:
    """The guarantee that the training of the audited model claims.

    Attributes:
        card: card of the training.
        promised: guarantee of one unit; None without an epsilon.
        right: largest share of right guesses at whether one unit was used; None without an epsilon.
        measured: whether planted secrets gave a lower bound on epsilon.
        contradicted: why they show that the guarantee is false; None where they do not.
    """

    card: PrivacyCard
    promised: Guarantee | None
    right: float | None
    measured: bool
    contradicted: str | None


def guarantee_of(record: AuditRecord, contradicted: str | None) -> GuaranteeFacts | None:
    """Return the guarantee of the audited model's training; None where it claims none.

    Args:
        record: record of the scan.
        contradicted: why the guarantee is false; None where nothing shows it.
    """
    card = record.dp
    if card is None:
        return None
    measured = _has_measured_epsilon(record)
    if card.epsilon is None:
        return GuaranteeFacts(card, None, None, measured, None)
    promised = Guarantee(card.epsilon, card.delta, card.curve)
    right = balanced_accuracy(promised)
    return GuaranteeFacts(card, promised, right, measured, contradicted)


def _has_measured_epsilon(record: AuditRecord) -> bool:
    """Test whether planted secrets gave a lower bound on epsilon."""
    canaries = record.completed.get(CANARIES)
    if canaries is None:
        return False
    return any(
        isinstance(item, Estimate) and item.name == EPSILON for item in canaries.measurements
    )
