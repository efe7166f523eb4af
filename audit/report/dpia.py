"""Text blocks for a data-protection impact assessment, as Markdown: risk, measures, residual risk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from audit.policy import Policy, Verdict
from audit.record import AuditRecord, Completed
from audit.report import numbers, tables
from audit.report.answer import finding_sentence, plainest
from audit.report.comparison import Comparison
from audit.report.coverage import NOT_STATED, legal_view
from audit.report.jinja import environment, template_errors
from audit.report.labels import report_of
from audit.report.leaks import told, unlimited, within
from audit.report.recommend import recommend
from audit.report.residual import residual_risk

NAME = "dpia.md"
_SPECIAL = re.compile(r"[\\`*_\[\]#|]")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


def dpia(record: AuditRecord, verdict: Verdict, policy: Policy, comparisons: Sequence[Comparison] = ()) -> str:
    """The text blocks; every value in them is escaped, so that no name in a record can add markup.

    Raises:
        RenderError: a template, `defenses.toml` or `frameworks.toml` is missing or broken.
    """
    rows = [tables.decision_row(decision, report_of(decision.limit.attack)) for decision in verdict.decisions]
    with template_errors():
        templates = environment().overlay(autoescape=False, finalize=escaped)
        text = templates.get_template(NAME).render(
            record=record,
            verdict=verdict,
            policy=policy,
            policy_identity=policy_identity(record, policy),
            facts=list(_facts(record)),
            found=list(_found(record)),
            legal=legal_view(record, verdict),
            residual=residual_risk(record, verdict, policy),
            recommendations=recommend(record, verdict, comparisons),
            rows=rows,
            titles={limit.attack: report_of(limit.attack).title or limit.attack for limit in policy.limits},
            accepted=[told(leak) for leak in within(record, verdict)],
            outside=[told(leak) for leak in unlimited(record, verdict)],
            waived=[row for row in rows if row.decision.waiver is not None],
        )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escaped(value: object) -> str:
    """Return a value as Markdown text that is nothing but text: on one line, without markup, HTML or hidden signs."""
    text = one_line(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text)


def one_line(value: object) -> str:
    """Return a value as text on one line, without hidden signs."""
    return _INVISIBLE.sub(" ", str(value).replace(numbers.NBSP, " "))


def policy_identity(record: AuditRecord, policy: Policy) -> str:
    """Which file the policy is, and whether it is the one that was declared before the first trial."""
    origin, declared = policy.origin, record.policy
    shipped = "" if origin is None else f" ({'as docaudit ships it' if origin.shipped else 'the owner’s own'})"
    own = "It was not read from a file." if origin is None else f"SHA-256 {origin.sha256}{shipped}."
    if declared is None:
        return f"{own} Which policy was declared before the scan is not recorded."
    if origin is not None and declared.sha256 == origin.sha256:
        return f"{own} It was declared before the first trial."
    return f"{own} Declared before the first trial was another one: {declared.name}, SHA-256 {declared.sha256}."


def _facts(record: AuditRecord) -> Iterator[tuple[str, str]]:
    """What was audited, as the owner states it and as the record has it."""
    sheet = record.audit
    stated = {
        "System": sheet.system,
        "Controller": sheet.controller,
        "Purpose": sheet.purpose,
        "Model, as its owner calls it": " ".join(filter(None, (sheet.model_name, sheet.model_version))),
        "Categories of personal data": ", ".join(sheet.data_categories),
        "Ran the scan": sheet.auditor,
        "Decides": sheet.decides,
        "Data-protection officer": sheet.dpo,
    }
    yield from ((label, value or NOT_STATED) for label, value in stated.items())
    if record.target.is_model:
        card = record.target
        yield "Model", f"{card.name}, {card.architecture}, {card.parameters:,} parameters, SHA-256 {card.sha256}"
    yield "Data set", f"{record.corpus.name}, SHA-256 {record.corpus.sha256}"
    documents = record.corpus.documents
    members, others = documents.get("member", 0), documents.get("heldout", 0)
    if record.target.is_model:
        yield "Documents, as the owner declares", f"{members:,} trained on, {others:,} not trained on"
    else:
        yield "Documents", f"{sum(documents.values()):,}"
    yield "Effort", f"budget {record.budget}, {numbers.duration(record.timing.seconds)}"


def _found(record: AuditRecord) -> Iterator[str]:
    """A line for each attack that ran: its plainest number, with count and interval."""
    for result in record.attacks:
        if isinstance(result, Completed):
            title, measured = report_of(result.attack).title or result.attack, plainest(result)
            said = "nothing could be measured" if measured is None else finding_sentence(result.attack, measured)
            yield f"{title}. {said}{'; no limit can be met on it' if result.confounded else ''}"
