"""The report as one HTML page: everything a template needs, prepared.

Nothing is fetched, nothing is decided here.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from markupsafe import Markup, escape

from audit.attacks.figure_text import Figure, HistogramFigure, ReportPart
from audit.attacks.text import AttackText, sentence_case
from audit.cards import PrivacyCard
from audit.compare.defended import MeasuredDefense
from audit.files import shipped_folder, table_beside
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, Result
from audit.report import tables
from audit.report.access import access_view
from audit.report.answer import decides_most, findings, name_documents
from audit.report.assessment import assessment_view
from audit.report.changes import Changes
from audit.report.commands import Called, put_into
from audit.report.coverage import legal_view
from audit.report.decision import decision_view
from audit.report.exports import export_view
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts, QuestionFacts
from audit.report.facts.guarantee import GuaranteeFacts, guarantee_of
from audit.report.figures import DrawnFigure, draw, of_method, unspecified
from audit.report.kinds import kinds_on_both_sides
from audit.report.labels import LABELS, UTILITY
from audit.report.leaks import documents_used, plausibility, tried_in_part
from audit.report.numbers import NBSP
from audit.report.pictures import changes_of
from audit.report.residual import residual_risk, unexamined
from audit.report.room import FEWER_LINES
from audit.report.templates import (
    AttackMacros,
    ResultIndex,
    environment,
    in_one_line,
    template_errors,
)
from audit.report.where import where_views

MOST_OUTSIDE = 2
"""Findings that no limit is on, on page one; the annex has every measurement."""
MOST_FIGURES = 2
"""Figures of the decision report, one for an attack whose limit is violated: it keeps to 6 pages
with these."""
MOST_PLANNED = 2
"""Countermeasures of the decision report; the annex has all of them."""
CHECKS = LABELS["guarantee"]
"""What planted secrets say about the guarantee."""
CONTENTS = "<!--contents-->"
"""The place of the contents in a page whose sections are not known before it is drawn."""
_SECTION = re.compile(
    r'<section\b[^>]*\bid="(?P<anchor>[\w-]+)"[^>]*>\s*'
    r"(?:<h2\b[^>]*\btitle\b[^>]*>(?P<title>.*?)</h2>)?",
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]+>")
Context = dict[str, Any]
"""What the templates of the decision report and of the annex show, by name."""


@dataclass(frozen=True)
class CompletedView:
    """A completed attack as text.

    Attributes:
        confounded: what else than memory can explain its numbers; None where nothing can.
        parts: title, text, figures and tables of each; one that other attacks share is folded.
    """

    result: Result
    text: AttackMacros
    leak: Markup
    more: Markup
    check: Markup
    method: Markup
    table: tables.MeasurementTable
    figures: tuple[DrawnFigure, ...]
    confounded: str | None
    parts: Sequence[Mapping[str, Any]]


def report_context(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    comparisons: Sequence[MeasuredDefense] = (),
    changes: Changes | None = None,
    called: Called | None = None,
) -> Context:
    """Prepare what both reports of a record show.

    Args:
        record: the measurements.
        verdict: of `policy.evaluate` on them.
        policy: the policy it was held against.
        comparisons: what countermeasures were measured to do to this model.
        changes: since the last audit; None: no earlier record was given.
        called: how the scan was called; None: names stand in commands for its arguments.

    Raises:
        RenderError: a template or `defenses.toml` is missing or broken.
    """
    verdict = put_into(verdict, called)
    with template_errors():
        texts = _attack_macros(record, verdict)
        rows = [
            tables.decision_row(decision, texts[decision.limit.attack].report)
            for decision in verdict.decisions
        ]
        titled = [(texts[row.decision.limit.attack].title, row) for row in rows]
        facts = facts_of(record, verdict, comparisons, called)
        views = _completed_views(facts, texts)
        undecided = verdict.overall == "undecided"
        return {
            "record": record,
            "verdict": verdict,
            "facts": facts,
            "where": where_views(facts),
            "policy": policy,
            "texts": texts,
            "decision": decision_view(facts),
            "access": access_view(facts),
            "assessment": assessment_view(facts),
            "outside": facts.outside,
            "accepted": facts.accepted,
            "most_outside": MOST_OUTSIDE,
            "declared": plausibility(facts),
            "used": [*documents_used(record)],
            "in_part": " ".join(tried_in_part(record)),
            "unexamined": unexamined(record, verdict),
            "put_in": facts.commands.put_in,
            "limits": tables.limit_tables(titled, {view.result.attack for view in views}),
            "rows": rows,
            "outcome_labels": tables.OUTCOME_LABELS,
            "ran_labels": tables.RAN_LABELS,
            "outcomes": {row.attack: row.outcome for row in facts.rows},
            "changes": changes,
            "export": export_view(record),
            "found": [*findings(facts)] if undecided else [],
            "decides_most": decides_most(facts) if undecided or facts.alarm else "",
            "views": views,
            "brief": _findings_in_brief(views, facts),
            "recommendations": facts.actions,
            "effects": changes_of(facts.actions, comparisons, verdict),
            "most_planned": MOST_PLANNED,
            "guarantee": guarantee_view(record, verdict.contradicted),
            "utility": tables.measurement_table(record.utility, UTILITY),
            "legal": legal_view(facts),
            "residual": residual_risk(facts, policy),
            "glossary": glossary([view.text for view in views] or [*texts.values()]),
            "sources": _sources_of(views),
        }


def _attack_macros(record: AuditRecord, verdict: Verdict) -> dict[str, AttackMacros]:
    """Return the texts of each attack that ran, that a limit is on, or that was left out."""
    ran = [result.attack for result in record.attacks]
    limited = [decision.limit.attack for decision in verdict.decisions]
    names = dict.fromkeys([*ran, *limited, *record.battery])
    return {name: AttackMacros(environment(), name) for name in names}


def _sources_of(views: Sequence[CompletedView]) -> list[str]:
    """List what the methods of the attacks are cited from, each source once."""
    sources: dict[str, None] = {}
    for view in views:
        sources.update(dict.fromkeys(view.text.report.sources))
    return [*sources]


def render(
    page: Literal["report.html", "decision.html"], context: Context, revealed: object | None = None
) -> str:
    """Draw the annex or the decision report as HTML.

    Args:
        page: its template.
        context: what it shows.
        revealed: recovered values by attack, for the report that stays in `evidence/`; None
            everywhere else.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates = environment()
        code = script()
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        text = templates.get_template(page).render(
            context, revealed=revealed, script=Markup(code), script_hash=f"sha256-{digest}"
        )
        entries = _list_sections(text)
        text = name_documents(context["record"], text)
        contents = templates.get_template("_contents.html").render(parts=entries)
        text = text.replace(CONTENTS, contents, 1)
        return link_terms(text, context["glossary"]) if page == "report.html" else text


def shorter_decisions(context: Context) -> Iterator[str]:
    """Yield the decision report with ever less on page one, which must stay one page."""
    for n_lines in FEWER_LINES:
        view = decision_view(context["facts"], n_lines)
        yield render("decision.html", {**context, "decision": view})


def _list_sections(page: str) -> list[tuple[str, Markup]]:
    """List id and title of the sections of a page: the summary, and those with a title."""
    sections: list[tuple[str, Markup]] = []
    for section in _SECTION.finditer(page):
        if section["title"] or section["anchor"] == "summary":
            title = _TAG.sub("", section["title"] or "Overview")
            sections.append((section["anchor"], Markup(title)))
    return sections


def script() -> str:
    """Read the page's script: it sorts tables, searches the page and opens what is folded.

    No other one runs in it.
    """
    return join_scripts("tables.js", "search.js")


def join_scripts(*names: str) -> str:
    """Read scripts of the templates as one, in this order."""
    folder = shipped_folder("templates")
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def html(
    record: AuditRecord, verdict: Verdict, policy: Policy, revealed: object | None = None
) -> str:
    """Draw the full report of a record as one HTML page, with its revealed values where given."""
    return render("report.html", report_context(record, verdict, policy), revealed)


def _findings_in_brief(
    views: Sequence[CompletedView], facts: Facts
) -> list[tuple[CompletedView, Markup, DrawnFigure | None]]:
    """List the findings in the order of page one."""
    view_of = {view.result.attack: view for view in views}
    brief: list[tuple[CompletedView, Markup, DrawnFigure | None]] = []
    drawn = 0
    for row in facts.rows:
        view = view_of[row.attack]
        figure = None
        if row.leaks and drawn < MOST_FIGURES:
            figure = _plain_figure(view)
        if figure is not None:
            drawn += 1
            figure = replace(figure, number=drawn)
        by_kind = escape(kinds_on_both_sides(facts, row.attack))
        text = Markup(" ").join([view.leak, view.more, by_kind])
        brief.append((view, text, figure))
    return brief


def _plain_figure(view: CompletedView) -> DrawnFigure | None:
    """Return the first histogram of an attack.

    It is read without knowing what a curve of false alarms is.
    """
    for figure in view.figures:
        if isinstance(figure.spec, HistogramFigure):
            return figure
    return None


def _completed_views(facts: Facts, texts: Mapping[str, AttackMacros]) -> list[CompletedView]:
    """Prepare each completed attack, its figures numbered through the whole report."""
    views: list[CompletedView] = []
    drawn = 0
    for result in facts.record.completed.values():
        view = _completed_view(facts, result, texts[result.attack], drawn)
        views.append(view)
        drawn += len(view.figures)
        drawn += sum(len(content["figures"]) for content in view.parts)
    return views


def _name_sides(record: AuditRecord, specs: Iterable[Figure]) -> list[Figure]:
    """Name the documents in histograms as the page does, before their legends are laid out."""
    figures: list[Figure] = []
    for spec in specs:
        if isinstance(spec, HistogramFigure):
            labels = {key: name_documents(record, label) for key, label in spec.labels.items()}
            figures.append(spec.model_copy(update={"labels": labels}))
        else:
            figures.append(spec)
    return figures


def _limits_of(row: QuestionFacts) -> dict[str, float]:
    """Return the largest allowed values of an attack's metrics, by metric."""
    limits = {}
    for decision in row.decisions:
        if decision.limit.max is not None:
            limits[decision.limit.metric] = decision.limit.max
    return limits


def _completed_view(facts: Facts, result: Result, text: AttackMacros, drawn: int) -> CompletedView:
    """Prepare a completed attack; its figures are of the method that decides.

    Args:
        facts: about the audit.
        result: what the attack came to.
        text: the attack's texts.
        drawn: number of figures that the report already has.
    """
    record = facts.record
    verdict = facts.verdict
    row = facts.by_attack[result.attack]
    limits = _limits_of(row)
    shown = of_method(result, row.method, row.groups.get("documents"))
    report = text.report
    specified = [*report.figures]
    for spec in report.parts:
        specified.extend(spec.figures)
    specs = [*report.figures, *unspecified(shown, specified)]
    figures = draw(_name_sides(record, specs), shown, drawn, limits)
    drawn += len(figures)
    index = ResultIndex(result, report.all_labels, verdict)
    parts: list[dict[str, Any]] = []
    for spec in report.parts:
        content: dict[str, Any] = {
            "title": spec.title,
            "folded": bool(spec.template),
            "text": in_one_line(text.text(spec, index)),
            "figures": draw(_name_sides(record, spec.figures), shown, drawn, limits),
            "tables": _filled_tables(spec, index, report),
        }
        text_alone = not spec.figures and not spec.tables
        if content["figures"] or content["tables"] or (content["text"] and text_alone):
            parts.append(content)
            drawn += len(content["figures"])
    return CompletedView(
        result=result,
        text=text,
        leak=text.leak(index),
        more=text.more(index),
        check=text.check(index),
        method=text.method(result),
        table=tables.measurement_table(result.measurements, report),
        figures=figures,
        confounded=verdict.settled.confounded(result.attack),
        parts=parts,
    )


def _filled_tables(
    spec: ReportPart, index: ResultIndex, report: AttackText
) -> list[tables.CompactTable]:
    """Return the tables of a part that the record has a row for."""
    drawn = [tables.compact_table(table, index, report) for table in spec.tables]
    return [table for table in drawn if table.rows]


@dataclass(frozen=True)
class GuaranteeView:
    """The section on the guarantee.

    Attributes:
        card: of the training.
        promised: to one unit; None without an epsilon.
        right: the largest share of right guesses at whether one unit was used; None without an
            epsilon.
        check: what planted secrets say about the guarantee.
        contradicted: whether they show that it is false.
    """

    card: PrivacyCard
    promised: object | None
    right: float | None
    check: str
    contradicted: bool


def guarantee_view(record: AuditRecord, contradicted: str | None) -> GuaranteeView | None:
    """Lay out the guarantee of the audited model's training; see `guarantee_of`."""
    guarantee = guarantee_of(record, contradicted)
    if guarantee is None:
        return None
    return GuaranteeView(
        card=guarantee.card,
        promised=guarantee.promised,
        right=guarantee.right,
        check=_guarantee_check(guarantee),
        contradicted=guarantee.contradicted is not None,
    )


def _guarantee_check(guarantee: GuaranteeFacts) -> str:
    """Say what planted secrets show of a guarantee."""
    if guarantee.promised is None:
        return CHECKS["no guarantee"]
    if guarantee.contradicted:
        return f"{sentence_case(guarantee.contradicted)}."
    return CHECKS["agrees" if guarantee.measured else "no secrets"]


_TERMS = table_beside(__file__, "glossary.toml")
GENERAL: Mapping[str, str] = _TERMS["terms"]
"""Meaning by term, whatever the attacks."""
MANUAL: Mapping[str, str] = _TERMS["manual"]
"""Meaning by term that the manual explains and reports do not."""
CLOSED = frozenset(
    {"a", "button", "caption", "code", "h1", "h2", "h3", "h4", "script", "style", "summary", "svg"}
)
"""Elements in which no term is linked."""
SHORTEST = 3
"""Letters of a term that is linked: a shorter one would be found in other words."""
_PIECE = re.compile(r"(<[^>]*>)")
_ELEMENT = re.compile(r"</?([a-z0-9]+)")


@dataclass(frozen=True)
class Term:
    """A term of the glossary; `anchor` is its id in the page."""

    anchor: str
    name: str
    meaning: str

    @property
    def forms(self) -> tuple[str, ...]:
        """Return the words by which a text names it: those between its brackets and commas."""
        return tuple(form for form in re.split(r" \(|, |\)", self.name) if len(form) >= SHORTEST)


def glossary(texts: Sequence[AttackMacros]) -> tuple[Term, ...]:
    """List the terms of a report by name: the general ones, and those of its attacks.

    The first attack with a term wins, and any attack wins over the general terms.
    """
    meanings = dict(GENERAL)
    for text in reversed(texts):
        meanings.update(text.report.glossary)
    pairs = sorted(meanings.items(), key=lambda pair: pair[0].lower())
    return tuple(Term(f"term-{number}", *pair) for number, pair in enumerate(pairs, 1))


def link_terms(page: str, terms: Sequence[Term]) -> str:
    """Link the first use of each term in every section to the glossary.

    The glossary describes it to a screen reader too.
    """
    anchors: dict[str, str] = {}
    for term in terms:
        for form in term.forms:
            anchors[str(escape(form)).lower()] = term.anchor
    if not anchors:
        return page
    spaced = [re.escape(form).replace(r"\ ", f"[ {NBSP}]") for form in anchors]
    longest_first = sorted(spaced, key=len, reverse=True)
    words = re.compile(rf"(?<![\w-])({'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
    before, start, behind = page.partition("<main>")
    body, end, after = behind.partition('id="glossary"')
    return "".join((before, start, *_linked(body, words, anchors), end, after))


def _linked(body: str, words: re.Pattern[str], anchors: Mapping[str, str]) -> Iterator[str]:
    """Yield a page in pieces, with the first use of each term in a section linked."""
    seen: set[str] = set()
    depth = 0

    def link(word: re.Match[str]) -> str:
        """Link a word to its glossary term; leave it unlinked after its first use in a section."""
        anchor = anchors[word[0].lower().replace(NBSP, " ")]
        if anchor in seen:
            return word[0]
        seen.add(anchor)
        return f'<a class="term" href="#{anchor}" aria-describedby="{anchor}-is">{word[0]}</a>'

    for piece in _PIECE.split(body):
        tag = _ELEMENT.match(piece)
        if tag is None:
            yield piece if depth else words.sub(link, piece)
            continue
        if tag[1] == "section":
            seen.clear()
        if tag[1] in CLOSED:
            depth += -1 if piece.startswith("</") else 1
        yield piece
