"""Markdown drawn from a record: text for a data-protection impact assessment, and a section of a model card."""

from collections.abc import Iterator, Sequence

from audit.attacks import text_of
from audit.errors import UsageError
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report import tables
from audit.report.answer import finding_sentence, name_documents, plainest
from audit.report.comparison import Comparison
from audit.report.coverage import legal_view
from audit.report.leaks import describe_leak, unlimited, within
from audit.report.recommend import recommend
from audit.report.residual import residual_risk, unexamined
from audit.report.templates import render_markdown

DPIA_NAME, CARD_NAME = "dpia.md", "model-card.md"


def dpia(
    record: AuditRecord, verdict: Verdict, policy: Policy, comparisons: Sequence[Comparison] = ()
) -> str:
    """Draw text blocks for an impact assessment: risk, measures, residual risk.

    Raises:
        RenderError: a template, `defenses.toml` or `frameworks.toml` is missing or broken.
    """
    return _render(
        "dpia.md",
        record,
        verdict,
        policy=policy,
        found=list(_findings_by_attack(record, verdict)),
        legal=legal_view(record, verdict),
        residual=residual_risk(record, verdict, policy),
        recommendations=recommend(record, verdict, comparisons),
        accepted=[describe_leak(leak) for leak in within(record, verdict)],
        outside=[describe_leak(leak) for leak in unlimited(record, verdict)],
    )


def model_card(record: AuditRecord, verdict: Verdict) -> str:
    """Draw the section of a model card: each limit with number and interval, and what was not examined.

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
        record,
        verdict,
        completed={*record.completed},
        unexamined=unexamined(record, verdict),
    )


def _render(template: str, record: AuditRecord, verdict: Verdict, **values: object) -> str:
    """Draw a template with the rows of a verdict."""
    rows = [
        tables.decision_row(decision, text_of(decision.limit.attack))
        for decision in verdict.decisions
    ]
    names = {decision.limit.attack for decision in verdict.decisions}
    titles = {name: text_of(name).title or name for name in names}
    text = render_markdown(
        template, record=record, verdict=verdict, rows=rows, titles=titles, **values
    )
    return name_documents(record, text)


def _findings_by_attack(record: AuditRecord, verdict: Verdict) -> Iterator[str]:
    """Yield a line for each attack that ran: its plainest number, with count and interval."""
    for result in record.completed.values():
        title, measured = text_of(result.attack).title or result.attack, plainest(result, verdict)
        said = (
            "nothing could be measured"
            if measured is None
            else finding_sentence(result.attack, measured)
        )
        yield f"{title}. {said}{'; no limit can be met on it' if result.confounded else ''}"
