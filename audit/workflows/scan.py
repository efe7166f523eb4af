"""Scan a model: open it, run its attacks, judge the record, and write the reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from audit import policy as policies
from audit import record as records
from audit.cards import DeclaredPolicy
from audit.engine.interface import Progress
from audit.errors import EngineError
from audit.failures import guarded
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report.files import NAMES
from audit.workflows.options import (
    ScanOptions,
    check_apart,
    claim_folder,
    warn_of_other_record,
)
from audit.workflows.report import Additions, write_report
from audit.workflows.run import run_scan
from audit.workflows.session import Session, open_session


@dataclass(frozen=True)
class ScanResult:
    """A scan that has run, judged and drawn.

    Attributes:
        record: everything that was measured; the same as `record.json`.
        verdict: verdict of the policy.
        warnings: warnings of the data set, the model and the reports.
        out: the folder of record and reports.
    """

    record: AuditRecord
    verdict: Verdict
    warnings: tuple[str, ...]
    out: Path

    @property
    def exit_code(self) -> int:
        """Return the exit code of `docaudit scan`: 0 passed, 10 violated, 11 undecided."""
        return self.verdict.exit_code

    @property
    def reports(self) -> dict[str, Path]:
        """Return the files that were written, by their names."""
        paths = {name: self.out / name for name in ("record.json", *NAMES)}
        return {name: path for name, path in paths.items() if path.exists()}

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook."""
        from audit.report.notebook import verdict_html

        return verdict_html(self.verdict)


@dataclass(frozen=True)
class Labelled(Progress):
    """A `Progress` that puts the name of one of several scans before every stage."""

    progress: Progress
    label: str

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage of the progress, with the name of the scan before its own."""
        self.progress.stage(f"{self.label}: {name}", total)

    def expect(self, steps: int) -> None:
        """Expect steps of later stages."""
        self.progress.expect(steps)

    def advance(self, steps: int = 1) -> None:
        """Advance the progress."""
        self.progress.advance(steps)


def run(
    options: ScanOptions,
    policy: Policy,
    progress: Progress,
    warn: Callable[..., None] = lambda *_: None,
) -> ScanResult:
    """Open a scan, run it, judge it and write its reports.

    This is all that `docaudit scan` and the Python API do.

    Args:
        options: options of the scan.
        policy: policy that it is judged by.
        progress: receiver of the progress of every trial.
        warn: function that gets warnings as soon as they are known; the result has them all.

    Raises:
        DocauditError: the scan could not start, or could not go on.
    """
    with guarded("the scan"):
        return _open_and_run(options, policy, progress, warn)


def _open_and_run(
    options: ScanOptions, policy: Policy, progress: Progress, warn: Callable[..., None]
) -> ScanResult:
    """Open a scan, run it, judge it and write its reports; see `run`."""
    # Loads what lists references, which sweeps and defences do without.
    from audit.workflows.references import missing_references

    policies.check_subject(policy, forgotten=options.forgotten is not None)
    check_apart(options)
    session = _open(options)
    warnings = [
        *warn_of_other_record(options.out, session.target.card.sha256, session.corpus.sha256),
        *session.warnings,
    ]
    if not options.no_model:
        warnings += missing_references(session)
    warnings += policies.warn_of_few(session.data.forgotten, policy)
    warn(*warnings)
    result = audit_checkpoint(session, policy, progress)
    warn(*result.warnings)
    return replace(result, warnings=(*warnings, *result.warnings))


def _open(options: ScanOptions) -> Session:
    """Open a scan; of an export, once it is found fit to be compared with the audited model."""
    if options.derived_from is None:
        return open_session(options)
    # Imported late: only a scan of an export compares scans.
    from audit.workflows import exports

    audited = exports.read_audited(options.derived_from)
    exports.refuse_other_data(options, audited)
    exports.refuse_quantised(options)
    exports.refuse_lost_training(options, audited)
    return exports.open_export(open_session(options), audited)


def audit_checkpoint(session: Session, policy: Policy, progress: Progress) -> ScanResult:
    """Run one scan, judge it and write all its files into its folder.

    Args:
        session: the scan.
        policy: what it is judged by.
        progress: receiver of the progress, told of every trial.

    Raises:
        DocauditError: the audit could not go on.
    """
    options = session.options
    out = options.out
    with claim_folder(out, options.evidence):
        record = run_under(policy, session, progress)
        if options.derived_from is not None:
            from audit.workflows.exports import compare_with_audited

            record = compare_with_audited(record, options, policy, progress)
        verdict = policies.evaluate(record, policy, policies.today())
        try:
            warnings = write_report(
                record, verdict, policy, out, Additions(called=options.called())
            )
        except EngineError as error:
            warnings = error.lines
        finally:
            # Last, so that no record is ever seen with an older report; always, for the verdict
            # outranks drawing.
            records.write(record, out / "record.json")
    return ScanResult(record, verdict, tuple(warnings), out)


def declare(policy: Policy) -> DeclaredPolicy | None:
    """Return the policy as a record holds it; None for one that no file holds."""
    origin = policy.origin
    if origin is None:
        return None
    return DeclaredPolicy(policy.name, origin.sha256, origin.shipped, origin.toml)


def run_under(policy: Policy, session: Session, progress: Progress) -> AuditRecord:
    """Run a scan that declares a policy; what it measures is the same under any.

    Args:
        policy: what the record will be judged by.
        session: the scan, see `run_scan`.
        progress: receiver of the progress, told of every trial.

    Raises:
        DocauditError: the audit itself could not go on.
    """
    return run_scan(session, progress, declare(policy))
