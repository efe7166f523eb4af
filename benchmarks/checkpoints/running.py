"""One row after another: get the model, import the data, plan, scan, and go on where it stopped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.errors import DocauditError
from audit.extensions.hub import fetch
from audit.policy import EXIT_CODES
from benchmarks.checkpoints.results import Result, read_report
from benchmarks.checkpoints.rows import HUB, READY, Checkpoint

ROOT = Path(__file__).resolve().parents[2]
STEPS = "steps.json"
REPORT = "report"
SCAN = "scan"
VERDICTS = frozenset(EXIT_CODES.values())
"""Exit codes of a scan that ended with a verdict."""
NO_NETWORK = "no network here: run again with --allow-network where there is one"
NO_SAFETENSORS = "the repository has no safetensors, and docaudit opens no pickle"
Runner = Callable[[Sequence[str], Path], int]
"""Runs a module of Python with arguments, its output in a log, and returns its exit code."""


class NotRunError(Exception):
    """A row could not be had; the message says why, and holds no text of a document."""


class FailedError(Exception):
    """A step of a row failed; the message names it, and holds no text of a document."""


def run_apart(words: Sequence[str], log: Path) -> int:
    """Run `python -m WORDS` in a process of its own, and add its output to a log."""
    with log.open("a", encoding="utf-8") as file:
        ran = subprocess.run(
            [sys.executable, "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            check=False,
        )
    return ran.returncode


@dataclass(frozen=True)
class Settings:
    """How rows are run.

    Attributes:
        work: a folder for models, data sets, reports and logs, a folder a row.
        data: the folder that holds sources and backbones.
        allow_network: whether the Hub may be asked.
        run: runs a module.
    """

    work: Path
    data: Path
    allow_network: bool = False
    run: Runner = run_apart


@dataclass
class Steps:
    """What is done of a row, kept in a file so that a later call goes on.

    Attributes:
        folder: of the row.
        digest: of the row that the work belongs to.
        places: of model and source, by what they are.
        seconds: spent on each step, by its name.
        finished: names of the steps that are done.
    """

    folder: Path
    digest: str
    places: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, digest: str) -> Steps:
        """Return the steps of a row; the work of a row that has changed is removed."""
        path = folder / STEPS
        if path.exists():
            saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if saved["digest"] == digest:
                return cls(folder, **saved)
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        steps = cls(folder, digest)
        steps.write()
        return steps

    def write(self) -> None:
        """Write the steps to their file."""
        saved = {
            "digest": self.digest,
            "places": self.places,
            "seconds": self.seconds,
            "finished": self.finished,
        }
        draft = self.folder / f"{STEPS}.draft"
        draft.write_text(json.dumps(saved, indent=1), encoding="utf-8")
        draft.replace(self.folder / STEPS)

    def place(self, kind: str) -> Path | None:
        """Return the folder that an earlier call downloaded; None where there is none."""
        place = self.places.get(kind)
        if place is None or not Path(place).exists():
            return None
        return Path(place)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the seconds of a step to those that earlier calls spent on it."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.perf_counter() - started
            self.seconds[name] = round(spent, 1)
            self.write()

    def finish(self, name: str) -> None:
        """Note that a step is done."""
        self.finished.append(name)
        self.write()


def audit_row(row: Checkpoint, settings: Settings) -> Result:
    """Audit a row, or say why that was not possible."""
    steps = Steps.open(settings.work / row.name, row.digest)
    try:
        if SCAN not in steps.finished:
            _prepare_and_scan(row, settings, steps)
        return read_report(row.name, steps.folder / REPORT, steps.seconds)
    except NotRunError as error:
        return Result(row.name, "not run", str(error))
    except FailedError as error:
        return Result(row.name, "failed", str(error), seconds=steps.seconds)
    except DocauditError as error:
        return Result(row.name, "failed", f"no report could be read: {type(error).__name__}")


def _prepare_and_scan(row: Checkpoint, settings: Settings, steps: Steps) -> None:
    """Do all steps of a row that are not done yet.

    Raises:
        NotRunError: the model or the data could not be had.
        FailedError: a step ended with an error.
    """
    _check_network(row, settings, steps)
    source = _source(row, settings, steps)
    model = _model(row, settings, steps)
    data = source
    if row.data.format != READY:
        data = steps.folder / "data"
        _command(steps, settings, "init", _init_words(row, settings, model, source, data))
    if row.build:
        model = steps.folder / "model"
        words = ["--data", str(data), "--backbone", str(_below(settings.data, row.backbone))]
        module = "benchmarks.checkpoints.receipt_tagger"
        _command(steps, settings, "build", [module, *words, "--out", str(model)])
    words = [str(model), str(data), *row.limits]
    _command(steps, settings, "plan", ["audit", "plan", *words])
    report = str(steps.folder / REPORT)
    scan = ["audit", SCAN, *words, "--out", report, "--quiet"]
    _command(steps, settings, SCAN, scan, VERDICTS)


def _check_network(row: Checkpoint, settings: Settings, steps: Steps) -> None:
    """Look whether all that lies on the Hub may be downloaded, or was by an earlier call.

    Raises:
        NotRunError: it may not.
    """
    if settings.allow_network:
        return
    for kind, address in (("model", row.model), ("source", row.data.source)):
        if address.startswith(HUB) and steps.place(kind) is None:
            raise NotRunError(NO_NETWORK)


def _source(row: Checkpoint, settings: Settings, steps: Steps) -> Path:
    """Return the folder or file of the data.

    Raises:
        NotRunError: it could not be had.
    """
    if row.data.source.startswith(HUB):
        return _fetched("source", row.data.source, settings, steps)
    root = settings.data
    if row.data.format == READY:
        root = ROOT
    if row.data.heldout:
        _below(settings.data, row.data.heldout)
    return _below(root, row.data.source)


def _below(root: Path, name: str) -> Path:
    """Return a path below a folder.

    Raises:
        NotRunError: there is none.
    """
    path = root / name
    if not path.exists():
        raise NotRunError(f"{name} is not in the folder that --data names")
    return path


def _model(row: Checkpoint, settings: Settings, steps: Steps) -> Path | None:
    """Return the folder of the model; None where it is still to be built.

    Raises:
        NotRunError: it could not be had.
    """
    if row.build:
        return None
    if not row.is_published:
        return _below(ROOT, row.model)
    folder = _fetched("model", row.model, settings, steps)
    if not any(folder.glob("*.safetensors")):
        raise NotRunError(NO_SAFETENSORS)
    return folder


def _fetched(kind: str, address: str, settings: Settings, steps: Steps) -> Path:
    """Return the folder of a model or data set of the Hub, downloaded once.

    A later call takes the same commit, although a branch may have moved meanwhile.

    Raises:
        NotRunError: the Hub could not be reached, or has no such repository.
    """
    place = steps.place(kind)
    if place is not None:
        return place
    try:
        with steps.timed("get"):
            folder = fetch(address, allow_network=settings.allow_network)
    except DocauditError as error:
        raise NotRunError(str(error)) from None
    steps.places[kind] = str(folder)
    steps.write()
    return folder


def _init_words(
    row: Checkpoint, settings: Settings, model: Path | None, source: Path, data: Path
) -> list[str]:
    """Return the command that imports the data.

    Without a model, `init` draws the documents that the model is then trained on.
    """
    words = ["audit", "init"]
    if model is not None:
        words.append(str(model))
    words += [str(source), "--out", str(data), "--format", row.data.format, "--task", row.task]
    if row.data.heldout:
        words += ["--heldout-from", str(settings.data / row.data.heldout)]
    if row.data.official:
        words.append("--official")
    if row.data.public:
        words += ["--public", str(row.data.public)]
    # A stopped import may have left its folder behind.
    return [*words, "--yes", "--overwrite"]


def _command(
    steps: Steps,
    settings: Settings,
    name: str,
    words: Sequence[str],
    codes: frozenset[int] = frozenset({0}),
) -> None:
    """Run a step, unless it is done.

    Raises:
        FailedError: it ended with another exit code than `codes`.
    """
    if name in steps.finished:
        return
    log = steps.folder / f"{name}.log"
    with steps.timed(name):
        code = settings.run(words, log)
    if code not in codes:
        raise FailedError(f"{name} ended with exit code {code}; {steps.folder.name}/{log.name}")
    steps.finish(name)
