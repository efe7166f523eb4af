"""Work for the Ray engine's tests, in a module of its own: workers import it."""

import os
import signal
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.engine.interface import Attempt, Request, Trial
from audit.errors import EngineError
from audit.files import Fetch


class Doubler:
    def ask(self, queries: Sequence[Any]) -> list[int]:
        return [2 * query for query in queries]


@dataclass(frozen=True)
class Scripted:
    """A trial asks as many questions as its number says, and tells what it was told, where it ran, and what it read."""

    numbers: Mapping[str, int]
    secret: str
    folder: str = ""

    def attempt(self, trial: Trial) -> Attempt:
        number = self.numbers[trial.id]
        told = []
        for step in range(number % 5):
            told += yield Request(Doubler(), (number + step,))
        if number < 0:
            raise_from_a_trial(trial)
        if self.folder and number == 1000:  # the trial that kills its worker, once
            marker = Path(self.secret)
            if not marker.exists():
                marker.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
        return {"told": told, "third": number / 3}


@dataclass(frozen=True)
class Opener:
    """Opens scripted work, and counts how often what works share was opened, in a folder."""

    numbers: Mapping[str, int]
    marker: str = ""
    counts: str = ""

    def __call__(self, fetch: Fetch) -> Scripted:
        if self.counts:
            tempfile.mkdtemp(dir=self.counts)
        return Scripted(self.numbers, self.marker, "elsewhere")


def same(kept: Any) -> Any:
    return kept


class Peculiar(Exception):
    """An exception that no library knows."""


def raise_from_a_trial(trial: Trial) -> None:
    raise Peculiar(trial.id)


@dataclass(frozen=True)
class Spy:
    """Says what it sees around it, instead of attempting anything."""

    own: Path = Path()

    def attempt(self, trial: Trial) -> Attempt:
        yield from ()
        own = self.own
        return {
            "pid": os.getpid(),
            "files": {
                str(p.relative_to(own)): p.read_text() for p in own.rglob("*") if p.is_file()
            },
            "mode": stat.S_IMODE(own.parent.stat().st_mode),
            "place": str(own),
            "statistics": os.environ["RAY_USAGE_STATS_ENABLED"],
        }


@dataclass(frozen=True)
class Spying:
    """Has these files of a folder at hand, and opens a `Spy` there once so many workers are as far."""

    root: Path
    names: tuple[str, ...]
    meet: int = 0

    def __call__(self, fetch: Fetch) -> Spy:
        place = fetch(self.root, self.names)
        if self.meet:
            tempfile.mkdtemp(dir=self.root, prefix=os.environ.get("CUDA_VISIBLE_DEVICES", "") + "-")
            while len([path for path in self.root.iterdir() if path.is_dir()]) < self.meet:
                time.sleep(0.05)
        return Spy(place)


@dataclass(frozen=True)
class Dies:
    def attempt(self, trial: Trial) -> Attempt:
        yield from ()
        os.kill(os.getpid(), signal.SIGKILL)
        return None


def dies(_: Fetch) -> Dies:
    return Dies()


def cannot_open(_: Fetch) -> Scripted:
    raise EngineError("not like this", "but like that")
