"""The guarantee that a training promises, explained to an officer (methods.md#dp-training)."""

from __future__ import annotations

from dataclasses import dataclass

from audit.attacks.text import sentence_case
from audit.cards import PrivacyCard
from audit.measurements import Estimate
from audit.policy.guarantee import CANARIES, EPSILON, contradiction
from audit.record import AuditRecord
from audit.stats.dp_bounds import Guarantee, balanced_accuracy

NO_SECRETS = (
    "The data set holds no planted secrets that tell epsilon; they can show that a guarantee is false (docaudit canary "
    "insert)."
)
AGREES = "Planted secrets, which can show that a guarantee is false, do not contradict this one."
NO_GUARANTEE = "There is no guarantee that planted secrets could refute."


@dataclass(frozen=True)
class GuaranteeView:
    """The section on the guarantee.

    Attributes:
        card: of the training.
        promised: to one unit; None without an epsilon.
        right: the largest share of right guesses at whether one unit was used; None without an epsilon.
        check: what planted secrets say about the guarantee.
        contradicted: whether they show that it is false.
    """

    card: PrivacyCard
    promised: Guarantee | None
    right: float | None
    check: str
    contradicted: bool


def guarantee_view(record: AuditRecord) -> GuaranteeView | None:
    """Lay out the guarantee of the audited model's training; None where it claims none."""
    card, false = record.dp, contradiction(record)
    if card is None:
        return None
    if card.epsilon is None:
        return GuaranteeView(card, None, None, NO_GUARANTEE, contradicted=False)
    promised = Guarantee(card.epsilon, card.delta, card.curve)
    measured = any(
        isinstance(item, Estimate) and item.name == EPSILON
        for result in record.completed.values()
        if result.attack == CANARIES
        for item in result.measurements
    )
    check = f"{sentence_case(false)}." if false else AGREES if measured else NO_SECRETS
    return GuaranteeView(card, promised, balanced_accuracy(promised), check, false is not None)
