"""The report as one HTML page: everything a template needs, prepared; nothing is fetched, nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from audit.policy import Policy, Verdict
from audit.record import AuditRecord, Completed
from audit.report import compact, tables
from audit.report.attack_figures import DrawnFigure, draw, forgotten
from audit.report.jinja import environment, template_errors
from audit.report.recommend import Recommendation, recommend
from audit.report.words import AttackText, ResultIndex, in_one_line

FIRST_PAGE_LIMITS = 4
"""Limits shown on page one, the worst first; all of them follow in their own chapter (chosen here: what fits on A4)."""
FIRST_PAGE_RISKS = 3
"""Attacks described on page one, those with a violated limit first; every attack has its own section after it."""


@dataclass(frozen=True)
class PartView:
    """A part of an attack with figures and tables of its own; `mark` and `reason` are empty unless it carries one."""

    title: str
    text: Markup
    mark: str
    reason: str
    figures: tuple[DrawnFigure, ...]
    tables: tuple[compact.CompactTable, ...]


@dataclass(frozen=True)
class CompletedView:
    """A completed attack, in words; `unlisted` measurements are left out of its table, for its parts show them."""

    result: Completed
    words: AttackText
    risk: Markup
    method: Markup
    table: tables.MeasurementTable
    unlisted: int
    figures: tuple[DrawnFigure, ...]
    parts: tuple[PartView, ...]


def html(record: AuditRecord, verdict: Verdict, policy: Policy, revealed: object | None = None) -> str:
    """The whole report.

    Args:
        record: what was measured.
        verdict: what `policy.evaluate` said about it.
        policy: the policy it was held against.
        revealed: recovered values by attack, for the report that stays in `evidence/`; None everywhere else.

    Raises:
        RenderError: a template or `defenses.toml` is missing or broken.
    """
    with template_errors():
        templates = environment()
        words = {name: AttackText(templates, name) for name in _attacks(record, verdict)}
        return templates.get_template("report.html").render(
            _context(record, verdict, policy, words, AttackText(templates, "_utility")), revealed=revealed
        )


def _attacks(record: AuditRecord, verdict: Verdict) -> list[str]:
    """Every attack that the record or the policy names, once."""
    named = [result.attack for result in record.attacks] + [item.limit.attack for item in verdict.decisions]
    return list(dict.fromkeys([*named, *record.battery]))


def _context(
    record: AuditRecord, verdict: Verdict, policy: Policy, words: dict[str, AttackText], utility: AttackText
) -> dict[str, Any]:
    rows = [tables.decision_row(decision, words[decision.limit.attack]) for decision in verdict.decisions]
    order = list(tables.OUTCOME_WORDS)
    worst_first = sorted(rows, key=lambda row: (order.index(row.decision.outcome), not row.measured))
    # What was not tried is told of in another place on page one, and all limits on the pages behind it.
    tried = [row for row in worst_first if row.decision.outcome not in ("not run", "inapplicable")]
    first_rows = (tried or worst_first)[:FIRST_PAGE_LIMITS]
    views = _views(record, words)
    violated = {item.limit.attack for item in verdict.decisions if item.outcome == "violated"}
    risks = sorted(views, key=lambda view: view.result.attack not in violated)
    return {
        "record": record,
        "verdict": verdict,
        "policy": policy,
        "words": words,
        "rows": rows,
        "first_rows": first_rows,
        "more_rows": len(rows) - len(first_rows),
        "first_risks": risks[:FIRST_PAGE_RISKS],
        "more_risks": max(0, len(risks) - FIRST_PAGE_RISKS),
        "views": views,
        "others": [result for result in record.attacks if not isinstance(result, Completed)],
        "not_asked": [name for name in record.battery if name not in {item.attack for item in record.attacks}],
        "recommendations": recommend(record, verdict),
        "reason_words": _reason_words(words),
        "utility": tables.measurement_table(record.utility, utility),
        "glossary": _glossary(words, views),
        "sources": list(dict.fromkeys(source for item in words.values() for source in item.sources)),
    }


def _views(record: AuditRecord, words: dict[str, AttackText]) -> list[CompletedView]:
    views: list[CompletedView] = []
    drawn = 0
    for result in record.attacks:
        if isinstance(result, Completed):
            views.append(_view(result, words[result.attack], drawn))
            drawn += len(views[-1].figures) + sum(len(part.figures) for part in views[-1].parts)
    return views


def _view(result: Completed, words: AttackText, drawn: int) -> CompletedView:
    asked = [*words.figures, *(spec for part in words.parts for spec in part["figures"])]
    pictures = draw([*words.figures, *forgotten(result, asked)], result, drawn)
    drawn += len(pictures)
    measured = ResultIndex(result)
    parts: list[PartView] = []
    for spec in words.parts:
        part = _part(spec, result, measured, words, drawn)
        if part.figures or part.tables or (part.text and not spec["figures"] and not spec["tables"]):
            parts.append(part)
            drawn += len(part.figures)
    listed = [item for item in result.measurements if words.listed(item.name)]
    return CompletedView(
        result=result,
        words=words,
        risk=words.risk(measured),
        method=words.method(result),
        table=tables.measurement_table(listed, words),
        unlisted=len(result.measurements) - len(listed),
        figures=pictures,
        parts=tuple(parts),
    )


def _part(spec: dict[str, Any], result: Completed, measured: ResultIndex, words: AttackText, drawn: int) -> PartView:
    mark = spec.get("mark", {})
    marked = any(item.name == mark.get("diagnostic") and item.value < mark["under"] for item in result.diagnostics)
    return PartView(
        title=str(spec["title"]),
        text=in_one_line(spec["text"](measured)),
        mark=str(mark["word"]) if marked else "",
        reason=str(mark["reason"]) if marked else "",
        figures=draw(spec["figures"], result, drawn),
        tables=compact.compact_tables(spec["tables"], measured, words),
    )


def _reason_words(words: dict[str, AttackText]) -> Any:
    """A function that says in words which findings a recommendation answers."""
    states = {
        "violated": "over its limit",
        "confounded": "undecided, something else than memory can explain the numbers",
        "weak": "undecided, the attacker was too weak",
        "useless": "undecided, the model does not do its task as it is asked",
        "alarm": "undecided, something else speaks for a leak",
        "uncovered": "undecided, too little of what could leak was tried",
        "gap": "undecided, this kind of model cannot be asked",
        "weakened": "undecided, the attacker was not at its full strength",
        "wide": "undecided, the interval reaches over the limit",
        "unresolved": "undecided, too few units",
        "unmeasured": "not measured",
        "clean": "every limit that applies is met",
        "unchecked": "no limit applies to this model",
        "waived": "waived",
        "above": "measured, whole interval",
    }

    def say(item: Recommendation) -> list[str]:
        return [
            f"{words[finding.attack].label(finding.metric)} ({states[finding.state]})"
            if finding.attack in words
            else states[finding.state]
            for finding in item.findings
        ]

    return say


def _glossary(words: dict[str, AttackText], views: Sequence[CompletedView]) -> list[tuple[str, str]]:
    """The terms of the attacks that ran, each once, sorted with the general ones by the template."""
    shown = [view.words for view in views] or list(words.values())
    meanings: dict[str, str] = {}
    for term, meaning in (entry for item in shown for entry in item.glossary):
        meanings.setdefault(term, meaning)
    return list(meanings.items())
