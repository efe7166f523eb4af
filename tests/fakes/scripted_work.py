"""Work for the Ray engine's tests, in a module of its own: workers import it."""

import os
import signal
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.engine.interface import Attempt, Request, Trial
from audit.errors import EngineError


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
    numbers: Mapping[str, int]
    marker: str = ""

    def __call__(self, folders: Mapping[str, Path]) -> Scripted:
        return Scripted(self.numbers, self.marker, str(folders["data"]))


class Peculiar(Exception):
    """An exception that no library knows."""


def raise_from_a_trial(trial: Trial) -> None:
    raise Peculiar(trial.id)


@dataclass(frozen=True)
class Spy:
    """Says what it sees around it, instead of attempting anything."""

    folders: Mapping[str, Path]

    def attempt(self, trial: Trial) -> Attempt:
        yield from ()
        own = self.folders["data"].parent
        return {
            "pid": os.getpid(),
            "files": {str(p.relative_to(own)): p.read_text() for p in own.rglob("*") if p.is_file()},
            "modes": [stat.S_IMODE(place.stat().st_mode) for place in (own, own.parent)],
            "place": str(own),
            "statistics": os.environ["RAY_USAGE_STATS_ENABLED"],
        }


@dataclass(frozen=True)
class Dies:
    def attempt(self, trial: Trial) -> Attempt:
        yield from ()
        os.kill(os.getpid(), signal.SIGKILL)
        return None


def dies(_: Mapping[str, Path]) -> Dies:
    return Dies()


def cannot_open(_: Mapping[str, Path]) -> Scripted:
    raise EngineError("not like this", "but like that")
