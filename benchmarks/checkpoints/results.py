"""What came of a row: numbers of the record, through the facts that all reports share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

from audit.policy.decision import word_of
from audit.record import AuditRecord
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import QuestionFacts, title_of
from audit.report.residual import unexamined
from audit.report.sentences import finding_sentence
from audit.workflows.gate import gate_record

POLICY = "default"
_SHOWN_DIGITS = 12
"""Digits that are shown of a sha256."""
_STRICT = ConfigDict(extra="forbid")


@checked_dataclass(frozen=True, config=_STRICT)
class Finding:
    """The number of an attack that decides its worst limit, else its plainest one.

    Attributes:
        attack: its name.
        title: as reports call it.
        outcome: the worst outcome of its limits, in a word.
        sentence: the number with its interval, and its reading.
        about_text: whether the number is about the documents' text, whatever the model.
        why: why the outcome is undecided; empty where it is not.
        value, low, high, n: of the number; None where nothing could be measured.
    """

    attack: str
    title: str
    outcome: str
    sentence: str
    about_text: bool = False
    why: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@checked_dataclass(frozen=True, config=_STRICT)
class Result:
    """What came of a row.

    Attributes:
        name: of the row.
        state: "scanned", or what kept it from that.
        reason: why it was not scanned.
        verdict: of the default policy; empty where it was not scanned.
        exit_code: of the scan.
        commit: the commit of the Hub, or the beginning of the model's sha256.
        documents: by split.
        findings: of the attacks that ran, the worst first.
        not_tested: attacks that gave no number, with the reason.
        inapplicable: attacks that are about nothing here, with the reason.
        seconds: by step.
        machine: in general terms.
        date: on which the scan ended.
        docaudit: its version.
    """

    name: str
    state: Literal["scanned", "not run", "failed"]
    reason: str = ""
    verdict: str = ""
    exit_code: int | None = None
    commit: str = ""
    documents: dict[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    not_tested: tuple[str, ...] = ()
    inapplicable: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    machine: str = ""
    date: str = ""
    docaudit: str = ""

    @property
    def minutes(self) -> float:
        """Return the minutes of all steps together."""
        return sum(self.seconds.values()) / 60


results_type = TypeAdapter(tuple[Result, ...])


def read_report(name: str, report: Path, seconds: Mapping[str, float]) -> Result:
    """Read what a scan found, and judge it by the default policy.

    Raises:
        DocauditError: the record cannot be read.
    """
    record, verdict = gate_record(report, POLICY)
    facts = facts_of(record, verdict)
    gaps = unexamined(record, verdict)
    environment = record.environment
    return Result(
        name=name,
        state="scanned",
        verdict=verdict.word,
        exit_code=verdict.exit_code,
        commit=_commit_of(record),
        documents=dict(record.corpus.documents),
        findings=tuple(map(_finding, facts.rows)),
        not_tested=tuple(f"{gap.title}: {gap.reason}" for gap in gaps.gaps),
        inapplicable=tuple(f"{titles}: {reason}" for titles, reason in gaps.harmless),
        seconds=dict(seconds),
        machine=f"{environment.device}, threads: {environment.threads}, {environment.system}",
        date=record.timing.finished[: len("2026-11-30")],
        docaudit=environment.docaudit,
    )


def _commit_of(record: AuditRecord) -> str:
    """Return the commit of the Hub; of a local model the beginning of its sha256."""
    if record.target.revision is not None:
        return str(record.target.revision)
    return f"sha256 {record.target.sha256[:_SHOWN_DIGITS]}"


def _finding(row: QuestionFacts) -> Finding:
    """Return what an attack found: a number that did not decide its outcome would mislead."""
    title = title_of(row.attack)
    outcome = word_of(row.outcome) or "no limit"
    measured = row.measured or row.plainest
    if measured is None:
        return Finding(row.attack, title, outcome, "nothing could be measured")
    return Finding(
        attack=row.attack,
        title=title,
        outcome=outcome,
        sentence=finding_sentence(row.attack, measured),
        about_text=row.deciding is not None and row.deciding.about_text,
        why=_why_undecided(row),
        value=measured.value,
        low=measured.low,
        high=measured.high,
        n=measured.n,
    )


def _why_undecided(row: QuestionFacts) -> str:
    """Return the reason of the decision that decides, where it is undecided."""
    if row.deciding is None or row.deciding.outcome != "undecided":
        return ""
    return row.deciding.reason
