"""Residual risk in plain sentences: what stays open whatever the verdict, for the decision report and the DPIA."""

from __future__ import annotations

from collections.abc import Iterator

from audit.measurements import Estimate
from audit.policy import Decision, Policy, Verdict
from audit.record import AuditRecord, Completed
from audit.report import numbers
from audit.report.attack_text import report_of
from audit.report.coverage import CoverageRow, coverage


def residual_risk(record: AuditRecord, verdict: Verdict, policy: Policy) -> tuple[str, ...]:
    """Say what remains, the gravest first: a paragraph each, as plain text.

    Args:
        record: the scan.
        verdict: on it.
        policy: that it was held against.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    paragraphs = (
        _confirmed(verdict),
        _waived(verdict),
        _undecided(verdict),
        _within_limits(verdict, policy),
        _not_examined(coverage(record, verdict)),
        _declared(record),
        _outside(coverage(record, verdict)),
    )
    return tuple(paragraph for paragraph in paragraphs if paragraph)


def _of(verdict: Verdict, *outcomes: str) -> list[Decision]:
    return [decision for decision in verdict.decisions if decision.outcome in outcomes]


def _label(decision: Decision) -> str:
    report = report_of(decision.limit.attack)
    title = report.title or decision.limit.attack
    return f"{title}, {report.label(decision.limit.metric)}"


def _measured(decision: Decision) -> str:
    """The number that a limit was held against, with its interval; empty where there is none."""
    item = decision.measured
    if item is None:
        return ""
    form = report_of(decision.limit.attack).form(decision.limit.metric)
    return f"{numbers.show(item.value, form)}, {numbers.interval(item, form)}".replace(numbers.NBSP, " ")


def _reach(decision: Decision, item: Estimate) -> str:
    """The end of the interval that lies nearer to the limit, or beyond it."""
    form = report_of(decision.limit.attack).form(decision.limit.metric)
    low, high = numbers.ends(item, form)
    text = high if decision.limit.max is not None else low
    unit = numbers.UNIT_LABELS[form]
    reach = f"{text} {unit}" if unit else text
    return f"{'up to' if decision.limit.max is not None else 'down to'} {reach}"


def _listed(items: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(items))


def _confirmed(verdict: Verdict) -> str:
    found = _of(verdict, "violated")
    if verdict.contradicted:
        return f"The guarantee that the model’s training claims does not hold: {verdict.contradicted}."
    if not found:
        return ""
    named = _listed(f"{_label(one)} ({_measured(one)})" for one in found)
    return f"Confirmed over a limit, and there until a new audit shows otherwise: {named}."


def _waived(verdict: Verdict) -> str:
    waived = [(one, one.waiver) for one in _of(verdict, "waived") if one.waiver is not None]
    if not waived:
        return ""
    named = _listed(
        f"{_label(one)} ({_measured(one)}), accepted by {waiver.owner} until {waiver.expires}" for one, waiver in waived
    )
    return f"Over a limit and accepted by a waiver; the leak itself is not smaller for that: {named}."


def _undecided(verdict: Verdict) -> str:
    found = _of(verdict, "undecided")
    if not found:
        return ""
    named = _listed(
        f"{_label(one)} ({_reach(one, one.measured) if one.measured else 'no number'})" for one in found
    )
    return f"Not decided, so that a leak over the limit is not excluded: {named}."


def _within_limits(verdict: Verdict, policy: Policy) -> str:
    met = _of(verdict, "passed")
    if not met:
        return ""
    named = _listed(f"{_label(one)} ({_reach(one, one.measured)})" for one in met if one.measured is not None)
    count = "One limit is" if len(met) == 1 else f"{len(met)} limits are"
    return (
        f"{count} met, which is not nothing: what the policy “{policy.name}” lets through, as far as the 95 % intervals "
        f"reach, remains: {named}."
    )


def _not_examined(rows: tuple[CoverageRow, ...]) -> str:
    gaps = _listed(
        f"{tried.title} ({tried.note})" for row in rows for tried in row.tried if tried.state == "not examined"
    )
    return f"Not examined, so that nothing is known of it: {gaps}." if gaps else ""


def _declared(record: AuditRecord) -> str:
    if not record.target.is_model:
        return "No model was audited: what one that was trained on these documents gives away is not known."
    compared = any(isinstance(result, Completed) for result in record.attacks)
    if not compared:
        return ""
    return (
        "Which documents the model was trained on is what its owner declares. Where that list is wrong or incomplete, "
        "what was found here does not speak of the documents that it was really trained on."
    )


def _outside(rows: tuple[CoverageRow, ...]) -> str:
    outside = _listed(row.outside for row in rows if row.state != "out of scope" and row.outside)
    return (
        f"Out of scope of docaudit, and so not excluded: {outside}. A better attack, and one that becomes known later, "
        "can recover more."
    )
