"""Documents and trials that an audit did without, by its owner's choice or for want of names in the model."""

from __future__ import annotations

from collections.abc import Mapping

from audit.cards import CorpusCard
from audit.measurements import Unresolved
from audit.policy.decision import Cause
from audit.record import AuditRecord

MOST_DOCUMENTS = 0.1
"""Share of the member, or of the held-out, documents that a pass may do without (ours): leaks of all of these alone
would stay under most limits."""
MOST_QUESTIONS = 0.5
"""The same of questions (ours): the documents are judged by the others that they are asked."""
_COMPARED = {"member": "member", "heldout": "held-out"}


def too_much_unread(corpus: CorpusCard) -> tuple[str, str, Cause] | None:
    """Reason against a pass: too many documents or questions were left out, as the model cannot name what they say."""
    reason = much_unread(corpus.unread, corpus.documents, MOST_DOCUMENTS, "documents") or much_unread(
        corpus.unread_questions, corpus.questions, MOST_QUESTIONS, "questions"
    )
    return (
        None if reason is None else (reason, "audit the model with the labels and answers of its training", "uncovered")
    )


def much_unread(left_out: Mapping[str, int], kept: Mapping[str, int], most: float, unit: str) -> str | None:
    """Say that too much of a split was left out; None where it is not.

    Args:
        left_out: by split.
        kept: by split.
        most: the share of a split that may be left out.
        unit: what is counted, plural.
    """
    for split, title in _COMPARED.items():
        gone = left_out.get(split, 0)
        total = gone + kept.get(split, 0)
        if gone > most * total:
            return (
                f"{gone} of {total} {title} {unit} were left out, as the model lacks their names or cannot point at "
                f"their answers; a pass does without {most:.0%} at most"
            )
    return None


def untried(record: AuditRecord, attack: str, number: Unresolved) -> bool:
    """True where the data set may hold the units that a number needs, and a bound or budget left them untried."""
    if number.needed is None or min(_sides(record)) < number.needed:
        return False
    return left_untried(record, attack)


def left_untried(record: AuditRecord, attack: str) -> bool:
    """True where a bound or the budget left untried what the data set holds for an attack."""
    return record.share < 1 or bounded(record, attack)


def bounded(record: AuditRecord, attack: str) -> bool:
    """True where a bound (--documents, --time) left untried what the data set holds for an attack."""
    bounds = record.bounds
    if bounds is None:
        return False
    short = any(one.tried < one.planned for one in bounds.trials if one.attack == attack)
    return short or bounds.part < 1 or (bounds.documents is not None and bounds.documents < sum(_sides(record)))


def _sides(record: AuditRecord) -> list[int]:
    return [record.corpus.documents.get(split, 0) for split in _COMPARED]
