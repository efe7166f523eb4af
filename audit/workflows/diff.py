"""Two scans on disk compared, for `docaudit diff` and for a gate against an earlier scan."""

import hashlib
from pathlib import Path

from audit.compare.baseline import baseline_of
from audit.compare.comparison import Comparison
from audit.compare.scans import compare
from audit.engine.interface import SILENT, Progress
from audit.errors import RecordError
from audit.files import EVIDENCE
from audit.policy import Verdict
from audit.policy.baseline import hold_against_baseline
from audit.record import AuditRecord, file_of
from audit.record import read as read_record
from audit.workflows import wording
from audit.workflows.gate import gate_record, load_policy


def diff_scans(
    old: Path, new: Path, policy: str = "default", progress: Progress = SILENT
) -> Comparison:
    """Compare two scans in the numbers that a policy limits and others.

    Args:
        old: record or folder of the earlier scan.
        new: record or folder of the later scan.
        policy: a shipped policy or a file.
        progress: advanced by every attack.

    Raises:
        DocauditError: a record or the policy cannot be read, or the scans differ in more than the
            model.
    """
    chosen = load_policy(policy, complete=False)
    records = (read_record(old), read_record(new))
    return compare(records, (evidence_of(old), evidence_of(new)), chosen, progress)


def evidence_of(path: Path) -> Path:
    """Return the folder of a scan's evidence, unless `--evidence` named another."""
    return file_of(path).parent / EVIDENCE


def gate_against_baseline(
    path: Path,
    policy: str,
    baseline: Path,
    model: Path | None = None,
    data: Path | None = None,
    *,
    no_model: bool = False,
    progress: Progress = SILENT,
) -> tuple[AuditRecord, Verdict, Comparison]:
    """Hold a record against a policy and against an earlier scan; see `gate_record`.

    Returns:
        The record, the verdict by both, and the comparison.

    Raises:
        DocauditError: as `gate_record` does; or the baseline is the same record, or does not fit
            it.
    """
    record, verdict = gate_record(path, policy, model, data, no_model=no_model)
    chosen = load_policy(policy, complete=False)
    earlier = read_record(baseline)
    if earlier == record:
        raise RecordError(*wording("own_baseline", baseline=baseline))
    evidence = (evidence_of(baseline), evidence_of(path))
    comparison = compare((earlier, record), evidence, chosen, progress)
    digest = hashlib.sha256(file_of(baseline).read_bytes()).hexdigest()
    summary = baseline_of(comparison, verdict.decisions, digest)
    return record, hold_against_baseline(verdict, summary), comparison
