"""The report as one HTML page: everything a template needs, prepared; nothing is fetched, nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from audit.errors import RenderError
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, Completed, Estimate
from audit.report import figures, numbers, tables
from audit.report.recommend import Recommendation, recommend
from audit.report.words import Numbers, Words, category_words
from audit.resources import folder

FIRST_PAGE_LIMITS = 5
"""Limits shown on page one, the worst first; all of them follow in their own chapter (chosen here: what fits on A4)."""
FIRST_PAGE_RISKS = 3
"""Attacks described on page one, those with a violated limit first; every attack has its own section after it."""


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, its caption and what it shows in words."""

    number: int
    svg: Markup
    caption: str


@dataclass(frozen=True)
class CompletedView:
    """A completed attack, in words."""

    result: Completed
    words: Words
    risk: Markup
    method: Markup
    table: tables.MeasurementTable
    figures: tuple[DrawnFigure, ...]


def html(record: AuditRecord, verdict: Verdict, policy: Policy, revealed: Sequence[object] | None = None) -> str:
    """The whole report.

    Args:
        record: what was measured.
        verdict: what `policy.evaluate` said about it.
        policy: the policy it was held against.
        revealed: rows of recovered values, for the report that stays in `evidence/`; None everywhere else.

    Raises:
        RenderError: a template or `defenses.toml` is missing or broken.
    """
    try:
        environment = _environment()
        words = {name: Words(environment, name) for name in _attacks(record, verdict)}
        return environment.get_template("report.html").render(
            _context(record, verdict, policy, words, Words(environment, "_utility")), revealed=revealed
        )
    except jinja2.TemplateError as error:
        place = f"{error.name}:{error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise RenderError(f"the report's templates: {place}{error.message}", "install docaudit again") from None


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        show=numbers.show,
        bare=numbers.bare,
        interval=numbers.interval,
        between=numbers.between,
        reached=numbers.reached,
        plain=numbers.plain,
        limit_text=numbers.limit_text,
        moment=numbers.moment,
        day=numbers.day,
        duration=numbers.duration,
        category=category_words,
        capitalize_first=lambda text: text[:1].upper() + text[1:],
    )
    return environment


def _attacks(record: AuditRecord, verdict: Verdict) -> list[str]:
    """Every attack that the record or the policy names, once."""
    named = [result.attack for result in record.attacks] + [item.limit.attack for item in verdict.decisions]
    return list(dict.fromkeys([*named, *record.battery]))


def _context(
    record: AuditRecord, verdict: Verdict, policy: Policy, words: dict[str, Words], utility: Words
) -> dict[str, Any]:
    rows = [tables.decision_row(decision, words[decision.limit.attack]) for decision in verdict.decisions]
    order = list(tables.OUTCOME_WORDS)
    worst_first = sorted(rows, key=lambda row: order.index(row.decision.outcome))
    views = _views(record, words)
    violated = {item.limit.attack for item in verdict.decisions if item.outcome == "violated"}
    risks = sorted(views, key=lambda view: view.result.attack not in violated)
    return {
        "record": record,
        "verdict": verdict,
        "policy": policy,
        "words": words,
        "rows": rows,
        "first_rows": worst_first[:FIRST_PAGE_LIMITS],
        "more_rows": max(0, len(rows) - FIRST_PAGE_LIMITS),
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


def _views(record: AuditRecord, words: dict[str, Words]) -> list[CompletedView]:
    views = []
    drawn = 0
    for result in record.attacks:
        if not isinstance(result, Completed):
            continue
        about = words[result.attack]
        pictures = _figures(result, about, drawn)
        drawn += len(pictures)
        views.append(
            CompletedView(
                result=result,
                words=about,
                risk=about.risk(Numbers(result)),
                method=about.method(result),
                table=tables.measurement_table(result.measurements, about),
                figures=pictures,
            )
        )
    return views


def _figures(result: Completed, words: Words, drawn: int) -> tuple[DrawnFigure, ...]:
    """The figures that the attack's template asks for and the record can fill, and any histogram it forgot."""
    asked = words.figures
    named = {spec.get("histogram") for spec in asked}
    asked += [
        {"histogram": item.name, "caption": item.quantity} for item in result.histograms if item.name not in named
    ]
    pictures: list[DrawnFigure] = []
    for spec in asked:
        number = drawn + len(pictures) + 1
        svg = _figure(spec, result, f"figure{number}")
        if svg:
            pictures.append(DrawnFigure(number, Markup(svg), str(spec["caption"])))
    return tuple(pictures)


def _figure(spec: dict[str, Any], result: Completed, name: str) -> str:
    """One figure as SVG; empty when the record has nothing for it."""
    if "histogram" in spec:
        found = next((item for item in result.histograms if item.name == spec["histogram"]), None)
        if found is None or not any(sum(counts) for counts in found.counts.values()):
            return ""
        return figures.distribution(name, found, spec.get("words", {}))
    measured = Numbers(result)
    metrics = [series["metric"] for panel in spec["panels"] for series in panel["series"]]
    kinds = [kind for kind in result.categories if any(measured.get(f"{metric}.{kind}") for metric in metrics)]
    if not kinds:
        return ""
    panels = [
        figures.Panel(
            panel["title"],
            tuple(
                figures.Series(
                    series["label"],
                    tuple(
                        _point(measured.get(f"{series['metric']}.{kind}"), panel.get("complement", False))
                        for kind in kinds
                    ),
                )
                for series in panel["series"]
            ),
        )
        for panel in spec["panels"]
    ]
    return figures.by_category(name, [category_words(kind) for kind in kinds], panels)


def _point(estimate: Estimate | None, complement: bool) -> figures.Point | None:
    """An estimate for drawing; `complement` shows a distance as what is not distant (1 - value)."""
    if estimate is None:
        return None
    if complement:
        return figures.Point(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
    return figures.Point(estimate.value, estimate.low, estimate.high)


def _reason_words(words: dict[str, Words]) -> Any:
    """A function that says in words which findings a recommendation answers."""
    states = {
        "violated": "over its limit",
        "weak": "undecided, the attacker was too weak",
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


def _glossary(words: dict[str, Words], views: Sequence[CompletedView]) -> list[tuple[str, str]]:
    """The terms of the attacks that ran, sorted with the general ones by the template."""
    shown = [view.words for view in views] or list(words.values())
    return [entry for item in shown for entry in item.glossary]
