"""Engine interface: trials, the work that attempts them, and what an attempt asks on its way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from audit.files import Fetch
from audit.progress import SILENT as SILENT
from audit.progress import Progress as Progress

WIDTH = 64
"""Attempts in flight: enough to fill a batch of the largest bucket, few enough to keep memory
flat."""
Json = Any
"""What `json.dumps` takes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing to try.

    Attributes:
        id: name of the trial, unique within the attack.
        cluster: what the statistics cluster by (a document, a provider).
        stratum: trials are sampled within strata (a split).
        subject: names of what the trial is about, as its attack reads them: a document and a field,
            for example. Empty where `cluster` says it.
    """

    id: str
    cluster: str
    stratum: str = ""
    subject: tuple[str, ...] = ()


class Answerer(Protocol):
    """Answers many queries of one type, in order."""

    def ask(self, queries: Sequence[Any]) -> Sequence[Any]:
        """Return one answer for each query."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """Queries of one type and who is to answer them; what an attempt yields.

    It is sent the answers, in order.
    """

    answerer: Answerer
    queries: tuple[object, ...]


Attempt = Generator[Request, Any, Json]
"""One trial, written as if it ran alone: yields requests, is sent lists of answers, returns its
outcome."""


class Work(Protocol):
    """What is done with each trial. An outcome depends on its trial alone."""

    def attempt(self, trial: Trial) -> Attempt:
        """Return the trial as a generator that yields requests and returns its outcome."""
        ...


Outcomes = Generator[tuple[str, Json], None, None]
"""(trial id, outcome) of each trial."""


@dataclass(frozen=True)
class WorkSource:
    """Where an engine gets its work from.

    Attributes:
        here: the work in this process, already open.
        keeps: opens, once a worker, what works share whose `keeps` are pickled to the same bytes.
        elsewhere: opens the work in another process, from what `keeps` returned there; can be
            pickled.
    """

    here: Work
    keeps: Callable[[Fetch], Any]
    elsewhere: Callable[[Any], Work]


@dataclass(frozen=True)
class EngineSettings:
    """The settings that an engine is made with.

    Attributes:
        options: what the user wrote behind the engine's name, by key.
        width: attempts in flight.
        threads: CPU threads that the work uses.
        gpu: whether the work needs a GPU.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    width: int = WIDTH
    threads: int = 1
    gpu: bool = False


class Engine(Protocol):
    """Runs trials somewhere, of one work after the other."""

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Yield (trial id, outcome) as trials are done, in any order.

        Closing it ends whatever still runs.
        """
        ...

    def close(self) -> None:
        """End the processes that runs have started; another run starts them again."""
