"""The report of one record, and the trend of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit import policy as policies
from audit.compare import defended as measured
from audit.compare.defended import MeasuredDefense
from audit.errors import RecordError, RenderError, UsageError
from audit.files import EVIDENCE, NO_FILES, check_folder, takes_files, write_atomically
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, file_of
from audit.record import read as read_record
from audit.report import markdown
from audit.report.changes import Changes, compare
from audit.report.commands import Called
from audit.report.files import remove_stale, write
from audit.report.revealed import NAME, write_revealed
from audit.workflows import wording
from audit.workflows.arguments import called_by
from audit.workflows.gate import load_policy
from audit.workflows.options import protect
from audit.workflows.owner_sheet import with_statements, write_statements

TrendRow = tuple[float, str, AuditRecord, Verdict]
"""Position on the axis, name, record and verdict of a checkpoint."""


@dataclass(frozen=True)
class Report:
    """The report of one record, as it was written.

    Attributes:
        folder: folder of the files.
        record: the record.
        verdict: verdict on it, under the policy of the report.
        warnings: what could not be drawn.
        revealed: file with values, where one was written.
        dpia: text for an impact assessment, where it was asked for.
        comparisons: what countermeasures were measured to do to the model.
        called: how the scan was called.
    """

    folder: Path
    record: AuditRecord
    verdict: Verdict
    warnings: list[str]
    revealed: Path | None = None
    dpia: Path | None = None
    comparisons: tuple[MeasuredDefense, ...] = ()
    called: Called | None = None


@dataclass(frozen=True)
class Trend:
    """The trend of several checkpoints, as it was written.

    Attributes:
        axis: what the positions of the checkpoints count, in words.
        rows: one row of each checkpoint, in the order of the axis.
        summary: attack and metric by heading of what sums up each attack that ran.
        answer: sentence that names the last checkpoint that passes.
        files: files that were written.
        warnings: what could not be drawn, and what weakens the comparison.
    """

    axis: str
    rows: list[TrendRow]
    summary: dict[str, tuple[str, str]]
    answer: str
    files: list[Path]
    warnings: list[str]


@dataclass(frozen=True)
class ReportRequest:
    """What a report is drawn of, and what it shows beside the record.

    Attributes:
        paths: paths of records, or of folders that scans wrote; several records make a trend.
        policy: name of a shipped policy, or path of a file.
        out: folder for the files; None: that of the record.
        reveal: also write the values that were recovered, into the evidence.
        defenses: folders that `docaudit defend` wrote: the measured effects join the plan of the
            report.
        evidence: folder of the evidence; None: `evidence/` beside the record.
        dpia: also write the text for a data-protection impact assessment.
        previous: record of the last audit, or its folder: the report lists what changed since.
        statements: what the owner states, each KEY=VALUE; the record in the report's folder then
            holds it.
    """

    paths: Sequence[Path]
    policy: str
    out: Path | None = None
    reveal: bool = False
    defenses: Sequence[Path] = ()
    evidence: Path | None = None
    dpia: bool = False
    previous: Path | None = None
    statements: Sequence[str] = ()

    @property
    def is_trend(self) -> bool:
        """Test whether several records are drawn as one trend."""
        return len(self.paths) > 1

    @property
    def record_folder(self) -> Path:
        """Return the folder of the first record."""
        first = self.paths[0]
        return first if first.is_dir() else first.parent

    @property
    def report_folder(self) -> Path:
        """Return the folder that the files go to."""
        return self.out or self.record_folder

    @property
    def evidence_folder(self) -> Path:
        """Return the folder of what only the owner may see."""
        return self.evidence or self.record_folder / EVIDENCE

    def check(self) -> None:
        """Refuse options that do not go together, before anything is read.

        Raises:
            UsageError: they do not, or a folder cannot be used.
        """
        if self.evidence is not None:
            self._check_evidence(self.evidence)
        if self.is_trend:
            self._check_trend()
        if self.out is not None:
            check_folder("--out", self.out)

    def _check_evidence(self, evidence: Path) -> None:
        """Refuse a folder of evidence that is not there, or that nothing is read from."""
        if not self.reveal:
            raise UsageError("--evidence is where --reveal finds the values", "add --reveal")
        if not evidence.is_dir():
            raise UsageError(
                f"--evidence {evidence}: no folder", "name the one that was given to docaudit scan"
            )

    def _check_trend(self) -> None:
        """Refuse for a trend what is of one record alone."""
        command = "docaudit report RECORD RECORD ... --out FOLDER"
        single = "give one record"
        if self.out is None:
            raise UsageError("a trend of several records needs --out", command)
        if self.reveal:
            raise UsageError("a trend has no values to reveal", command)
        if self.defenses:
            problem = "a trend of several records has no plan for countermeasures to join"
            raise UsageError(problem, single)
        if self.dpia:
            raise UsageError("an impact assessment is of one model", single)
        if self.statements:
            raise UsageError("--set states the facts of one audit", single)
        if self.previous is not None:
            raise UsageError("--previous compares one record with an earlier one", single)


def report_records(request: ReportRequest) -> Report | Trend:
    """Draw the report of a record again, or the trend of several, held against a policy.

    Raises:
        DocauditError: the options do not go together, a record or the policy cannot be read, the
            records make no trend, or the folder takes no files.
    """
    request.check()
    records = [read_record(path) for path in request.paths]
    if request.statements:
        records = [with_statements(records[0], request.statements)]
    comparisons = _read_comparisons(request.defenses, records[0])
    policy = load_policy(request.policy, complete=False)
    verdicts = [_judge(record, policy) for record in records]
    _make_folder(request.report_folder)
    if request.is_trend:
        return _write_trend(records, verdicts, request.report_folder)
    return _report_record(request, records[0], verdicts[0], policy, comparisons)


def _read_comparisons(folders: Sequence[Path], record: AuditRecord) -> list[MeasuredDefense]:
    """Read what countermeasures changed, and refuse what is of another audit than the record."""
    comparisons: list[MeasuredDefense] = []
    for folder in folders:
        comparisons += measured.read_all(folder)
    for comparison in comparisons:
        refuse_other_audit(comparison, record)
    return comparisons


def _judge(record: AuditRecord, policy: Policy) -> Verdict:
    """Hold a record against a policy, as of today."""
    return policies.evaluate(record, policy, policies.today())


def _report_record(
    request: ReportRequest,
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    comparisons: Sequence[MeasuredDefense],
) -> Report:
    """Draw the report of one record, with all that is asked for beside it."""
    folder = request.report_folder
    evidence = request.evidence_folder
    if request.reveal and evidence.is_dir():
        protect(evidence)
    if request.statements:
        written = write_statements(record, folder)
    else:
        written = file_of(request.paths[0]).read_bytes()
    called = called_by(request.paths[0], record, request.evidence).at(
        **{"POLICY.toml": request.policy}
    )
    additions = Additions(
        comparisons=comparisons,
        called=called,
        written=written,
        changes=_changes_since(request.previous, record, verdict, policy),
    )
    reveal_from = evidence if request.reveal else None
    warnings = write_report(record, verdict, policy, folder, additions, reveal_from)
    assessment = None
    if request.dpia:
        assessment = folder / markdown.DPIA_NAME
        text = markdown.dpia(record, verdict, policy, comparisons)
        write_atomically(assessment, text.encode())
    revealed = None
    if request.reveal and (evidence / NAME).exists():
        revealed = evidence / NAME
    return Report(
        folder, record, verdict, warnings, revealed, assessment, tuple(comparisons), called
    )


def _changes_since(
    previous: Path | None, record: AuditRecord, verdict: Verdict, policy: Policy
) -> Changes | None:
    """Compare a record with that of the last audit, under one policy; None without one."""
    if previous is None:
        return None
    earlier = read_record(previous)
    return compare(earlier, _judge(earlier, policy), record, verdict)


def model_card_of(path: Path, policy: str, out: Path | None) -> tuple[str, Path | None]:
    """Make a section for a model card, and write it into the folder `out` where one is given.

    Args:
        path: path of the record, or of the folder that a scan wrote.
        policy: name of a shipped policy, or path of a file.
        out: folder for the section, made when missing; None: nothing is written.

    Returns:
        The section, and the file that holds it.

    Raises:
        DocauditError: the record or the policy cannot be read, no model was audited, or the folder
            takes no file.
    """
    if out is not None:
        check_folder("--out", out)
    record = read_record(path)
    verdict = _judge(record, load_policy(policy, complete=False))
    card = markdown.model_card(record, verdict)
    if out is None:
        return card, None
    _make_folder(out)
    path_of_card = out / markdown.CARD_NAME
    write_atomically(path_of_card, card.encode())
    return card, path_of_card


@dataclass(frozen=True)
class Additions:
    """What a report shows beside a record and the verdict on it.

    Attributes:
        comparisons: measured effects of countermeasures, which join the plan.
        written: bytes of the record's file, where it was written already.
        changes: what changed since the last audit.
        called: how the scan was called; None: names stand in commands for its arguments.
    """

    comparisons: Sequence[MeasuredDefense] = ()
    written: bytes | None = None
    changes: Changes | None = None
    called: Called | None = None


def write_report(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    out: Path,
    additions: Additions = Additions(),
    reveal_from: Path | None = None,
) -> list[str]:
    """Draw the reports, with the values of the evidence where they are to be revealed.

    Args:
        record: record of the scan.
        verdict: verdict on it.
        policy: policy of the verdict.
        out: folder for the files.
        additions: what the reports show beside record and verdict.
        reveal_from: folder of the evidence; None: no values are revealed.

    Returns:
        Warnings, one line each: what could not be drawn.
    """
    if reveal_from is not None:
        remove_stale(reveal_from / NAME)
    called = additions.called
    if called is not None:
        called = called.without_evidence()
    try:
        warnings = list(
            write(
                record,
                verdict,
                policy,
                out,
                additions.comparisons,
                additions.written,
                additions.changes,
                called,
            )
        )
        if reveal_from is not None:
            write_revealed(record, verdict, policy, out, reveal_from)
    except RenderError as error:
        return error.lines
    return warnings


def _make_folder(folder: Path) -> None:
    """Make a folder for the files, and refuse one that takes none."""
    if not takes_files(folder):
        raise UsageError(
            f"{folder}: {NO_FILES}", "name a folder that you can write into with --out"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}", "name a folder") from None


def _write_trend(
    records: Sequence[AuditRecord], verdicts: Sequence[Verdict], folder: Path
) -> Trend:
    """Draw the trend of several records, in the order of their positions on the axis."""
    from audit.report import trend
    from audit.report.checkpoints import answer, axis_positions, summary

    axis, positions = axis_positions(records)
    names = [record.target.name for record in records]
    rows = sorted(zip(positions, names, records, verdicts, strict=True), key=lambda row: row[0])
    last_passing = answer(axis, [(x, name, verdict) for x, name, _, verdict in rows])
    warnings = trend.write(rows, axis, folder)
    paths = [folder / name for name in (trend.PDF_NAME, trend.HTML_NAME)]
    files = [path for path in paths if path.exists()]
    return Trend(axis, rows, summary(records), last_passing.text, files, warnings)


def refuse_other_audit(comparison: MeasuredDefense, record: AuditRecord) -> None:
    """Refuse a comparison that was made on another model or data set.

    Raises:
        RecordError: it was.
    """
    differing: list[str] = []
    if comparison.target != record.target.sha256:
        differing.append("model")
    if comparison.data != record.corpus.sha256:
        differing.append("data set")
    if differing:
        what = " and ".join(differing)
        raise RecordError(*wording("other_comparison", name=comparison.name, what=what))
