"""Say what a scan tells nothing about, and what remains whatever is decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from audit.attacks import TEXTS
from audit.policy import Decision, Policy, Verdict
from audit.record import AuditRecord, Result
from audit.report import numbers
from audit.report.attack_text import AttackMacros
from audit.report.coverage import CoverageRow, coverage
from audit.report.labels import report_of

TOO_OLD, SCAN_AGAIN = "not in the version that scanned", "scan again"
NEVER = (
    "No attack tries to give back pictures, such as signatures or photographs: what is attacked is words. Attacks that "
    "nobody has published yet are not among those that were run."
)


@dataclass(frozen=True)
class Gap:
    """What could have been examined.

    Attributes:
        question: that stays open.
        reason: why it was not examined.
        remedy: what would let it be; empty where nothing would.
    """

    title: str
    question: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Unexamined:
    """What was not examined: gaps, what does not apply by reason, and in sentences what was examined in part."""

    gaps: tuple[Gap, ...]
    harmless: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]


def unexamined(record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]) -> Unexamined:
    """List what a record says nothing about.

    Args:
        record: the scan.
        verdict: on it: what a policy asks for all the same is a gap.
        texts: of every attack that the record names.
    """
    wanted = {decision.limit.attack: decision.remedy for decision in verdict.decisions if decision.cause == "gap"}
    gaps: list[Gap] = []
    harmless: dict[str, list[str]] = {}
    if not record.target.is_model:
        gaps.append(_no_model())
    for attack in dict.fromkeys([*(result.attack for result in record.attacks), *record.battery]):
        if attack in record.completed:
            continue
        result = record.results.get(attack)
        text = texts[attack]
        barred = result is not None and result.reason is not None and result.reason.kind == "model"
        reason, remedy = _why(result)
        if barred and attack not in wanted:
            harmless.setdefault(reason, []).append(text.title)
        else:
            gaps.append(Gap(text.title, text.report.question, reason, wanted[attack] if barred else remedy))
    if record.target.is_model:
        reports = [(name, text) for name, text in TEXTS.items() if name not in record.battery]
        gaps += [Gap(one.title or name, one.question, TOO_OLD, SCAN_AGAIN) for name, one in reports]
    return Unexamined(
        tuple(gaps),
        tuple((", ".join(titles), reason) for reason, titles in harmless.items()),
        (*_in_part(record, texts), NEVER),
    )


def _no_model() -> Gap:
    return Gap(
        "Any model",
        "What does a model that was trained on these documents give away?",
        "no model was audited",
        "docaudit scan MODEL_DIR DATA_DIR",
    )


def _why(result: Result | None) -> tuple[str, str]:
    """Why an attack gave no result, and what would let it."""
    if result is None or result.reason is None or result.reason.kind == "left out":
        return "not asked for in this scan", "scan without --only"
    why, fix = result.reason.why, result.reason.fix
    if result.status == "failed":
        return f"broke down ({why})", "report this failure with the record"
    if result.status == "left out" and result.reason.kind == "data":
        return f"not asked for in this scan; {why}", fix
    return why, fix


def _in_part(record: AuditRecord, texts: Mapping[str, AttackMacros]) -> Iterator[str]:
    """What was examined, and not as far as it could be, a sentence each."""
    if record.share < 1:
        share = numbers.show(record.share, "share")
        yield f"A part of the values: the budget “{record.budget}” took {share} of what could be tried."
    for untested in record.untested:
        yield f"Not tested: {untested}."
    bounds = record.bounds
    if bounds is not None and bounds.documents is not None:
        yield f"A part of the documents: at most {bounds.documents:,} of those trained on and never seen were tried."
    elif bounds is not None and bounds.seconds is not None:
        yield f"A part of the documents: they were tried as far as {numbers.duration(bounds.seconds)} allowed."
    for result in record.completed.values():
        title = texts[result.attack].title
        for ablation in result.ablations:
            yield f"{title}, with the attacker weakened: {ablation}. Nothing is passed on that."
        if result.parameters_file:
            yield f"{title}, with parameters that a file set in place of the usual ones."


Named = Iterable[tuple[Decision, str]]
"""Limits, each with something about it."""


def residual_risk(record: AuditRecord, verdict: Verdict, policy: Policy) -> tuple[str, ...]:
    """Say what remains, the gravest first: a paragraph each, as plain text.

    Args:
        record: the scan.
        verdict: on it.
        policy: that it was held against.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    rows = coverage(record, verdict)
    limits = (*_confirmed(verdict), *_waived(verdict), *_undecided(verdict), *_met(verdict, policy))
    told = [f"{head}: {_grouped(named)}." for head, named in limits]
    if verdict.contradicted:
        told.insert(0, f"The guarantee that the model’s training claims does not hold: {verdict.contradicted}.")
    return tuple(filter(None, (*told, _not_examined(rows), _declared(record), _outside(rows))))


def _grouped(items: Named) -> str:
    """Limits by attack: "Attack: label (text), label (text); Attack: ..."."""
    groups: dict[str, list[str]] = {}
    for decision, text in items:
        report = report_of(decision.limit.attack)
        label = f"{report.label(decision.limit.metric)} ({text})"
        groups.setdefault(report.title or decision.limit.attack, []).append(label)
    shown = {title: dict.fromkeys(labels) for title, labels in groups.items()}
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
    if not record.completed:
        return ""
    return (
        "Which documents the model was trained on is what its owner declares. Where that list is wrong or incomplete, "
        "what was found here does not speak of the documents that it was really trained on."
    )


def _outside(rows: tuple[CoverageRow, ...]) -> str:
    better = "A better attack, and one that becomes known later, can recover more"
    outside = _listed(row.outside for row in rows if row.state != "out of scope" and row.outside)
    return f"Out of scope of docaudit, and so not excluded: {outside}. {better}."
