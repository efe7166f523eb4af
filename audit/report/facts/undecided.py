"""Find what is undecided, and what would decide most of it."""

from collections import Counter

from audit.policy import Decision, Overall, Verdict
from audit.policy.checks import AGAIN
from audit.policy.reasons import ALL, MORE, NO_HELDOUT
from audit.record import AuditRecord
from audit.report.facts.definitions import NextStep, OpenFacts

_WORST_FIRST: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")


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
    remedies = Counter(limit.remedy for limit in limits if limit.remedy)
    for remedy in (NO_HELDOUT, ALL):
        if remedies[remedy]:
            return NextStep(remedy, remedies[remedy], len(limits))
    if not remedies:
        return None
    ((remedy, decides),) = remedies.most_common(1)
    return NextStep(
        remedy=remedy,
        decides=decides,
        open=len(limits),
        reason=_reason_to_mend(remedy, [limit.decision for limit in limits]),
        documents=_documents_left(record, remedy),
    )


def _reason_to_mend(remedy: str, decisions: list[Decision]) -> str:
    """Return the first reason that has to be mended before another scan.

    Empty for other remedies.
    """
    if remedy != AGAIN:
        return ""
    for decision in decisions:
        if decision.remedy == AGAIN:
            return decision.reason
    return ""


def _documents_left(record: AuditRecord, remedy: str) -> int | None:
    """Count the documents that more of them can be taken from; None where all were tried."""
    if not remedy.endswith(MORE) or not tried_in_part(record):
        return None
    return sum(record.corpus.documents.get(split, 0) for split in ("member", "heldout"))


def tried_in_part(record: AuditRecord) -> bool:
    """Tell whether the budget or a bound left untried what the data set holds."""
    return record.share < 1 or record.is_bounded
