"""A sweep: every checkpoint of a training run, scanned with the same trials (cdmi, figure 7)."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from audit.engine.interface import Progress
from audit.errors import RecordError, RenderError, TargetError, UsageError
from audit.files import EVIDENCE
from audit.policy import EXIT_CODES, Policy, Verdict
from audit.record import AuditRecord
from audit.report import trend
from audit.targets.checkpoint.content import training_progress
from audit.workflows import wording
from audit.workflows.options import REFERENCES_FOLDER, ScanOptions, check_apart, claim_folder
from audit.workflows.scan import Labelled, audit_checkpoint
from audit.workflows.session import open_session

_WORST_FIRST = (EXIT_CODES["violated"], EXIT_CODES["undecided"], EXIT_CODES["passed"])
_OURS = (EVIDENCE, REFERENCES_FOLDER)
"""Folders of a sweep beside those of its checkpoints; where evidence goes elsewhere, they lie among
these too."""


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a sweep.

    Attributes:
        folder: folder of the checkpoint.
        x: its position on the sweep's axis.
    """

    folder: Path
    x: float

    @property
    def name(self) -> str:
        """Return the name of its record's folder, which is its name in the trend."""
        return self.folder.name


@dataclass(frozen=True)
class Sweep:
    """The checkpoints of a training run.

    Attributes:
        axis: what the positions of the checkpoints count, in words.
        checkpoints: checkpoints in the order of their training.
    """

    axis: str
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True)
class CheckpointAudit:
    """The audit of one checkpoint.

    Attributes:
        checkpoint: the checkpoint.
        record: record of its scan; None: it could not be audited.
        verdict: verdict on the record; None likewise.
        refusal: why it could not be audited; None where it was.
    """

    checkpoint: Checkpoint
    record: AuditRecord | None = None
    verdict: Verdict | None = None
    refusal: TargetError | None = None


def find_checkpoints(pattern: str) -> Sweep:
    """Find the folders that a pattern matches, in the order of their training.

    That is by epoch, training step, number in the name, or name: the first of these that all of
    them have, and no two share. Epoch and step are taken as the Trainer of transformers wrote them.

    Raises:
        UsageError: nothing matches, or two matches would write into one folder.
    """
    matches = sorted(
        Path(match) for match in glob.glob(os.path.expanduser(pattern)) if os.path.isdir(match)
    )
    if not matches:
        raise UsageError(*wording("no_checkpoints", pattern=pattern))
    _refuse_names(pattern, [match.name for match in matches])
    axis, positions = _positions(matches)
    checkpoints = [Checkpoint(folder, x) for folder, x in zip(matches, positions, strict=True)]
    checkpoints.sort(key=lambda checkpoint: (checkpoint.x, checkpoint.name))
    return Sweep(axis, tuple(checkpoints))


def _refuse_names(pattern: str, names: Sequence[str]) -> None:
    """Refuse folders that would write into one folder, or into one of the sweep itself.

    Args:
        pattern: pattern that the folders match.
        names: names of the folders.
    """
    repeated = sorted({name for name in names if names.count(name) > 1})
    ours = [name for name in _OURS if name in names]
    if repeated:
        why = f"several folders are called {repeated[0]}"
    elif ours:
        why = f"{ours[0]} is ours"
    else:
        return
    raise UsageError(*wording("taken_names", pattern=pattern, why=why))


def _positions(folders: Sequence[Path]) -> tuple[str, list[float]]:
    """Return the axis that orders the folders, and the position of each on it."""
    states = [training_progress(folder) for folder in folders]
    candidates: dict[str, list[float | None]] = {
        "epoch": [state.epoch for state in states],
        "training step": [state.step for state in states],
        "number of the checkpoint": [_last_number(folder.name) for folder in folders],
    }
    for axis, values in candidates.items():
        positions = [value for value in values if value is not None]
        if len(positions) == len(set(positions)) == len(folders):
            return axis, positions
    return "place of the checkpoint by name", [float(index) for index in range(1, len(folders) + 1)]


def _last_number(name: str) -> float | None:
    """Return the last number in a name; None where it has none."""
    numbers = re.findall(r"\d+", name)
    return float(numbers[-1]) if numbers else None


@dataclass
class _SweepFolder:
    """The folder of a sweep, above those of its checkpoints.

    Attributes:
        options: options of all scans, which name the folder.
        stack: what holds the folder until the sweep ends.
        is_claimed: whether it is held yet.
        refused: scans of checkpoints that could not be audited, whose folders are still to be
            cleared.
    """

    options: ScanOptions
    stack: ExitStack
    is_claimed: bool = False
    refused: list[ScanOptions] = field(default_factory=list)

    def claim(self) -> None:
        """Hold the folder from the first scan on that is open.

        So a sweep that cannot start leaves the folder as it was.
        """
        if not self.is_claimed:
            self.stack.enter_context(claim_folder(self.options.out, self.options.evidence))
            self.is_claimed = True

    def clear_refused(self) -> None:
        """Remove older verdicts on checkpoints that are refused now: none is of this sweep."""
        while self.is_claimed and self.refused:
            scan = self.refused.pop()
            if scan.out.is_dir():
                with claim_folder(scan.out, scan.evidence):
                    pass


def sweep_checkpoints(
    sweep: Sweep, options: ScanOptions, policy: Policy, progress: Progress
) -> Iterator[str | CheckpointAudit]:
    """Scan every checkpoint into a folder of its name, one after the other.

    A checkpoint that cannot be audited stops none of the others. A public model that must be
    trained is trained once: all scans keep it in the `evidence` of `options.out`.

    Args:
        sweep: checkpoints, see `find_checkpoints`.
        options: options of all scans; `model_dir` is not read, `out` is the folder above theirs,
            which is held all the while.
        policy: policy that they are judged by.
        progress: receiver of the progress, told of every trial.

    Yields:
        Warnings as they arise, and the audit of each checkpoint as soon as it is done.

    Raises:
        DocauditError: no scan can start or go on (data set, references, disk); for a reason of
            their own, each of the checkpoints raises `TargetError`, which becomes a refusal.
    """
    for checkpoint in sweep.checkpoints:
        check_apart(replace(options, model_dir=checkpoint.folder))
    n_checkpoints = len(sweep.checkpoints)
    with ExitStack() as stack:
        folder = _SweepFolder(options, stack)
        for number, checkpoint in enumerate(sweep.checkpoints, start=1):
            labelled = Labelled(progress, f"{checkpoint.name} ({number} of {n_checkpoints})")
            try:
                yield from _audit(checkpoint, folder, policy, labelled)
            except TargetError as error:
                problems = [
                    f"{checkpoint.name} is not audited: {problem}" for problem in error.problems
                ]
                yield CheckpointAudit(checkpoint, refusal=TargetError(problems, error.hint))
                folder.refused.append(options.below(checkpoint.name))
            folder.clear_refused()


def _audit(
    checkpoint: Checkpoint, folder: _SweepFolder, policy: Policy, progress: Progress
) -> Iterator[str | CheckpointAudit]:
    """Audit one checkpoint: yield its warnings, and its audit.

    Its model is given free at the end, so that there is never a second one in memory.
    """
    options = folder.options
    scan = options.below(checkpoint.name)
    cache = options.evidence / REFERENCES_FOLDER
    # The same trials of all checkpoints, however fast each of them is.
    session = open_session(replace(scan, model_dir=checkpoint.folder, cache=cache))
    session = replace(session, sampling=session.sampling.with_least_shares())
    folder.claim()
    yield from session.warnings
    result = audit_checkpoint(session, policy, progress)
    yield from result.warnings
    yield CheckpointAudit(checkpoint, result.record, result.verdict)


def write_trend(sweep: Sweep, results: Sequence[CheckpointAudit], out: Path) -> list[str]:
    """Draw leak and usefulness of the checkpoints that were audited, and return warnings.

    The records are written and their verdicts hold, whether or not they make one picture.
    """
    rows = [
        (result.checkpoint.x, result.checkpoint.name, result.record, result.verdict)
        for result in results
        if result.record and result.verdict
    ]
    try:
        return trend.write(rows, sweep.axis, out) if rows else []
    except (RenderError, RecordError) as error:
        return error.lines


def exit_code(results: Sequence[CheckpointAudit]) -> int:
    """Choose the exit code of the worst of all checkpoints: violated, then undecided, then passed.

    A checkpoint without a verdict is undecided. When none could be audited, it is that of the
    reason: wrong input.
    """
    verdicts = [result.verdict for result in results]
    if not any(verdicts):
        return TargetError.exit_code
    codes = {verdict.exit_code if verdict else EXIT_CODES["undecided"] for verdict in verdicts}
    return next(code for code in _WORST_FIRST if code in codes)
