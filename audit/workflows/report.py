"""The report of one record, and the trend of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit import policy as policies
from audit.errors import RecordError, RenderError, UsageError
from audit.files import EVIDENCE, NO_FILES, check_folder, takes_files, write_atomically
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, file_of
from audit.record import read as read_record
from audit.report import comparison as measured
from audit.report import markdown
from audit.report.changes import Changes, compare
from audit.report.comparison import Comparison
from audit.report.files import remove_stale, write
from audit.report.revealed import NAME, write_revealed
from audit.workflows import wording
from audit.workflows.gate import load_policy
from audit.workflows.options import protect

TrendRow = tuple[float, str, AuditRecord, Verdict]
"""Position on the axis, name, record and verdict of a checkpoint."""


@dataclass(frozen=True)
class Report:
    """The report of one record, as it was written into `folder`.

    Attributes:
        revealed: the file with values, where one was written.
        dpia: the text for an impact assessment, where it was asked for.
    """

    folder: Path
    record: AuditRecord
    verdict: Verdict
    warnings: list[str]
    revealed: Path | None = None
    dpia: Path | None = None


@dataclass(frozen=True)
class Trend:
    """The trend of several checkpoints: a row each, in words what their positions count, and the files written.

    `summary` are attack and metric by heading of what sums up each attack that ran; `answer` names
    the last checkpoint that passes.
    """

    axis: str
    rows: list[TrendRow]
    summary: dict[str, tuple[str, str]]
    answer: str
    files: list[Path]
    warnings: list[str]


def report_records(
    paths: Sequence[Path],
    policy: str,
    out: Path | None,
    reveal: bool,
    defenses: Sequence[Path] = (),
    evidence: Path | None = None,
    dpia: bool = False,
    previous: Path | None = None,
) -> Report | Trend:
    """Draw the report of a record again, or the trend of several, held against a policy.

    Args:
        paths: of records, or of folders that scans wrote.
        policy: a shipped policy or a file.
        out: the folder for the files; None: that of the record.
        reveal: also write the values that were recovered, into the evidence.
        defenses: what `docaudit defend` wrote: the measured effects join the plan of the report.
        evidence: its folder; None: `evidence/` beside the record.
        dpia: also write the text for a data-protection impact assessment.
        previous: the record of the last audit, or its folder: the report lists what changed since.

    Raises:
        DocauditError: a record or the policy cannot be read, the records make no trend, or the
            folder takes no files.
    """
    _check_call(len(paths) > 1, out, reveal, bool(defenses), evidence, dpia, previous)
    if out is not None:
        check_folder("--out", out)
    read = [read_record(path) for path in paths]
    comparisons = [one for path in defenses for one in measured.read_all(path)]
    for one in comparisons:
        refuse_other_audit(one, read[0])
    chosen = load_policy(policy, complete=False)
    verdicts = [policies.evaluate(record, chosen, policies.today()) for record in read]
    source = paths[0] if paths[0].is_dir() else paths[0].parent
    folder = out or source
    _make_folder(folder)
    if len(read) > 1:
        return _write_trend(read, verdicts, folder)
    private = evidence or source / EVIDENCE
    if reveal and private.is_dir():
        protect(private)
    written = file_of(paths[0]).read_bytes()
    changes = None
    if previous is not None:
        before = read_record(previous)
        changes = compare(
            before, policies.evaluate(before, chosen, policies.today()), read[0], verdicts[0]
        )
    shown = private if reveal else None
    warnings = write_report(
        read[0], verdicts[0], chosen, folder, shown, comparisons, written, changes
    )
    assessment = folder / markdown.DPIA_NAME if dpia else None
    if assessment is not None:
        write_atomically(
            assessment, markdown.dpia(read[0], verdicts[0], chosen, comparisons).encode()
        )
    revealed = private / NAME if reveal and (private / NAME).exists() else None
    return Report(folder, read[0], verdicts[0], warnings, revealed, assessment)


def _check_call(
    many: bool,
    out: Path | None,
    reveal: bool,
    defenses: bool,
    evidence: Path | None,
    dpia: bool,
    previous: Path | None,
) -> None:
    """Refuse options of `report_records` that do not go together."""
    if evidence is not None and not reveal:
        raise UsageError("--evidence is where --reveal finds the values", "add --reveal")
    if evidence is not None and not evidence.is_dir():
        raise UsageError(
            f"--evidence {evidence}: no folder", "name the one that was given to docaudit scan"
        )
    if many and (out is None or reveal):
        problem = (
            "a trend of several records needs --out"
            if out is None
            else "a trend has no values to reveal"
        )
        raise UsageError(problem, "docaudit report RECORD RECORD ... --out FOLDER")
    if many and (defenses or dpia):
        problem = "a trend of several records has no plan for countermeasures to join"
        raise UsageError(
            problem if defenses else "an impact assessment is of one model", "give one record"
        )
    if many and previous is not None:
        raise UsageError("--previous compares one record with an earlier one", "give one record")


def model_card_of(path: Path, policy: str, out: Path | None) -> tuple[str, Path | None]:
    """Make a section for a model card, and write it into the folder `out` where one is given.

    Args:
        path: of the record, or of the folder that a scan wrote.
        policy: a shipped policy or a file.
        out: made when missing; None: nothing is written.

    Returns:
        The section, and the file that holds it.

    Raises:
        DocauditError: the record or the policy cannot be read, no model was audited, or the folder
            takes no file.
    """
    if out is not None:
        check_folder("--out", out)
    record = read_record(path)
    chosen = load_policy(policy, complete=False)
    card = markdown.model_card(record, policies.evaluate(record, chosen, policies.today()))
    if out is None:
        return card, None
    _make_folder(out)
    write_atomically(out / markdown.CARD_NAME, card.encode())
    return card, out / markdown.CARD_NAME


def write_report(
    record: AuditRecord,
    verdict: Verdict,
    policy: Policy,
    out: Path,
    reveal_from: Path | None = None,
    comparisons: Sequence[Comparison] = (),
    written: bytes | None = None,
    changes: Changes | None = None,
    paths: Mapping[str, str] | None = None,
) -> list[str]:
    """Draw the reports, with the evidence in `reveal_from` if given.

    Return as warnings what could not be drawn.
    """
    if reveal_from is not None:
        remove_stale(reveal_from / NAME)
    try:
        warnings = list(write(record, verdict, policy, out, comparisons, written, changes, paths))
        if reveal_from is not None:
            write_revealed(record, verdict, policy, out, reveal_from)
    except RenderError as error:
        return error.lines
    return warnings


def _make_folder(folder: Path) -> None:
    if not takes_files(folder):
        raise UsageError(
            f"{folder}: {NO_FILES}", "name a folder that you can write into with --out"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}", "name a folder") from None


def _write_trend(audits: Sequence[AuditRecord], verdicts: Sequence[Verdict], folder: Path) -> Trend:
    from audit.report import trend
    from audit.report.checkpoints import answer, axis_positions, summary

    axis, positions = axis_positions(audits)
    names = [record.target.name for record in audits]
    rows = sorted(zip(positions, names, audits, verdicts, strict=True), key=lambda row: row[0])
    named = answer(axis, [(x, name, verdict) for x, name, _, verdict in rows])
    warnings = trend.write(rows, axis, folder)
    files = [folder / name for name in (trend.PDF_NAME, trend.HTML_NAME)]
    return Trend(
        axis, rows, summary(audits), named.text, [path for path in files if path.exists()], warnings
    )


def refuse_other_audit(comparison: Comparison, record: AuditRecord) -> None:
    """Refuse a comparison that was made on another model or data set.

    Raises:
        RecordError: it was.
    """
    pairs = {
        "model": (comparison.target, record.target.sha256),
        "data set": (comparison.data, record.corpus.sha256),
    }
    others = [what for what, (own, other) in pairs.items() if own != other]
    if others:
        raise RecordError(
            *wording("other_comparison", name=comparison.name, what=" and ".join(others))
        )
