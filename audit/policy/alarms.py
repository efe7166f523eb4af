"""What makes every number of a scan mean something else than it says."""

from collections.abc import Iterator
from typing import NamedTuple

from audit.policy.decision import Verdict
from audit.policy.grounds import Ground, Remedy, Urgency
from audit.policy.reasons import REMEDIES, useless_sentence
from audit.policy.remedies import OF_CHECK
from audit.policy.rules import MISUNDERSTANDINGS, remedy_of_useless, useless_measure
from audit.record import AuditRecord


class Alarm(NamedTuple):
    """What has to be mended before any other advice helps.

    Attributes:
        urgency: what it is.
        reason: what is wrong, in a sentence without a full stop.
        remedy: what to do about it, likewise.
        remedy_id: the same, for code.
    """

    urgency: Urgency
    reason: str
    remedy: str
    remedy_id: Remedy


def alarms_of_scan(record: AuditRecord) -> Iterator[Alarm]:
    """Yield why the model fails at its task, or that it does, the most urgent first.

    `record`: with settled checks.
    """
    fired = {check.name: check for check in record.checks if check.cause == "alarm" and check.fires}
    for name in MISUNDERSTANDINGS:
        if name in fired:
            check = fired[name]
            yield Alarm(OF_CHECK[name], check.reason, check.remedy, Remedy.OF_RECORD)
    item = useless_measure(record)
    if item is not None:
        remedy = remedy_of_useless(item)
        yield Alarm(Urgency.USELESS, useless_sentence(item), REMEDIES[remedy], remedy)


def alarms_on_limits(verdict: Verdict) -> Iterator[Alarm]:
    """Yield what limits were left open for, or exceeded by, that is an alarm."""
    for decision in verdict.decisions:
        if decision.ground is Ground.CONFIRMED_MIRRORED:
            remedy = Remedy.CHECK_SIDES
            yield Alarm(Urgency.SWAPPED_SIDES, decision.reason, REMEDIES[remedy], remedy)
        elif decision.urgency is not None and decision.urgency.is_alarm:
            assert decision.remedy_id is not None
            yield Alarm(decision.urgency, decision.reason, decision.remedy, decision.remedy_id)


def first_alarm(verdict: Verdict) -> Alarm | None:
    """Return the most urgent alarm of a verdict; None where it raises none."""
    alarms = [*alarms_of_scan(verdict.settled.record), *alarms_on_limits(verdict)]
    return min(alarms, key=lambda alarm: alarm.urgency, default=None)
