"""Draw Markdown: text for a data-protection impact assessment, and a section of a model card."""

from collections.abc import Iterator, Sequence

from audit.attacks import text_of
from audit.compare.defended import MeasuredDefense
from audit.errors import UsageError
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report import tables
from audit.report.access import access_view
from audit.report.answer import name_documents
from audit.report.coverage import legal_view
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts, title_of
from audit.report.leaks import describe_leak
from audit.report.residual import residual_risk, unexamined
from audit.report.sentences import finding_sentence
from audit.report.templates import render_markdown

DPIA_NAME = "dpia.md"
CARD_NAME = "model-card.md"


def dpia(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    comparisons: Sequence[MeasuredDefense] = (),
) -> str:
    """Draw text blocks for an impact assessment: risk, measures, residual risk.

    Raises:
        RenderError: a template, `defenses.toml` or `frameworks.toml` is missing or broken.
    """
    facts = facts_of(record, verdict, comparisons)
    return _render(
        "dpia.md",
        facts,
        policy=policy,
        found=list(_findings_by_attack(facts)),
        access=access_view(facts),
        legal=legal_view(facts),
        residual=residual_risk(facts, policy),
        recommendations=facts.actions,
        accepted=[describe_leak(leak) for leak in facts.accepted],
        outside=[describe_leak(leak) for leak in facts.outside],
    )


def model_card(record: AuditRecord, verdict: Verdict) -> str:
    """Draw the section of a model card: each limit with its number, and what was not examined.

    Raises:
        UsageError: the record is of a text alone.
        RenderError: a template is missing or broken.
    """
    if not record.target.is_model:
        raise UsageError(
            "--model-card: no model was audited", "give the record of a scan of a model"
        )
    return _render(
        "model_card.md",
        facts_of(record, verdict),
        completed=set(record.completed),
        unexamined=unexamined(record, verdict),
    )


def _render(template: str, facts: Facts, **values: object) -> str:
    """Draw a template with the rows of a verdict."""
    record = facts.record
    verdict = facts.verdict
    rows = []
    titles = {}
    for decision in verdict.decisions:
        attack = decision.limit.attack
        rows.append(tables.decision_row(decision, text_of(attack)))
        titles[attack] = title_of(attack)
    text = render_markdown(
        template, record=record, verdict=verdict, rows=rows, titles=titles, **values
    )
    return name_documents(record, text)


def _findings_by_attack(facts: Facts) -> Iterator[str]:
    """Yield a line for each attack that ran: its plainest number, with count and interval."""
    for row in facts.in_order:
        sentence = "nothing could be measured"
        if row.plainest is not None:
            sentence = finding_sentence(row.attack, row.plainest)
        confounded = facts.verdict.settled.confounded(row.attack)
        note = "; no limit can be met on it" if confounded else ""
        yield f"{title_of(row.attack)}. {sentence}{note}"
