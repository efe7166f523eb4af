"""A training's guarantee against planted secrets and documents of the same record.

A scan cannot verify differential privacy (methods.md#dp-training); but secrets that come out, and documents that
are told from others, can show that a guarantee is false.
"""

from __future__ import annotations

from audit.cards import PrivacyCard
from audit.measurements import Estimate
from audit.record import AuditRecord, Result
from audit.stats.dp_bounds import Guarantee, auc

CANARIES, EPSILON = "canaries", "epsilon"
"""The attack that bounds epsilon from below, and the measurement that holds the bound."""
MEMBERSHIP, CHANCE = "membership", 0.5
"""The attack that tells documents of training from others, and its area by luck."""
REPLACED = 2
"""Units that differ where one provider's documents are replaced: one less and one more."""


def contradiction(record: AuditRecord) -> str | None:
    """Return why the guarantee that the target's training claims cannot be true; None where nothing shows it.

    Of the planted secrets whose coins were guessed, so many right ones have a probability under any guarantee
    (Steinke et al. 2023). The guarantee to one unit is first turned into that to all copies of a secret together, and
    the guesses are held against its own epsilon and delta: the bound of the record is at another delta.

    Args:
        record: of a scan; without a guarantee nothing is contradicted.
    """
    card = record.dp
    if card is None or card.epsilon is None:
        return None
    return _of_secrets(record, card) or _of_documents(record, card)


def _of_documents(record: AuditRecord, card: PrivacyCard) -> str | None:
    """That documents of training are told from others, which a coin chose, more surely than the guarantee allows."""
    found = record.completed.get(MEMBERSHIP)
    if found is None or found.confounded is not None or record.corpus.assigned != "random" or card.epsilon is None:
        return None
    # To take a document from a provider of several is to replace that provider.
    most = auc(Guarantee(card.epsilon, card.delta, card.curve).of_group(1 if card.unit == "document" else REPLACED))
    for item in found.measurements:
        if isinstance(item, Estimate) and item.name.partition(".")[0] == "auc" and item.null == CHANCE:
            lower = min((bound for bound in item.bounds), key=lambda bound: bound.alpha, default=None)
            if lower is not None and lower.lower > most + 1 / item.n:
                return (
                    f"the training claims epsilon {card.epsilon:.3g} at delta {card.delta:.2g} for each {card.unit}, "
                    f"which allows documents to be told from others with an area of {most:.3f} at most, and yet it is "
                    f"at least {lower.lower:.3f} ({100 * (1 - lower.alpha):g} % confidence): it was not as private as "
                    "it says"
                )
    return None


def _of_secrets(record: AuditRecord, card: PrivacyCard) -> str | None:
    assert card.epsilon is not None
    canaries = record.completed.get(CANARIES)
    if canaries is None:
        return None
    bound = next((one for one in canaries.measurements if one.name == EPSILON), None)
    copies, counts = copies_of(canaries), _guesses(canaries)
    if not isinstance(bound, Estimate) or copies is None or counts is None:
        return None
    group = group_of_canary(card, copies)
    promised = Guarantee(card.epsilon, card.delta, card.curve).of_group(group)
    # numpy takes as long to import as the rest of a verdict, and only a claimed guarantee needs it.
    from audit.stats.p_values import guessing_p

    chances = [guessing_p(*counts, epsilon=epsilon, delta=delta) for epsilon, delta in promised.points if delta < 1]
    if min(chances, default=1.0) >= 1 - bound.level:
        return None
    together = (
        "" if group == 1 else f", epsilon {promised.epsilon:.3g} at delta {promised.delta:.2g} for {group} of them"
    )
    return (
        f"the training claims epsilon {card.epsilon:.3g} at delta {card.delta:.2g} for each {card.unit}{together}, and "
        f"yet {counts[2]} of {counts[1]} guesses at which secrets were planted are right, which is too many for that "
        f"({100 * bound.level:.0f} % confidence): it was not as private as it says"
    )


def copies_of(canaries: Result) -> int | None:
    """Documents that hold a planted secret; None where the record does not say."""
    return _count(canaries, "copies")


def group_of_canary(card: PrivacyCard, copies: int) -> int:
    """Units that change together when a secret is planted in so many documents.

    Copies of a secret stand on copies of one page, so that they are one provider's, whose documents they change.
    """
    return copies if card.unit == "document" else REPLACED


def _guesses(canaries: Result) -> tuple[int, int, int] | None:
    """Coins of the evaluated half, those guessed, and those guessed rightly."""
    found = [_count(canaries, f"{EPSILON}: {name}") for name in ("evaluated", "guessed", "right")]
    known = [number for number in found if number is not None]
    return (known[0], known[1], known[2]) if len(known) == len(found) else None


def _count(result: Result, name: str) -> int | None:
    return next((count.value for count in result.counts if count.name == name), None)
