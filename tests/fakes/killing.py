"""Kills a workflow at drawn moments, lets it go on, and says all in which it differs from one that nobody disturbed."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from killed_workflows import Workflow
from stoppable_command import OUTRIGHT, Effort, Moment, StoppableCommand
from temporaries import left_in

from audit.files import EVIDENCE

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {
    signal.SIGKILL: (-signal.SIGKILL, -OUTRIGHT),
    signal.SIGTERM: (143,),
    signal.SIGINT: (130,),
}
SECONDS = 600.0
"""More than any command takes here on a machine that does much else."""
# A training that is killed in its last step keeps no state after it: that step stays spent, and is
# lost.
_OWN = re.compile(r"(^|/)(\.lock$|record\.previous\.json$)|\.ledger/state\.safetensors$")
"""Files that may or may not be there after a command."""
_TEMPORARY = re.compile(r"(^|/)(\.[^/]*\.tmp|unfinished-)")
_TIMES = {"timing", "started", "seconds"}
_MEASURED = re.compile("The trials take about .*? models included")
_DRAWN = re.compile(r"[0-9a-f]{16}")


class Killing:
    """A workflow, run once to its end in `place`, ready to be killed.

    Args:
        workflow: the command.
        world: the folder that it reads.
        place: an empty folder.
    """

    def __init__(self, workflow: Workflow, world: Path, place: Path) -> None:
        self.workflow = workflow
        self._world = world
        self._place = place
        self._prepared = place / "prepared"
        self._prepared.mkdir(parents=True)
        if workflow.copied is not None:
            shutil.copytree(world / workflow.copied, self._prepared / "data")
        for command in workflow.first:
            code, output, _ = self._run(self._prepared, command, None)
            assert code in (0, 10, 11), output
        whole = self._begin("whole")
        code, output, effort = self._run(whole, workflow.command, None)
        assert code in (0, 10, 11), output
        assert effort is not None
        self.code = code
        self.effort = effort
        self.files = contents(whole, workflow.drawn)

    def kill(self, number: int, seed: int) -> list[str]:
        """Kill it at a moment that `seed` draws, run the same command again, and say what went otherwise."""
        here = self._begin(f"killed-{number}")
        moment = draw_moment(self.effort, number, np.random.default_rng([seed, number]))
        code, output, effort = self._run(here, self.workflow.command, moment)
        failures = [*self._ill_ended(code, output, effort, here, moment), *broken(here)]
        spent = steps_spent(here)
        code, output, _ = self._run(here, self.workflow.command, None)
        failures += self._changed(code, output, here, spent)
        if not failures:
            shutil.rmtree(here.parent)
        return [f"{moment}: {failure}" for failure in failures]

    def _begin(self, name: str) -> Path:
        here = self._place / name / "here"
        shutil.copytree(self._prepared, here)
        return here

    def _run(
        self, here: Path, command: str, moment: Moment | None
    ) -> tuple[int | None, str, Effort | None]:
        scratch = here.parent / "scratch"
        scratch.mkdir(exist_ok=True)
        arguments = command.format(w=self._world).split()
        return StoppableCommand(
            arguments, moment=moment, within=here, scratch=scratch
        ).wait_for_effort(SECONDS)

    def _ill_ended(
        self, code: int | None, output: str, effort: Effort | None, here: Path, moment: Moment
    ) -> Iterator[str]:
        """What is wrong with how a command ended that was told to."""
        if "Traceback" in output or "Exception ignored" in output:
            yield f"told of its insides: {output[-1500:]}"
        if effort is not None and not effort.reached:
            if code != self.code:
                yield f"was not reached and ended with {code}"
        elif code in CODES[moment.signal]:
            if moment.signal != signal.SIGKILL and "run the same command again" not in output:
                yield f"did not say how to go on: {output[-300:]}"
        elif code != self.code or contents(here, self.workflow.drawn) != self.files:
            yield f"ended with {code}: {output[-1500:]}"
        if moment.signal != signal.SIGKILL:
            yield from (
                f"left {path.name} among the temporary files"
                for path in left_in(here.parent / "scratch", seconds=0)
            )
            left = sorted(
                str(path.relative_to(here)) for path in here.rglob("*") if _is_temporary(path, here)
            )
            yield from (f"left {name}" for name in left)

    def _changed(self, code: int | None, output: str, here: Path, spent: int) -> Iterator[str]:
        """What differs from the run that nobody disturbed."""
        found = contents(here, self.workflow.drawn)
        # A command that writes into a new folder alone refuses the one that it finished.
        if code != self.code and not (code == 2 and found == self.files):
            yield f"ended with {code} when it was run again: {output[-1500:]}"
        for name in sorted(self.files.keys() | found.keys()):
            if name not in found or name not in self.files:
                yield f"{name} is {'missing' if name in self.files else 'left over'}"
            elif found[name] != self.files[name]:
                yield f"{name} differs"
        yield from (
            f"left {path.name} among the temporary files"
            for path in left_in(here.parent / "scratch")
        )
        if steps_spent(here) < spent:
            yield f"gave back {spent - steps_spent(here)} steps of its budget"


def draw_moment(effort: Effort, number: int, rng: np.random.Generator) -> Moment:
    """A moment among files and one of processor time by turns, each with every signal by turns."""
    sent = SIGNALS[number % len(SIGNALS)]
    if number % 2 == 0:
        return Moment(sent, step=int(rng.integers(1, effort.steps + 1)))
    return Moment(sent, seconds=float(max(effort.seconds * rng.uniform(0.02, 0.95), 0.001)))


def contents(here: Path, drawn: bool) -> dict[str, bytes]:
    """All files below a folder by their names, without what tells of times.

    Of a page its name alone.

    Args:
        here: the folder.
        drawn: leave out what noise decides, which is drawn anew at each run.
    """
    found = {}
    for path in sorted(path for path in here.rglob("*") if path.is_file()):
        name = path.relative_to(here).as_posix()
        if not _OWN.search(name):
            decided = not drawn or "after" not in name.split("/")
            own = _content(path, drawn) if decided else b""
            found[_DRAWN.sub("*", name) if drawn else name] = own
    return found


def _content(path: Path, drawn: bool) -> bytes:
    if path.suffix in (".html", ".pdf", ".begun") or (drawn and path.suffix == ".safetensors"):
        return b""
    if path.suffix == ".jsonl" and path.name.startswith("journal-"):
        return b"\n".join(sorted(path.read_bytes().splitlines()))
    if path.suffix == ".json":
        kept = _without_times(json.loads(path.read_bytes()))
        if drawn and path.name == "comparison.json":
            kept = sorted(kept)
        if drawn:
            kept.pop("weights", None) if isinstance(kept, dict) else None
        return json.dumps(kept, sort_keys=True).encode()
    return path.read_bytes()


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        times = {*_TIMES, "low", "high", "memory"} if "seconds" in value else _TIMES
        return {key: _without_times(own) for key, own in value.items() if key not in times}
    if isinstance(value, str):
        return _MEASURED.sub("", value)
    return [_without_times(own) for own in value] if isinstance(value, list) else value


def broken(here: Path) -> Iterator[str]:
    """Files that a kill left and that are not whole; journals may end in a torn line."""
    from safetensors import safe_open

    for path in sorted(
        path for path in here.rglob("*") if path.is_file() and not _is_temporary(path, here)
    ):
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif (
                path.suffix == ".jsonl"
                and EVIDENCE not in path.parts
                and not path.name.startswith(".")
            ):
                assert path.read_bytes().endswith(b"\n")
                [json.loads(line) for line in path.read_bytes().splitlines()]
            elif path.suffix == ".html":
                assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
            elif path.suffix == ".pdf":
                assert path.read_bytes().rstrip().endswith(b"%%EOF")
            elif path.suffix == ".safetensors":
                with safe_open(path, "numpy"):
                    pass
        except Exception as error:  # noqa: BLE001 (whatever it is: the file is not whole)
            yield f"{path.relative_to(here)} is half written ({type(error).__name__})"


def steps_spent(here: Path) -> int:
    """Of the budgets of all private trainings."""
    return sum(path.stat().st_size for path in here.rglob("*.ledger/spent")) // len("step\n")


def _is_temporary(path: Path, here: Path) -> bool:
    return _TEMPORARY.search(path.relative_to(here).as_posix()) is not None
