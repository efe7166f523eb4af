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

from audit.attacks.figure_text import Figure, HistogramFigure
from audit.attacks.text import sentence_case
from audit.cards import PrivacyCard
from audit.files import shipped_folder, table_beside
from audit.measurements import Estimate
from audit.policy import Policy, Verdict
from audit.policy.limits import CANARIES, EPSILON, contradiction
from audit.record import AuditRecord, Result
from audit.report import tables
from audit.report.answer import LABELS, UTILITY, decides_most, findings, name_documents
from audit.report.changes import Changes
from audit.report.comparison import Comparison
from audit.report.coverage import legal_view
from audit.report.decision import LEAK_ORDER, decision_view, outcome_of
from audit.report.figures import DrawnFigure, draw, unspecified
from audit.report.leaks import documents_used, plausibility, tried_in_part, unlimited, within
from audit.report.numbers import NBSP
from audit.report.pictures import changes_of
from audit.report.recommend import recommend
from audit.report.residual import residual_risk, unexamined
from audit.report.templates import (
    AttackMacros,
    ResultIndex,
    environment,
    in_one_line,
    template_errors,
)
from audit.stats.dp_bounds import Guarantee, balanced_accuracy

MOST_OUTSIDE = 2
"""Findings that no limit is on, on page one; the annex has every measurement."""
MOST_FIGURES = 2
"""Figures of the decision report, one for an attack whose limit is violated: it keeps to 6 pages
with these."""
MOST_PLANNED = 3
"""Countermeasures of the decision report; the annex has all of them."""
CHECKS = LABELS["guarantee"]
"""What planted secrets say about the guarantee."""
CONTENTS = "<!--contents-->"
"""The place of the contents in a page whose sections are not known before it is drawn."""
_SECTION = re.compile(
    r'<section\b[^>]*\bid="(?P<anchor>[\w-]+)"[^>]*>\s*(?:<h2\b[^>]*\btitle\b[^>]*>(?P<title>.*?)</h2>)?',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]+>")
Context = dict[str, Any]
"""What the templates of the decision report and of the annex show, by name."""


@dataclass(frozen=True)
class CompletedView:
    """A completed attack as text.

    Attributes:
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
    parts: Sequence[Mapping[str, Any]]


def report_context(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    comparisons: Sequence[Comparison] = (),
    changes: Changes | None = None,
    paths: Mapping[str, str] | None = None,
) -> Context:
    """Prepare what both reports of a record show.

    Args:
        record: the measurements.
        verdict: of `policy.evaluate` on them.
        policy: the policy it was held against.
        comparisons: what countermeasures were measured to do to this model.
        changes: since the last audit; None: no earlier record was given.
        paths: what stands for MODEL_DIR and DATA_DIR in commands; None: the names stay.

    Raises:
        RenderError: a template or `defenses.toml` is missing or broken.
    """
    with template_errors():
        named = [result.attack for result in record.attacks] + [
            item.limit.attack for item in verdict.decisions
        ]
        texts = {
            name: AttackMacros(environment(), name)
            for name in dict.fromkeys([*named, *record.battery])
        }
        rows = [
            tables.decision_row(decision, texts[decision.limit.attack].report)
            for decision in verdict.decisions
        ]
        titled = [(texts[row.decision.limit.attack].title, row) for row in rows]
        views = _completed_views(record, verdict, texts)
        recommendations = recommend(record, verdict, comparisons, paths)
        decision, undecided = decision_view(record, verdict), verdict.overall == "undecided"
        return {
            "record": record,
            "verdict": verdict,
            "policy": policy,
            "texts": texts,
            "decision": decision,
            "outside": unlimited(record, verdict),
            "accepted": within(record, verdict),
            "most_outside": MOST_OUTSIDE,
            "declared": plausibility(record, verdict),
            "used": [*documents_used(record)],
            "in_part": " ".join(tried_in_part(record)),
            "unexamined": unexamined(record, verdict),
            "limits": tables.limit_tables(titled, {view.result.attack for view in views}),
            "rows": rows,
            "outcome_labels": tables.OUTCOME_LABELS,
            "ran_labels": tables.RAN_LABELS,
            "outcomes": {name: outcome_of(name, verdict.decisions) for name in texts},
            "changes": changes,
            "found": [*findings(record, verdict)] if undecided else [],
            "decides_most": decides_most(record, verdict) if undecided else "",
            "views": views,
            "brief": _findings_in_brief(views, verdict),
            "recommendations": recommendations,
            "effects": changes_of(recommendations, comparisons, verdict),
            "most_planned": MOST_PLANNED,
            "guarantee": guarantee_view(record),
            "utility": tables.measurement_table(record.utility, UTILITY),
            "legal": legal_view(record, verdict),
            "residual": residual_risk(record, verdict, policy),
            "glossary": glossary([view.text for view in views] or [*texts.values()]),
            "sources": list(
                dict.fromkeys(source for view in views for source in view.text.report.sources)
            ),
        }


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
        templates, own = environment(), script()
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        text = templates.get_template(page).render(
            context, revealed=revealed, script=Markup(own), script_hash=f"sha256-{digest}"
        )
        entries = [
            (found["anchor"], Markup(_TAG.sub("", found["title"] or "Overview")))
            for found in _SECTION.finditer(text)
            if found["title"] or found["anchor"] == "summary"
        ]
        text = name_documents(context["record"], text)
        text = text.replace(
            CONTENTS, templates.get_template("_contents.html").render(parts=entries), 1
        )
        return link_terms(text, context["glossary"]) if page == "report.html" else text


def script() -> str:
    """Read the page's script: it searches the page and opens what is folded.

    No other one runs in it.
    """
    return (shipped_folder("templates") / "search.js").read_text(encoding="utf-8")


def html(
    record: AuditRecord, verdict: Verdict, policy: Policy, revealed: object | None = None
) -> str:
    """Draw the annex of a record; see `report_context` and `render`."""
    return render("report.html", report_context(record, verdict, policy), revealed)


def _findings_in_brief(
    views: Sequence[CompletedView], verdict: Verdict
) -> list[tuple[CompletedView, Markup, DrawnFigure | None]]:
    """List the findings in the order of page one."""
    told = [(view, outcome_of(view.result.attack, verdict.decisions)) for view in views]
    brief: list[tuple[CompletedView, Markup, DrawnFigure | None]] = []
    drawn = 0
    for view, outcome in sorted(told, key=lambda pair: LEAK_ORDER.index(pair[1])):
        # A histogram is read without knowing what a curve of false alarms is.
        clear = next((one for one in view.figures if isinstance(one.spec, HistogramFigure)), None)
        figure = clear if outcome in ("violated", "waived") and drawn < MOST_FIGURES else None
        drawn += figure is not None
        text = Markup(" ").join([view.leak, view.more])
        brief.append((view, text, None if figure is None else replace(figure, number=drawn)))
    return brief


def _completed_views(
    record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]
) -> list[CompletedView]:
    views: list[CompletedView] = []
    drawn = 0
    for result in record.completed.values():
        views.append(_completed_view(record, result, verdict, texts[result.attack], drawn))
        drawn += len(views[-1].figures) + sum(len(part["figures"]) for part in views[-1].parts)
    return views


def _name_sides(record: AuditRecord, specs: Iterable[Figure]) -> list[Figure]:
    """Name the documents in histograms as the page does, before their legends are laid out."""
    return [
        one.model_copy(
            update={
                "labels": {key: name_documents(record, label) for key, label in one.labels.items()}
            }
        )
        if isinstance(one, HistogramFigure)
        else one
        for one in specs
    ]


def _completed_view(
    record: AuditRecord, result: Result, verdict: Verdict, text: AttackMacros, drawn: int
) -> CompletedView:
    report = text.report
    specified = [*report.figures, *(figure for part in report.parts for figure in part.figures)]
    figures = draw(
        _name_sides(record, [*report.figures, *unspecified(result, specified)]), result, drawn
    )
    drawn += len(figures)
    index = ResultIndex(result, report.all_labels, verdict)
    parts = []
    for spec in report.parts:
        part: dict[str, Any] = {
            "title": spec.title,
            "folded": bool(spec.template),
            "text": in_one_line(text.text(spec, index)),
            "figures": draw(_name_sides(record, spec.figures), result, drawn),
            "tables": [
                own for one in spec.tables if (own := tables.compact_table(one, index, report)).rows
            ],
        }
        if (
            part["figures"]
            or part["tables"]
            or (part["text"] and not spec.figures and not spec.tables)
        ):
            parts.append(part)
            drawn += len(part["figures"])
    return CompletedView(
        result=result,
        text=text,
        leak=text.leak(index),
        more=text.more(index),
        check=text.check(index),
        method=text.method(result),
        table=tables.measurement_table(result.measurements, report),
        figures=figures,
        parts=parts,
    )


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
    promised: Guarantee | None
    right: float | None
    check: str
    contradicted: bool


def guarantee_view(record: AuditRecord) -> GuaranteeView | None:
    """Lay out the guarantee of the audited model's training; None where it claims none."""
    card, false = record.dp, contradiction(record)
    if card is None:
        return None
    if card.epsilon is None:
        return GuaranteeView(card, None, None, CHECKS["no guarantee"], contradicted=False)
    promised = Guarantee(card.epsilon, card.delta, card.curve)
    canaries = record.completed.get(CANARIES)
    found = () if canaries is None else canaries.measurements
    measured = any(isinstance(item, Estimate) and item.name == EPSILON for item in found)
    check = f"{sentence_case(false)}." if false else CHECKS["agrees" if measured else "no secrets"]
    return GuaranteeView(card, promised, balanced_accuracy(promised), check, false is not None)


GENERAL: Mapping[str, str] = table_beside(__file__, "glossary.toml")["terms"]
"""Meaning by term, whatever the attacks."""
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
    """List the terms of a report by name: the general ones, and those of its attacks, of which the first wins."""
    own = {
        name: meaning for text in reversed(texts) for name, meaning in text.report.glossary.items()
    }
    pairs = sorted({**GENERAL, **own}.items(), key=lambda pair: pair[0].lower())
    return tuple(Term(f"term-{number}", *pair) for number, pair in enumerate(pairs, 1))


def link_terms(page: str, terms: Sequence[Term]) -> str:
    """Link the first use of each term in every section to the glossary, which describes it to a screen reader too."""
    anchors = {str(escape(form)).lower(): term.anchor for term in terms for form in term.forms}
    if not anchors:
        return page
    spaced = (re.escape(form).replace(r"\ ", f"[ {NBSP}]") for form in anchors)
    longest_first = sorted(spaced, key=len, reverse=True)
    words = re.compile(rf"(?<![\w-])({'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
    before, start, rest = page.partition("<main>")
    body, end, after = rest.partition('id="glossary"')
    return "".join((before, start, *_linked(body, words, anchors), end, after))


def _linked(body: str, words: re.Pattern[str], anchors: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    closed = 0

    def link(found: re.Match[str]) -> str:
        anchor = anchors[found[0].lower().replace(NBSP, " ")]
        if anchor in seen:
            return found[0]
        seen.add(anchor)
        return f'<a class="term" href="#{anchor}" aria-describedby="{anchor}-is">{found[0]}</a>'

    for piece in _PIECE.split(body):
        tag = _ELEMENT.match(piece)
        if tag is None:
            yield piece if closed else words.sub(link, piece)
            continue
        if tag[1] == "section":
            seen.clear()
        if tag[1] in CLOSED:
            closed += -1 if piece.startswith("</") else 1
        yield piece
