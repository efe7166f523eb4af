"""What contradicts the guarantee that the training of a model claims."""

from collections.abc import Iterator

from audit.cards import PrivacyCard
from audit.measurements import Bound, Estimate
from audit.policy.checks import SettledRecord
from audit.policy.limits import TEXTS
from audit.record import AuditRecord, Result
from audit.stats.dp_bounds import Guarantee, auc

CANARIES = "canaries"
"""The attack that bounds epsilon from below."""
EPSILON = "epsilon"
"""The measurement that holds the bound."""
MEMBERSHIP = "membership"
"""The attack that tells documents of training from others."""
CHANCE = 0.5
"""The area of that attack by luck."""
CONTRADICTS = 0.0001
"""The smallest one-sided level at which an area is held against a guarantee."""
REPLACED = 2
"""Units that differ where one provider's documents are replaced: one less and one more."""


def contradiction(settled: SettledRecord) -> str | None:
    """Return why the guarantee that the target's training claims cannot be true.

    None where nothing shows it.

    Of the planted secrets whose coins were guessed, so many right ones have a probability under any
    guarantee (`curve_p`). The guarantee to one unit is first turned into that to all copies of a
    secret together, and the guesses are held against its whole curve: the bound of the record is at
    another delta.

    Args:
        settled: settled record of a scan; without a guarantee nothing is contradicted.
    """
    card = settled.record.dp
    if card is None or card.epsilon is None:
        return None
    guarantee = Guarantee(card.epsilon, card.delta, card.curve)
    by_secrets = _told_by_secrets(settled.record, card, guarantee)
    if by_secrets is not None:
        return by_secrets
    return _told_by_documents(settled, card, guarantee)


def _told_by_documents(
    settled: SettledRecord, card: PrivacyCard, guarantee: Guarantee
) -> str | None:
    """Explain where membership of documents is surer than the guarantee allows; else None.

    It counts where a coin chose the documents.
    """
    record = settled.record
    result = record.completed.get(MEMBERSHIP)
    if result is None or settled.confounded(MEMBERSHIP) is not None:
        return None
    if record.corpus.assigned != "random":
        return None
    # To take a document from a provider of several is to replace that provider.
    group = REPLACED
    if card.unit == "document":
        group = 1
    most = auc(guarantee.of_group(group))
    for item in _areas(result):
        bound = _surest_bound(item)
        if bound is not None and bound.lower > most + 1 / item.n:
            level = 100 * (1 - bound.alpha)
            return TEXTS["documents_told_apart"].format(
                card=card, most=most, least=bound.lower, level=level
            )
    return None


def _areas(result: Result) -> Iterator[Estimate]:
    """Yield the areas under the curve of an attack, of every method."""
    for item in result.measurements:
        name, _, _ = item.name.partition(".")
        if isinstance(item, Estimate) and item.null == CHANCE and name == "auc":
            yield item


def _surest_bound(measured: Estimate) -> Bound | None:
    """Return the bound of the smallest level that is held against a guarantee; None: no such."""
    bounds = [bound for bound in measured.bounds if bound.alpha >= CONTRADICTS]
    return min(bounds, key=lambda bound: bound.alpha, default=None)


def _told_by_secrets(record: AuditRecord, card: PrivacyCard, guarantee: Guarantee) -> str | None:
    """Explain where more planted secrets were guessed than the guarantee allows; else None."""
    canaries = record.completed.get(CANARIES)
    if canaries is None:
        return None
    bound = next((item for item in canaries.measurements if item.name == EPSILON), None)
    copies = _count_named(canaries, "copies")
    counts = _guesses(canaries)
    if not isinstance(bound, Estimate) or copies is None or counts is None:
        return None
    # Copies of a secret stand on copies of one page, so that they are one provider's, whose
    # documents they change.
    group = REPLACED
    if card.unit == "document":
        group = copies
    promised = guarantee.of_group(group)
    # numpy takes as long to import as the rest of a verdict, and only a claimed guarantee needs it.
    from audit.stats.p_values import curve_p

    if curve_p(*counts, promised.points) >= 1 - bound.level:
        return None
    together = ""
    if group != 1:
        together = TEXTS["of_group"].format(promised=promised, group=group)
    return TEXTS["secrets_guessed"].format(
        card=card, together=together, counts=counts, level=100 * bound.level
    )


def _guesses(canaries: Result) -> tuple[int, int, int] | None:
    """Count the coins of the evaluated half, those guessed, and those guessed rightly.

    None where the record lacks a count.
    """
    evaluated = _count_named(canaries, f"{EPSILON}: evaluated")
    guessed = _count_named(canaries, f"{EPSILON}: guessed")
    right = _count_named(canaries, f"{EPSILON}: right")
    if evaluated is None or guessed is None or right is None:
        return None
    return evaluated, guessed, right


def _count_named(result: Result, name: str) -> int | None:
    """Return the count of this name from a result; None where the result lacks it."""
    return next((count.value for count in result.counts if count.name == name), None)
