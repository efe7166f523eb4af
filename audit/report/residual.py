"""Residual risk in plain sentences: what stays open whatever the verdict, for the decision report and the DPIA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from audit.policy import Decision, Policy, Verdict
from audit.record import AuditRecord, Completed
from audit.report import numbers
from audit.report.coverage import CoverageRow, coverage
from audit.report.labels import report_of

Named = Iterable[tuple[Decision, str]]
"""Limits, each with something about it."""


def residual_risk(record: AuditRecord, verdict: Verdict, policy: Policy, brief: bool = False) -> tuple[str, ...]:
    """Say what remains, the gravest first: a paragraph each, as plain text.

    Args:
        record: the scan.
        verdict: on it.
        policy: that it was held against.
        brief: name the first limit of an attack alone, and point to the annex for what is out of scope.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    rows = coverage(record, verdict)
    limits = (*_confirmed(verdict), *_waived(verdict), *_undecided(verdict), *_met(verdict, policy))
    told = [f"{head}: {_grouped(named, brief)}." for head, named in limits]
    if verdict.contradicted:
        told.insert(0, f"The guarantee that the model’s training claims does not hold: {verdict.contradicted}.")
    return tuple(filter(None, (*told, _not_examined(rows), _declared(record), _outside(rows, brief))))


def _grouped(items: Named, brief: bool) -> str:
    """Limits by attack: "Attack: label (text), label (text); Attack: ..."; of each attack the first alone if brief."""
    groups: dict[str, list[str]] = {}
    for decision, text in items:
        report = report_of(decision.limit.attack)
        label = f"{report.label(decision.limit.metric)} ({text})"
        groups.setdefault(report.title or decision.limit.attack, []).append(label)
    shown = {title: list(dict.fromkeys(labels))[: 1 if brief else None] for title, labels in groups.items()}
    return "; ".join(f"{title}: {', '.join(labels)}" for title, labels in shown.items())


def _of(verdict: Verdict, outcome: str) -> list[Decision]:
    return [decision for decision in verdict.decisions if decision.outcome == outcome]


def _measured(decision: Decision) -> str:
    """The number that a limit was held against, with its interval."""
    item = decision.measured
    if item is None:
        return "no number"
    form = report_of(decision.limit.attack).form(decision.limit.metric)
    return f"{numbers.show(item.value, form)}, {numbers.interval(item, form)}".replace(numbers.NBSP, " ")


def _reach(decision: Decision) -> str:
    """The end of the interval that lies nearer to the limit, or beyond it."""
    item = decision.measured
    if item is None:
        return "no number"
    form = report_of(decision.limit.attack).form(decision.limit.metric)
    low, high = numbers.ends(item, form)
    reach = f"up to {high}" if decision.limit.max is not None else f"down to {low}"
    return f"{reach} {numbers.UNIT_LABELS[form]}".strip()


def _confirmed(verdict: Verdict) -> Iterator[tuple[str, Named]]:
    for about_text, subject in ((False, "The model"), (True, "The documents’ own text, whatever the model,")):
        found = [(one, _measured(one)) for one in _of(verdict, "violated") if one.about_text == about_text]
        if found:
            yield (
                f"{subject} gives away more than a limit allows, which is confirmed and remains until a new audit "
                "shows otherwise",
                found,
            )


def _waived(verdict: Verdict) -> Iterator[tuple[str, Named]]:
    found = [
        (
            one,
            f"{_measured(one)}; accepted by {one.waiver.owner}, {one.waiver.role}, until {one.waiver.expires}; instead "
            f"of mending it: {one.waiver.measure} (quoted from the waiver)",
        )
        for one in _of(verdict, "waived")
        if one.waiver is not None
    ]
    if found:
        yield "Over a limit and accepted by a waiver, which does not make the leak smaller", found


def _undecided(verdict: Verdict) -> Iterator[tuple[str, Named]]:
    found = [(one, _reach(one)) for one in _of(verdict, "undecided")]
    if found:
        yield "Not decided, so that a leak over the limit is not excluded", found


def _met(verdict: Verdict, policy: Policy) -> Iterator[tuple[str, Named]]:
    met = [(one, _reach(one)) for one in _of(verdict, "passed")]
    if met:
        count = "One limit is" if len(met) == 1 else f"{len(met)} limits are"
        yield (
            f"{count} met, which does not mean no leak. What the policy “{policy.name}” lets through remains, as far "
            "as the 95 % intervals reach",
            met,
        )


def _listed(items: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(items))


def _not_examined(rows: tuple[CoverageRow, ...]) -> str:
    gaps = _listed(
        f"{tried.title} ({tried.note})"
        for row in rows
        for tried in row.tried
        if tried.state == "not examined" and not tried.repeated
    )
    return f"Not examined, so that nothing is known of it: {gaps}." if gaps else ""


def _declared(record: AuditRecord) -> str:
    if not record.target.is_model:
        return "No model was audited: what one that was trained on these documents gives away is not known."
    if not any(isinstance(result, Completed) for result in record.attacks):
        return ""
    return (
        "Which documents the model was trained on is what its owner declares. Where that list is wrong or incomplete, "
        "what was found here does not speak of the documents that it was really trained on."
    )


def _outside(rows: tuple[CoverageRow, ...], brief: bool) -> str:
    better = "A better attack, and one that becomes known later, can recover more"
    if brief:
        return f"{better}; what no attack of docaudit tries is listed in the annex."
    outside = _listed(row.outside for row in rows if row.state != "out of scope" and row.outside)
    return f"Out of scope of docaudit, and so not excluded: {outside}. {better}."
