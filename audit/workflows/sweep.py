"""A sweep: every checkpoint of a training run, scanned with the same trials, one record each (cdmi, figure 7)."""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
"""Folders of a sweep beside those of its checkpoints, where evidence goes elsewhere among them
too."""


@dataclass(frozen=True)
class Checkpoint:
    """One of the checkpoints: its folder, and its position on the sweep's axis."""

    folder: Path
    x: float

    @property
    def name(self) -> str:
        """The name of its record's folder, and its name in the trend."""
        return self.folder.name


@dataclass(frozen=True)
class Sweep:
    """Checkpoints in the order of their training; `axis` says in words what their `x` counts."""

    axis: str
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True)
class CheckpointAudit:
    """The audit of one checkpoint.

    Without record and verdict it could not be audited, for the reason `refusal`.
    """

    checkpoint: Checkpoint
    record: AuditRecord | None = None
    verdict: Verdict | None = None
    refusal: TargetError | None = None


def find_checkpoints(pattern: str) -> Sweep:
    """Find the folders that a pattern matches, by epoch, training step, number in the name, or name.

    The first of these that all of them have, and no two share, is taken: epoch and step as the
    Trainer of transformers wrote them.

    Raises:
        UsageError: nothing matches, or two matches would write into one folder.
    """
    matches = sorted(
        Path(match) for match in glob.glob(os.path.expanduser(pattern)) if os.path.isdir(match)
    )
    if not matches:
        raise UsageError(*wording("no_checkpoints", pattern=pattern))
    names = [match.name for match in matches]
    twice = sorted({name for name in names if names.count(name) > 1})
    ours = [name for name in _OURS if name in names]
    if twice or ours:
        why = f"several folders are called {twice[0]}" if twice else f"{ours[0]} is ours"
        raise UsageError(*wording("taken_names", pattern=pattern, why=why))
    axis, positions = _positions(matches)
    order = sorted(range(len(matches)), key=lambda index: (positions[index], names[index]))
    return Sweep(axis, tuple(Checkpoint(matches[index], positions[index]) for index in order))


def _positions(folders: Sequence[Path]) -> tuple[str, list[float]]:
    """Return the axis that orders the folders, and the position of each on it."""
    states = [training_progress(folder) for folder in folders]
    numbers = [re.findall(r"\d+", folder.name)[-1:] for folder in folders]
    candidates: dict[str, list[float | None]] = {
        "epoch": [state.epoch for state in states],
        "training step": [state.step for state in states],
        "number of the checkpoint": [float(found[0]) if found else None for found in numbers],
    }
    for axis, values in candidates.items():
        known = [value for value in values if value is not None]
        if len(known) == len(set(known)) == len(folders):
            return axis, known
    return "place of the checkpoint by name", [float(index) for index in range(1, len(folders) + 1)]


def sweep_checkpoints(
    sweep: Sweep, options: ScanOptions, policy: Policy, progress: Progress
) -> Iterator[str | CheckpointAudit]:
    """Scan every checkpoint into a folder of its name, one after the other.

    A checkpoint that cannot be audited stops none of the others. A public model that must be
    trained is trained once: all scans keep it in the `evidence` of `options.out`.

    Args:
        sweep: see `find_checkpoints`.
        options: of all scans; `model_dir` is not read, `out` is the folder above theirs, which is
            held all the while.
        policy: what they are judged by.
        progress: of every trial.

    Yields:
        Warnings as they arise, and the audit of each checkpoint as soon as it is done.

    Raises:
        DocauditError: no scan can start or go on (data set, references, disk); for a reason of
            their own, each of the checkpoints raises `TargetError`, which becomes a refusal.
    """
    for checkpoint in sweep.checkpoints:
        check_apart(replace(options, model_dir=checkpoint.folder))
    refused: list[ScanOptions] = []
    started = False
    with ExitStack() as held:

        def claim() -> None:
            """Not before a scan is open: a sweep that cannot start leaves the folder as it was."""
            nonlocal started
            if not started:
                held.enter_context(claim_folder(options.out, options.evidence))
                started = True

        for number, checkpoint in enumerate(sweep.checkpoints, start=1):
            labelled = Labelled(
                progress, f"{checkpoint.name} ({number} of {len(sweep.checkpoints)})"
            )
            try:
                yield from _audit(checkpoint, options, policy, claim, labelled)
            except TargetError as error:
                problems = [
                    f"{checkpoint.name} is not audited: {problem}" for problem in error.problems
                ]
                yield CheckpointAudit(checkpoint, refusal=TargetError(problems, error.hint))
                refused.append(options.below(checkpoint.name))
            while started and refused:
                aside = refused.pop()
                if aside.out.is_dir():
                    # An older verdict on a checkpoint that is refused now is none of this sweep,
                    # and goes.
                    with claim_folder(aside.out, aside.evidence):
                        pass


def _audit(
    checkpoint: Checkpoint,
    options: ScanOptions,
    policy: Policy,
    claim: Callable[[], None],
    progress: Progress,
) -> Iterator[str | CheckpointAudit]:
    """Yield one checkpoint.

    Its model is given free at the end, so that there is never a second one in memory.
    """
    own = options.below(checkpoint.name)
    cache = options.evidence / REFERENCES_FOLDER
    # The same trials of all checkpoints, however fast each of them is.
    session = open_session(replace(own, model_dir=checkpoint.folder, cache=cache))
    session = replace(session, sampling=session.sampling.with_least_shares())
    claim()
    yield from session.warnings
    result = audit_checkpoint(session, policy, progress)
    yield from result.warnings
    yield CheckpointAudit(checkpoint, result.record, result.verdict)


def write_trend(sweep: Sweep, results: Sequence[CheckpointAudit], out: Path) -> list[str]:
    """Draw leak and usefulness of the checkpoints that were audited; return warnings.

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
    """Take the exit code of the worst of all checkpoints: violated, then undecided, then passed.

    One without a verdict is undecided. When none could be audited, it is that of the reason: wrong
    input.
    """
    verdicts = [result.verdict for result in results]
    if not any(verdicts):
        return TargetError.exit_code
    codes = {verdict.exit_code if verdict else EXIT_CODES["undecided"] for verdict in verdicts}
    return next(code for code in _WORST_FIRST if code in codes)
