"""Draw a verdict and a record as HTML for a notebook: small tables without styles or scripts."""

from collections.abc import Iterator
from dataclasses import dataclass

from audit.attacks import text_of
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.record import AuditRecord, Result
from audit.report.answer import headline
from audit.report.decision import question_rows
from audit.report.facts.build import facts_of
from audit.report.residual import unexamined
from audit.report.sentences import finding_sentence
from audit.report.templates import render_html
from audit.report.verdicts.words import MARKS


@dataclass(frozen=True)
class AttackRow:
    """An attack of a record, with the number that sums it up or the reason that it has none."""

    title: str
    status: str
    result: str


def verdict_html(verdict: Verdict) -> str:
    """Draw the outcome, what each attack reached, and what was not tested."""
    record = verdict.settled.record
    facts = facts_of(record, verdict)
    return render_html(
        "notebook_verdict.html",
        record=record,
        verdict=verdict,
        answer=headline(facts),
        mark=MARKS[facts.outcome],
        marks=MARKS,
        questions=question_rows(facts),
        not_tested=[gap.title for gap in unexamined(record, verdict).gaps],
    )


def record_html(record: AuditRecord) -> str:
    """Draw what was audited, and for each attack the number that sums it up."""
    return render_html(
        "notebook_record.html",
        record=record,
        attacks=[_attack_row(result) for result in record.attacks],
    )


def _attack_row(result: Result) -> AttackRow:
    """Make the row of an attack."""
    text = text_of(result.attack)
    sentence = "; ".join(_summaries(result)) or result.why
    return AttackRow(text.title or result.attack, result.status, sentence)


def _summaries(result: Result) -> Iterator[str]:
    """Yield a sentence for each number that sums an attack up, as in a trend of checkpoints."""
    estimates = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    for metric in text_of(result.attack).trend.summary.values():
        if metric in estimates:
            yield finding_sentence(result.attack, estimates[metric])
