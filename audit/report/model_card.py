"""A section of a Hugging Face model card: front matter in the Hub's format for evaluations, and the same in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.errors import UsageError
from audit.measurements import Estimate
from audit.policy import Decision, Verdict
from audit.record import AuditRecord, Completed
from audit.report import numbers, tables
from audit.report.attack_text import AttackMacros
from audit.report.dpia import escaped, one_line
from audit.report.jinja import environment, template_errors
from audit.report.labels import report_of
from audit.report.residual import unexamined

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TEMPLATE = "model_card.md"
NAME = "model-card.md"
DIGITS = 4
"""Digits after the point in the front matter; intervals are wider (ours)."""
TASKS = {
    "mlm": "fill-mask",
    "token-classification": "token-classification",
    "spade-extraction": "token-classification",
    "spade-linking": "token-classification",
    "intent-slots": "token-classification",
    "document-classification": "text-classification",
    "question-answering": "document-question-answering",
    "extractive-qa": "document-question-answering",
    "parsing": "image-to-text",
}
"""The Hub's name of each task; a task that it has no name for keeps its own."""


@dataclass(frozen=True)
class Source:
    """The place where the record or its report is published, for the front matter."""

    url: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[\x21-\x7e]+", self.url):
            raise UsageError(f"--source {self.url}: no address", "give one that begins with https://")


def model_card(record: AuditRecord, verdict: Verdict, source: Source | None = None) -> str:
    """Front matter with `model-index` and a section in Markdown, of one record and its verdict.

    Numbers stand with their intervals; a limit without a number is in the section alone. Nothing of documents or models
    is in either.

    Raises:
        UsageError: the record is of a text alone.
        RenderError: a template is missing or broken.
    """
    if not record.target.is_model:
        raise UsageError("--model-card: no model was audited", "give the record of a scan of a model")
    return _front_matter(record, verdict, source) + _section(record, verdict)


def _front_matter(record: AuditRecord, verdict: Verdict, source: Source | None) -> str:
    from huggingface_hub import ModelCardData

    results = list(_results(record, verdict, source))
    if not results:
        return ""
    data = ModelCardData(model_name=_line(_model_name(record)), eval_results=results)
    return f"---\n{data.to_yaml(line_break=chr(10))}\n---\n\n"


def _results(record: AuditRecord, verdict: Verdict, source: Source | None) -> Iterator[EvalResult]:
    """One result for each limit that was held against a number."""
    from huggingface_hub import EvalResult

    corpus, task = record.corpus, record.target.task
    for decision in verdict.decisions:
        if decision.measured is not None:
            yield EvalResult(
                task_type=TASKS.get(task, task),
                task_name="Privacy audit",
                dataset_type=re.sub(r"[^a-z0-9]+", "-", corpus.name.lower()).strip("-") or "data",
                dataset_name=_line(corpus.name),
                dataset_args={"sha256": corpus.sha256, "documents": dict(corpus.documents)},
                metric_type=f"docaudit/{decision.limit.attack}_{decision.limit.metric}",
                metric_value=round(decision.measured.value, DIGITS),
                metric_name=_metric_name(decision, decision.measured),
                metric_args=_metric_args(record, verdict, decision, decision.measured),
                source_name=None if source is None else f"docaudit {record.environment.docaudit}",
                source_url=None if source is None else source.url,
            )


def _metric_name(decision: Decision, measured: Estimate) -> str:
    """What was measured, with its interval, its limit and what became of it, for whoever reads this alone."""
    report = report_of(decision.limit.attack)
    row = tables.decision_row(decision, report)
    title = report.title or decision.limit.attack
    level = f"{100 * measured.level:g} % interval {row.between}"
    return _line(f"{title}: {row.label} ({level}; limit {row.limit}: {row.outcome.lower()})")


def _metric_args(record: AuditRecord, verdict: Verdict, decision: Decision, measured: Estimate) -> dict[str, Any]:
    """The same for programs; nothing that is not known is there."""
    identity = verdict.identity
    said = {
        "low": round(measured.low, DIGITS),
        "high": round(measured.high, DIGITS),
        "level": measured.level,
        "n": measured.n,
        "unit": _line(measured.unit),
        "null": None if measured.null is None else round(measured.null, DIGITS),
        "max": decision.limit.max,
        "min": decision.limit.min,
        "outcome": decision.outcome,
        "policy": _line(verdict.policy),
        "policy_sha256": None if identity is None else identity.sha256,
        "model_sha256": record.target.sha256,
    }
    return {name: value for name, value in said.items() if value is not None}


def _section(record: AuditRecord, verdict: Verdict) -> str:
    with template_errors():
        templates = environment()
        names = {*record.battery, *(one.limit.attack for one in verdict.decisions)}
        names |= {result.attack for result in record.attacks}
        text = (
            templates.overlay(autoescape=False, finalize=escaped)
            .get_template(TEMPLATE)
            .render(
                record=record,
                verdict=verdict,
                facts=list(_facts(record, verdict)),
                rows=list(_rows(record, verdict)),
                titles={name: report_of(name).title or name for name in names},
                unexamined=unexamined(record, verdict, {name: AttackMacros(templates, name) for name in names}),
            )
        )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _rows(record: AuditRecord, verdict: Verdict) -> Iterator[tables.DecisionRow]:
    """A row for each limit, without those on attacks that stand among what was not examined."""
    completed = {result.attack for result in record.attacks if isinstance(result, Completed)}
    for decision in verdict.decisions:
        if decision.limit.attack in completed or decision.outcome not in ("inapplicable", "not run"):
            yield tables.decision_row(decision, report_of(decision.limit.attack))


def _facts(record: AuditRecord, verdict: Verdict) -> Iterator[tuple[str, str]]:
    card, corpus, documents = record.target, record.corpus, record.corpus.documents
    yield "Model", f"{_model_name(record)}, {card.architecture}, SHA-256 {card.sha256}"
    yield "Data set", f"{corpus.name}, SHA-256 {corpus.sha256}"
    member, heldout = documents.get("member", 0), documents.get("heldout", 0)
    yield "Documents, as the owner declares", f"{member:,} trained on, {heldout:,} never seen"
    identity = verdict.identity
    digest = "not read from a file" if identity is None or identity.sha256 is None else f"SHA-256 {identity.sha256}"
    yield "Policy", f"{verdict.policy}, {digest}"
    if identity is not None and identity.warning:
        yield "On the policy", identity.warning
    tried = f", at most {record.bounds.documents:,} documents" if record.bounds and record.bounds.documents else ""
    yield "Effort", f"budget {record.budget}{tried}, seed {record.seed}, {numbers.duration(record.timing.seconds)}"


def _model_name(record: AuditRecord) -> str:
    sheet = record.audit
    return " ".join(filter(None, (sheet.model_name, sheet.model_version))) or record.target.name


def _line(text: str) -> str:
    """Return a name as one line without signs that nobody sees; the Hub's own writer escapes it for YAML."""
    return one_line(text).strip() or "unnamed"
