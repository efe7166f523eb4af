"""The report as one HTML page: everything a template needs, prepared; nothing is fetched, nothing is decided here."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from audit.attacks.figure_text import (
    HistogramFigure,
    ReportPart,
)
from audit.policy import Policy, Verdict
from audit.policy.identity import looser
from audit.record import AuditRecord, Result
from audit.report import compact, tables
from audit.report.answer import decides_most, findings
from audit.report.attack_figures import DrawnFigure, draw, unspecified
from audit.report.attack_text import AttackMacros, ResultIndex, in_one_line
from audit.report.comparison import Comparison
from audit.report.coverage import LegalView, legal_view
from audit.report.decision import LEAK_ORDER, DecisionView, decision_view, outcome_of
from audit.report.guarantee import GuaranteeView, guarantee_view
from audit.report.jinja import environment, template_errors
from audit.report.labels import UTILITY
from audit.report.leaks import (
    MeasuredLeak,
    Plausibility,
    documents_used,
    plausibility,
    tried_in_part,
    unlimited,
    within,
)
from audit.report.recommend import Recommendation, recommend
from audit.report.residual import Unexamined, residual_risk, unexamined
from audit.resources import folder

MOST_OUTSIDE = 2
"""Findings that no limit is on, on page one (ours: what A4 holds); the annex has every measurement."""
MOST_FIGURES = 2
"""Figures of the decision report, one for an attack whose limit is violated (ours: it keeps to 6 pages with these)."""
CLEAR = HistogramFigure
"""Figures that are read without knowing what a curve of false alarms is."""
MOST_PLANNED = 3
"""Countermeasures of the decision report; the annex has all of them (ours, for the same reason)."""
CONTENTS = "<!--contents-->"
"""The place of the contents in a page whose sections are not known before it is drawn."""
_SECTION = re.compile(
    r'<section\b[^>]*\bid="(?P<anchor>[\w-]+)"[^>]*>\s*(?:<h2\b[^>]*\btitle\b[^>]*>(?P<title>.*?)</h2>)?',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]+>")


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
    """A completed attack as text; `unlisted` measurements are left out of its table, because its parts show them."""

    result: Result
    text: AttackMacros
    leak: Markup
    more: Markup
    check: Markup
    method: Markup
    table: tables.MeasurementTable
    unlisted: int
    figures: tuple[DrawnFigure, ...]
    parts: tuple[PartView, ...]


@dataclass(frozen=True)
class BriefFinding:
    """An attack in the decision report: what page one does not say of it, and a figure where one helps."""

    view: CompletedView
    text: Markup
    figure: DrawnFigure | None


@dataclass(frozen=True)
class ReportView:
    """What the templates of the decision report and of the annex show.

    Attributes:
        decision: page one.
        outside, accepted: measured leaks that no limit is on, and those that met limits leave.
        most_outside, most_planned: how many of them page one lists, and how many countermeasures the decision report.
        declared: whether anything shows that the model saw the documents declared as trained on.
        used: attacks that used fewer documents than declared.
        in_part: that a budget or a bound left a part untried; empty where none did.
        limits, rows: the limits of the policy, sorted for the decision report, and one by one.
        found, decides_most: what attacks found although limits are undecided, and what would decide most of them.
        views, brief: the attacks that ran, and what the decision report says of them.
        glossary: terms of the attacks that ran.
    """

    record: AuditRecord
    verdict: Verdict
    policy: Policy
    texts: Mapping[str, AttackMacros]
    decision: DecisionView
    outside: Sequence[MeasuredLeak]
    accepted: Sequence[MeasuredLeak]
    declared: Plausibility | None
    used: Sequence[str]
    in_part: str
    unexamined: Unexamined
    limits: tables.LimitTables
    rows: Sequence[tables.DecisionRow]
    found: Sequence[str]
    decides_most: str
    views: Sequence[CompletedView]
    brief: Sequence[BriefFinding]
    recommendations: Sequence[Recommendation]
    guarantee: GuaranteeView | None
    utility: tables.MeasurementTable
    legal: LegalView
    residual: Sequence[str]
    glossary: Sequence[tuple[str, str]]
    sources: Sequence[str]
    most_outside: int = MOST_OUTSIDE
    most_planned: int = MOST_PLANNED


def report_view(
    record: AuditRecord, verdict: Verdict, policy: Policy, comparisons: Sequence[Comparison] = ()
) -> ReportView:
    """Prepare what both reports of a record show.

    Args:
        record: the measurements.
        verdict: of `policy.evaluate` on them.
        policy: the policy it was held against.
        comparisons: what countermeasures were measured to do to this model.

    Raises:
        RenderError: a template or `defenses.toml` is missing or broken.
    """
    with template_errors():
        named = [result.attack for result in record.attacks] + [item.limit.attack for item in verdict.decisions]
        texts = {name: AttackMacros(environment(), name) for name in dict.fromkeys([*named, *record.battery])}
        rows = [tables.decision_row(decision, texts[decision.limit.attack].report) for decision in verdict.decisions]
        titled = [(texts[row.decision.limit.attack].title, row) for row in rows]
        views = _views(record, verdict, texts)
        outside, accepted, declared = unlimited(record, verdict), within(record, verdict), plausibility(record, verdict)
        in_part, undecided = tried_in_part(record), verdict.overall == "undecided"
        beside = [*([declared.sentence] if declared else []), *filter(None, [in_part])]
        for found in (accepted, outside):
            beside += [*(leak.sentence for leak in found[:MOST_OUTSIDE]), *("", "") * bool(found)]
        decision = decision_view(record, verdict, policy, texts, beside)
        return ReportView(
            record=record,
            verdict=verdict,
            policy=policy,
            texts=texts,
            decision=decision,
            outside=outside,
            accepted=accepted,
            declared=declared,
            used=documents_used(record),
            in_part=in_part,
            unexamined=unexamined(record, verdict, texts),
            limits=tables.limit_tables(titled, {view.result.attack for view in views}, looser(policy)),
            rows=rows,
            found=[*findings(record, verdict)] if undecided else [],
            decides_most=decides_most(record, verdict) if undecided else "",
            views=views,
            brief=_brief(views, {leak.attack for leak in decision.leaks if leak.in_full}, verdict),
            recommendations=recommend(record, verdict, comparisons),
            guarantee=guarantee_view(record),
            utility=tables.measurement_table(record.utility, UTILITY),
            legal=legal_view(record, verdict),
            residual=residual_risk(record, verdict, policy),
            glossary=_glossary(texts, views),
            sources=list(dict.fromkeys(source for view in views for source in view.text.report.sources)),
        )


def render(page: Literal["report.html", "decision.html"], view: ReportView, revealed: object | None = None) -> str:
    """Draw the annex, or the decision report: what who decides has to read and to sign.

    Args:
        page: its template.
        view: what it shows.
        revealed: recovered values by attack, for the report that stays in `evidence/`; None everywhere else.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates, own = environment(), script()
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        text = templates.get_template(page).render(
            vars(view), revealed=revealed, script=Markup(own), script_hash=f"sha256-{digest}"
        )
        entries = [
            (found["anchor"], Markup(_TAG.sub("", found["title"] or "Summary")))
            for found in _SECTION.finditer(text)
            if found["title"] or found["anchor"] == "summary"
        ]
        return text.replace(CONTENTS, templates.get_template("_contents.html").render(parts=entries), 1)


def script() -> str:
    """Read the page's script: it searches the page and opens what is folded; no other one runs in it."""
    return (folder("templates") / "search.js").read_text(encoding="utf-8")


def html(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    revealed: object | None = None,
    comparisons: Sequence[Comparison] = (),
) -> str:
    """Draw the annex of a record; see `report_view` and `render`."""
    return render("report.html", report_view(record, verdict, policy, comparisons), revealed)


def decision_html(record: AuditRecord, verdict: Verdict, policy: Policy, comparisons: Sequence[Comparison] = ()) -> str:
    """Draw the decision report of a record; see `report_view` and `render`."""
    return render("decision.html", report_view(record, verdict, policy, comparisons))


def _brief(views: Sequence[CompletedView], in_full: AbstractSet[str], verdict: Verdict) -> list[BriefFinding]:
    """The findings in the order of page one, without the sentences of the attacks that page one tells in full."""
    told = [(view, outcome_of(view.result.attack, verdict.decisions)) for view in views]
    told.sort(key=lambda pair: LEAK_ORDER.index(pair[1]))
    drawn = 0
    brief: list[BriefFinding] = []
    for view, outcome in told:
        figures = [*view.figures, *(figure for part in view.parts for figure in part.figures)]
        clear = [figure for figure in figures if isinstance(figure.spec, CLEAR)]
        figure = clear[0] if clear and outcome in ("violated", "waived") and drawn < MOST_FIGURES else None
        drawn += figure is not None
        text = view.more if view.result.attack in in_full else Markup(" ").join([view.leak, view.more])
        if text or figure:
            brief.append(BriefFinding(view, text, None if figure is None else replace(figure, number=drawn)))
    return brief


def _views(record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]) -> list[CompletedView]:
    views: list[CompletedView] = []
    drawn = 0
    for result in record.completed.values():
        views.append(_view(result, verdict, texts[result.attack], drawn))
        drawn += len(views[-1].figures) + sum(len(part.figures) for part in views[-1].parts)
    return views


def _view(result: Result, verdict: Verdict, text: AttackMacros, drawn: int) -> CompletedView:
    report = text.report
    specified = [*report.figures, *(figure for part in report.parts for figure in part.figures)]
    figures = draw([*report.figures, *unspecified(result, specified)], result, drawn)
    drawn += len(figures)
    index = ResultIndex(result, report.all_labels, verdict)
    parts: list[PartView] = []
    for spec in report.parts:
        part = _part(spec, result, index, text, drawn)
        if part.figures or part.tables or (part.text and not spec.figures and not spec.tables):
            parts.append(part)
            drawn += len(part.figures)
    listed = [item for item in result.measurements if report.listed(item.name)]
    return CompletedView(
        result=result,
        text=text,
        leak=text.leak(index),
        more=text.more(index),
        check=text.check(index),
        method=text.method(result),
        table=tables.measurement_table(listed, report),
        unlisted=len(result.measurements) - len(listed),
        figures=figures,
        parts=tuple(parts),
    )


def _part(spec: ReportPart, result: Result, index: ResultIndex, text: AttackMacros, drawn: int) -> PartView:
    value = index.diagnostic(spec.mark.diagnostic) if spec.mark else None
    mark = spec.mark if spec.mark and value is not None and value < spec.mark.under else None
    return PartView(
        title=spec.title,
        text=in_one_line(text.text(spec, index)),
        mark=mark.label if mark else "",
        reason=mark.reason if mark else "",
        figures=draw(spec.figures, result, drawn),
        tables=compact.compact_tables(spec.tables, index, text.report),
    )


def _glossary(texts: Mapping[str, AttackMacros], views: Sequence[CompletedView]) -> list[tuple[str, str]]:
    """The terms of the attacks that ran, each once, sorted with the general ones by the template."""
    meanings: dict[str, str] = {}
    for text in [view.text for view in views] or texts.values():
        meanings = {**text.report.glossary, **meanings}
    return list(meanings.items())
