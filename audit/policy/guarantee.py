"""A training's guarantee against the planted secrets of the same record (methods.md#dp-training).

A scan cannot verify differential privacy; but planted secrets can show that a guarantee is false.
"""

from __future__ import annotations

from audit.measurements import Estimate
from audit.record import AuditRecord, Completed, PrivacyCard
from audit.stats.dp_bounds import Guarantee
from audit.stats.guesses import p_value

CANARIES, EPSILON = "canaries", "epsilon"
"""The attack that bounds epsilon from below, and the measurement that holds the bound."""
REPLACED = 2
"""Units that differ where one provider's documents are replaced: one less and one more."""


def contradiction(record: AuditRecord) -> str | None:
    """Return why the guarantee that the target's training claims cannot be true; None where nothing shows it.

    Of the planted secrets whose coins were guessed, so many right ones have a probability under any guarantee
    (Steinke et al. 2023). The guarantee to one unit is first turned into that to all copies of a secret together, and
    the guesses are held against its own epsilon and delta: the bound of the record is at another delta.

    Args:
        record: of a scan; without a guarantee or without planted secrets nothing is contradicted.
    """
    card = record.dp
    canaries = next((one for one in record.attacks if isinstance(one, Completed) and one.attack == CANARIES), None)
    if card is None or card.epsilon is None or canaries is None:
        return None
    bound = next((one for one in canaries.measurements if one.name == EPSILON), None)
    copies, counts = copies_of(canaries), _guesses(canaries)
    if not isinstance(bound, Estimate) or copies is None or counts is None:
        return None
    group = group_of_canary(card, copies)
    promised = Guarantee(card.epsilon, card.delta).of_group(group)
    if promised.delta >= 1 or p_value(*counts, epsilon=promised.epsilon, delta=promised.delta) >= 1 - bound.level:
        return None
    together = (
        "" if group == 1 else f", epsilon {promised.epsilon:.3g} at delta {promised.delta:.2g} for {group} of them"
    )
    return (
        f"the training claims epsilon {card.epsilon:.3g} at delta {card.delta:.2g} for each {card.unit}{together}, and "
        f"yet {counts[2]} of {counts[1]} guesses at which secrets were planted are right, which is too many for that "
        f"({100 * bound.level:.0f} % confidence): it was not as private as it says"
    )


def copies_of(canaries: Completed) -> int | None:
    """Documents that hold a planted secret; None where the record does not say."""
    return _count(canaries, "copies")


def group_of_canary(card: PrivacyCard, copies: int) -> int:
    """Units that change together when a secret is planted in so many documents.

    Copies of a secret stand on copies of one page, so that they are one provider's, whose documents they change.
    """
    return copies if card.unit == "document" else REPLACED


def _guesses(canaries: Completed) -> tuple[int, int, int] | None:
    """Coins of the evaluated half, those guessed, and those guessed rightly."""
    found = [_count(canaries, f"{EPSILON}: {name}") for name in ("evaluated", "guessed", "right")]
    known = [number for number in found if number is not None]
    return (known[0], known[1], known[2]) if len(known) == len(found) else None


def _count(result: Completed, name: str) -> int | None:
    return next((count.value for count in result.counts if count.name == name), None)
