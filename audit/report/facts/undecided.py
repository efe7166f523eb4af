"""Find what is undecided, and what would decide most of it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from audit.policy import Overall, Verdict
from audit.policy.grounds import MORE_DOCUMENTS, OWN_WORDS, Remedy
from audit.record import AuditRecord
from audit.report.facts.definitions import NextStep, OpenFacts

_WORST_FIRST: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")
_FIRST = (Remedy.NO_HELDOUT, Remedy.ALL)
"""Remedies that come before any other, however few limits they decide."""


class _Advice(NamedTuple):
    """What would decide a limit, in words; without a name where the record words it itself."""

    name: Remedy | None
    words: str


def deciding_outcome(verdict: Verdict) -> Overall:
    """Return the outcome that decides.

    It is that of limits on the model, or on the text where these are worse and count.
    """
    if not verdict.text_counts or verdict.text is None:
        return verdict.overall
    return min(verdict.overall, verdict.text, key=_WORST_FIRST.index)


def open_limits(record: AuditRecord, verdict: Verdict) -> tuple[OpenFacts, ...]:
    """Return the undecided limits that the answer rests on, in the policy's order.

    Limits on the text alone are among them where the policy counts these, or no model was audited.
    """
    text_counts = verdict.text_counts or not record.target.is_model
    return tuple(
        OpenFacts(decision)
        for decision in verdict.decisions
        if decision.outcome == "undecided" and (text_counts or not decision.about_text)
    )


def next_step(record: AuditRecord, verdict: Verdict) -> NextStep | None:
    """Return the one thing that would decide most undecided limits.

    Unseen documents come first where there are none, then what the budget or a bound left untried,
    then the commonest remedy.

    Returns:
        None where no limit is undecided, or nothing known would decide one.
    """
    limits = open_limits(record, verdict)
    for first in _FIRST:
        decided = [limit for limit in limits if limit.remedy_id is first]
        if decided:
            return NextStep(decided[0].remedy, first, len(decided), len(limits))
    advice = Counter(_advice_on(limit) for limit in limits if limit.remedy)
    if not advice:
        return None
    ((commonest, decides),) = advice.most_common(1)
    return NextStep(
        remedy=commonest.words,
        remedy_id=commonest.name,
        decides=decides,
        open=len(limits),
        reason=_reason_to_mend(commonest.name, limits),
        documents=_documents_left(record, commonest.name),
    )


def _advice_on(limit: OpenFacts) -> _Advice:
    """Return what would decide a limit, so that equal advice on several is counted together."""
    if limit.remedy_id in OWN_WORDS:
        return _Advice(None, limit.remedy)
    return _Advice(limit.remedy_id, limit.remedy)


def _reason_to_mend(name: Remedy | None, limits: Sequence[OpenFacts]) -> str:
    """Return the first reason that has to be mended before another scan.

    Empty for other remedies.
    """
    if name is not Remedy.AGAIN:
        return ""
    for limit in limits:
        if limit.remedy_id is Remedy.AGAIN:
            return limit.decision.reason
    return ""


def _documents_left(record: AuditRecord, name: Remedy | None) -> int | None:
    """Count the documents that more of them can be taken from; None where all were tried."""
    if name not in MORE_DOCUMENTS or not tried_in_part(record):
        return None
    return sum(record.corpus.documents.get(split, 0) for split in ("member", "heldout"))


def tried_in_part(record: AuditRecord) -> bool:
    """Tell whether the budget or a bound left untried what the data set holds."""
    return record.share < 1 or record.is_bounded
