"""The gate with a baseline: the verdict of the policy, and no limit worse than in an earlier scan."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from audit.engine.interface import SILENT, Progress
from audit.errors import RecordError
from audit.policy import Decision, Verdict
from audit.policy.decision import Baseline, Change, ComparedLimit
from audit.policy.verdict import hold_against_baseline
from audit.record import AuditRecord, file_of
from audit.record import read as read_record
from audit.report.scan_diff import MetricChange, ScanDiff
from audit.workflows.changes import ABOUT_TEXT
from audit.workflows.diff import compare, evidence_of
from audit.workflows.gate import gate_record, load_policy

UNMEASURED = "neither scan measured it"


def gate_against_baseline(
    path: Path,
    policy: str,
    baseline: Path,
    model: Path | None = None,
    data: Path | None = None,
    *,
    no_model: bool = False,
    progress: Progress = SILENT,
) -> tuple[AuditRecord, Verdict, ScanDiff]:
    """Hold a record against a policy and against an earlier scan; the other arguments are those of `gate_record`.

    Returns:
        The record, the verdict by both, and the comparison.

    Raises:
        UsageError: `no_model`, and the record is of a model.
        DocauditError: one of them cannot be read, they do not fit each other, or the baseline is the same record.
    """
    record, verdict = gate_record(path, policy, model, data, no_model=no_model)
    chosen, earlier = load_policy(policy, complete=False), read_record(baseline)
    if earlier == record:
        raise RecordError(
            f"--baseline {baseline}: the baseline is the record itself, so that nothing can be told of a change",
            "give the record of an earlier scan, kept where the new one does not overwrite it",
        )
    found = compare((earlier, record), (evidence_of(baseline), evidence_of(path)), chosen, progress)
    held = Baseline(
        hashlib.sha256(file_of(baseline).read_bytes()).hexdigest(),
        found.old.subject,
        found.old.sha256,
        found.old.scanned,
        found.old.docaudit,
        tuple(_limits(verdict.decisions, found)),
        found.notes,
    )
    return record, hold_against_baseline(verdict, held), found


def _limits(decisions: Sequence[Decision], found: ScanDiff) -> list[ComparedLimit]:
    """What became of each limit, by its worst method."""
    limits: dict[tuple[str, str], ComparedLimit] = {}
    for decision in decisions:
        attack, metric = decision.limit.attack, decision.limit.metric
        changes = [one for one in found.changes if one.attack == attack and metric in one.limits]
        outcome, reason = _worst(changes) if changes else ("not compared", _missing(decision, found))
        limits[attack, metric] = ComparedLimit(attack, metric, outcome, reason)
    return [*limits.values()]


def _worst(changes: Sequence[MetricChange]) -> tuple[Change, str]:
    """The outcome of a limit; it is better only where every method that could be compared is."""
    if worse := [one for one in changes if one.outcome == "worse"]:
        return "worse", max(worse, key=_size).words
    if lost := [one for one in changes if one.lost]:
        return "no longer measured", f"{lost[-1].metric} was measured in the baseline: {lost[-1].reason}"
    compared = [one for one in changes if one.compared]
    if not compared:
        return "not compared", changes[0].reason
    untold = [one for one in compared if one.outcome != "better"]
    if untold:
        largest = max(untold, key=_size)
        return "cannot be told", f"{largest.words}: {largest.reason}"
    return "better", min(compared, key=_size).words


def _missing(decision: Decision, found: ScanDiff) -> str:
    if decision.about_text:
        return ABOUT_TEXT
    attack = f"{decision.limit.attack}: "
    return next((one.removeprefix(attack) for one in found.missing if one.startswith(attack)), UNMEASURED)


def _size(change: MetricChange) -> float:
    return 0.0 if change.difference is None else abs(change.difference.value)
