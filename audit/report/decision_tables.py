"""Limits and waivers as the decision report shows them: what was measured in a table, all else in a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.policy import Decision, Policy, Verdict, Waiver
from audit.report.tables import OUTCOME_LABELS, DecisionRow

CONFIRMED = "the leak is confirmed over the limit"
WITHIN = "the whole interval is within the limit"


@dataclass(frozen=True)
class MeasuredLimit:
    """A limit that a number was held against; `note` says what its outcome does not say already."""

    row: DecisionRow
    note: str


@dataclass(frozen=True)
class OpenLimits:
    """Limits of one attack that have no number, and why."""

    title: str
    labels: tuple[str, ...]
    outcome: str
    word: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class LimitTables:
    """Measured limits by attack, the worst first; those without a number; those that do not apply, in a line."""

    measured: tuple[tuple[str, tuple[MeasuredLimit, ...]], ...]
    unmeasured: tuple[OpenLimits, ...]
    inapplicable: tuple[str, ...]


@dataclass(frozen=True)
class RegisteredWaiver:
    """A waiver of the policy, what it is of, and whether it is in force."""

    waiver: Waiver
    title: str
    label: str
    state: str


def limit_tables(rows: Sequence[tuple[str, DecisionRow]]) -> LimitTables:
    """Sort limits by what is to be said of them.

    Args:
        rows: each limit with the title of its attack, in the order of the policy.
    """
    order = list(OUTCOME_LABELS)
    worst = sorted(rows, key=lambda pair: order.index(pair[1].decision.outcome))
    measured: dict[str, list[MeasuredLimit]] = {}
    unmeasured: dict[tuple[str, str, str, str], list[DecisionRow]] = {}
    for title, row in worst:
        decision = row.decision
        if decision.measured is not None:
            measured.setdefault(title, []).append(MeasuredLimit(row, _note(row)))
        elif decision.outcome != "inapplicable":
            key = (title, decision.outcome, decision.reason, decision.remedy)
            unmeasured.setdefault(key, []).append(row)
    absent = [title for title, row in worst if row.decision.outcome == "inapplicable"]
    return LimitTables(
        tuple((title, tuple(limits)) for title, limits in measured.items()),
        tuple(
            OpenLimits(title, tuple(row.label for row in same), outcome, OUTCOME_LABELS[outcome], reason, remedy)
            for (title, outcome, reason, remedy), same in unmeasured.items()
        ),
        tuple(f"{title} ({absent.count(title)})" for title in dict.fromkeys(absent)),
    )


def _note(row: DecisionRow) -> str:
    """The reason of a decision without what its outcome says already, and what would decide it."""
    decision = row.decision
    reason = decision.reason
    for known in (CONFIRMED, WITHIN):
        reason = reason.removeprefix(known).lstrip(",; ")
    told = [reason]
    if row.power and not row.weak and decision.outcome == "undecided":
        told.append(row.power)
    if decision.remedy:
        told.append(f"to decide it: {decision.remedy}")
    return "; ".join(part for part in told if part)


def waiver_register(
    policy: Policy, verdict: Verdict, rows: Sequence[tuple[str, DecisionRow]]
) -> tuple[RegisteredWaiver, ...]:
    """Every waiver of the policy, those in force first.

    Args:
        policy: whose waivers are listed.
        verdict: that says which of them hold.
        rows: as for `limit_tables`.
    """
    labels = {(row.decision.limit.attack, row.decision.limit.metric): (title, row.label) for title, row in rows}
    decisions = {(item.limit.attack, item.limit.metric): item for item in verdict.decisions}
    registered = []
    for waiver in policy.waivers:
        key = (waiver.attack, waiver.metric)
        title, label = labels[key]
        registered.append(RegisteredWaiver(waiver, title, label, _state(waiver, decisions[key])))
    return tuple(sorted(registered, key=lambda item: item.state != IN_FORCE))


IN_FORCE = "in force"


def _state(waiver: Waiver, decision: Decision) -> str:
    if decision.waiver == waiver:
        return IN_FORCE
    if decision.outcome == "waived":
        return "another one is in force"
    if decision.outcome == "violated":
        _, told, reason = decision.reason.partition("a waiver by ")
        return "not in force: expired" if told and "expired" in reason else "not in force"
    return f"not needed: {OUTCOME_LABELS[decision.outcome].lower()}"
