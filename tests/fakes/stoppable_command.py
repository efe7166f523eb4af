"""`docaudit` in a process of its own that a test can kill, interrupt, or leave without room on the disk.

Its processes are forked from one that has imported torch and transformers already: a new one would
take seconds each.
"""

import atexit
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import cli

ENOUGH = {"quick": 16, "standard": 16, "full": 16}
"""Candidates: few, with enough to do for a scan to be stopped on the way."""
_OWN = "cli.commands workflows.scan extensions.countermeasures.measuring targets.encoders.target"
_OWN += " targets.answering.target references.encoders report.html"
IMPORTED = (*(f"audit.{name}" for name in _OWN.split()), "opacus", "transformers.models.layoutlm")
OUTRIGHT = signal.SIGPROF
"""Ends a process that does not expect it as SIGKILL does, at once and in the midst of anything; a
timer sends it."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_TOUCHING = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "shutil.rmtree",
    "shutil.copyfile",
)


@dataclass(frozen=True)
class Moment:
    """When a command is stopped, whatever else the machine does, and how.

    Attributes:
        signal: that stops it; SIGKILL is `OUTRIGHT` where the moment is one of processor time.
        step: right before the file of this number, from 1, is opened for writing, renamed, removed
            and so on.
        seconds: of processor time.
    """

    signal: signal.Signals
    step: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Effort:
    """What a command took that came to an end of its own.

    Attributes:
        steps: see `Moment.step`.
        seconds: of processor time.
        reached: whether its moment came, so that a signal was sent to it.
    """

    steps: int
    seconds: float
    reached: bool


class StoppableCommand:
    """`docaudit` with these arguments, just begun.

    Args:
        arguments: what follows the command's name.
        room: the largest file that it can write, bytes; None: no limit.
        moment: at which it is stopped; None: it is not.
        within: the folder where it runs, below which its files lie; None: this one's.
        scratch: its folder for temporary files; None: the usual one.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        room: int | None = None,
        moment: Moment | None = None,
        within: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        self._told = [Path(_file(name)) for name in ("output", "effort")]
        # Of another name transformers takes a process for a worker of a data loader.
        given = (arguments, *self._told, room, moment, within, scratch)
        self.process = context.Process(target=_run, name="MainProcess", args=given)
        self.process.start()

    def ended(self) -> bool:
        return self.process.exitcode is not None

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self, seconds: float) -> tuple[int | None, str]:
        """Exit code, negative where a signal ended it, and all that was printed."""
        code, output, _ = self.wait_for_effort(seconds)
        return code, output

    def wait_for_effort(self, seconds: float) -> tuple[int | None, str, Effort | None]:
        """Wait, and give its effort too; None where it was killed."""
        self.process.join(seconds)
        in_time = self.ended()
        if not in_time:
            self.process.kill()
        output, effort = (path.read_text(encoding="utf-8", errors="replace") for path in self._told)
        for path in self._told:
            path.unlink()
        assert in_time, f"it did not end in time: {output}"
        return self.process.exitcode, output, Effort(**json.loads(effort)) if effort else None


def _file(name: str) -> str:
    handle, path = tempfile.mkstemp(prefix=f"stoppable-{name}-")
    os.close(handle)
    return path


class _Steps:
    """Counts what is done to files below a folder, and sends a signal right before one such step."""

    def __init__(self, within: Path, moment: Moment | None) -> None:
        self.done = 0
        self.reached = False
        self._within = f"{within}{os.sep}"
        self._moment = moment
        self._process = os.getpid()
        sys.addaudithook(self._hear)
        if moment is not None and moment.seconds is not None:
            if moment.signal != signal.SIGKILL:
                signal.signal(OUTRIGHT, lambda *_: self._stop())
            signal.setitimer(signal.ITIMER_PROF, moment.seconds)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _TOUCHING and not (event == "open" and (arguments[2] or 0) & _WRITES):
            return
        if not isinstance(arguments[0], str | Path) or not os.path.abspath(arguments[0]).startswith(
            self._within
        ):
            return
        self.done += 1
        if (
            self._moment is not None
            and self.done == self._moment.step
            and os.getpid() == self._process
        ):
            self._stop()

    def _stop(self) -> None:
        assert self._moment is not None
        self.reached = True
        os.kill(os.getpid(), self._moment.signal)


def _run(
    arguments: Sequence[str],
    output: Path,
    effort: Path,
    room: int | None,
    moment: Moment | None,
    within: Path | None,
    scratch: Path | None,
) -> None:
    descriptor = os.open(output, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(descriptor, number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    # As a new process of Python has them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if within is not None:
        os.chdir(within)
    if scratch is not None:
        os.environ["TMPDIR"] = str(scratch)
        tempfile.tempdir = None
    _make_small()
    sys.argv = ["docaudit", *map(str, arguments)]
    before = time_used()
    steps = _Steps(within or Path.cwd(), moment)
    try:
        _call_main()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if room is None:
            told = {"steps": steps.done, "seconds": time_used() - before, "reached": steps.reached}
            effort.write_text(json.dumps(told), encoding="utf-8")


def _call_main() -> None:
    # A process of multiprocessing leaves without what is to be done at the end of one.
    try:
        cli.main()
    finally:
        atexit._run_exitfuncs()


def time_used() -> float:
    """Seconds of processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Perfect:
    """Reads what the words of a page say, as Tesseract does on larger ones."""

    def ask(self, queries: Sequence[Any]) -> list[str]:
        return [" ".join(word.text for word in query.view.words) for query in queries]


def _make_small() -> None:
    """Less of all that takes long and is no matter of being stopped."""
    from audit.attacks import TEXTS, questions
    from audit.report import files, svg
    from audit.workflows import start as demo

    TEXTS["reconstruction"].budgets.update(
        {budget: {"n_candidates": n} for budget, n in ENOUGH.items()}
    )
    files.pdf = lambda *_: b"%PDF-1.7\n%%EOF\n"
    svg.as_svg = lambda figure, name, *_: f'<svg id="{name}"></svg>'
    questions.TESSERACT = Perfect()
    whole = demo.open_demo
    demo.open_demo = lambda out: whole(out, 8, ("membership",))
