"""Find what is undecided, and what to mend first."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from audit.policy import Overall, Verdict
from audit.policy.alarms import Alarm, first_alarm
from audit.policy.grounds import OWN_WORDS, Remedy, Urgency
from audit.record import AuditRecord
from audit.report.facts.definitions import NextStep, OpenFacts

_WORST_FIRST: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")
_BEFORE_A_LEAK = (
    Urgency.LABEL_ORDER,
    Urgency.REFUSALS,
    Urgency.WAY_OF_WRITING,
    Urgency.SWAPPED_SIDES,
)
"""Alarms that come before the remedies of a confirmed leak: its numbers are of something else."""


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


def alarm_of(verdict: Verdict) -> Alarm | None:
    """Return what has to be mended before anything else; None where nothing is alarming.

    Beside a confirmed leak only what makes its numbers those of something else is.
    """
    outcome = deciding_outcome(verdict)
    if outcome not in ("violated", "undecided"):
        return None
    alarm = first_alarm(verdict)
    if alarm is None or outcome == "undecided":
        return alarm
    if alarm.urgency in _BEFORE_A_LEAK:
        return alarm
    return None


def next_step(record: AuditRecord, verdict: Verdict) -> NextStep | None:
    """Return the one thing to do about undecided limits.

    That is what mends their most urgent cause (`Urgency`). Of several remedies as urgent it is the
    one of most limits.

    Returns:
        None where no limit is undecided, or nothing known would decide one.
    """
    limits = [limit for limit in open_limits(record, verdict) if limit.remedy]
    if not limits:
        return None
    most_urgent = min(limit.urgency for limit in limits)
    urgent = [limit for limit in limits if limit.urgency == most_urgent]
    advice = Counter(_advice_on(limit) for limit in urgent)
    ((commonest, decides),) = advice.most_common(1)
    answered = [limit for limit in urgent if _advice_on(limit) == commonest]
    return NextStep(
        remedy=commonest.words,
        remedy_id=commonest.name,
        urgency=most_urgent,
        decides=decides,
        open=len(open_limits(record, verdict)),
        documents=_documents_left(record, commonest.name, urgent),
        limits=_pairs(answered),
    )


def _pairs(limits: Sequence[OpenFacts]) -> frozenset[tuple[str, str]]:
    """Return attack and metric of limits."""
    decided = [limit.decision.limit for limit in limits]
    return frozenset((limit.attack, limit.metric) for limit in decided)


def _advice_on(limit: OpenFacts) -> _Advice:
    """Return what would decide a limit, so that equal advice on several is counted together."""
    if limit.remedy_id in OWN_WORDS:
        return _Advice(None, limit.remedy)
    return _Advice(limit.remedy_id, limit.remedy)


def _documents_left(
    record: AuditRecord, name: Remedy | None, limits: Sequence[OpenFacts]
) -> int | None:
    """Count the documents that more of them can be taken from; None where all were tried."""
    if name is not Remedy.STATE_RULE:
        return None
    if not any(record.left_untried(limit.decision.limit.attack) for limit in limits):
        return None
    return sum(record.corpus.documents.get(split, 0) for split in ("member", "heldout"))
