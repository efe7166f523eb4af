"""Run trials in this process: drive many attempts at once, so that targets are asked in large batches."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from audit import plugins
from audit.engine.interface import (
    WIDTH,
    Attempt,
    Engine,
    EngineSettings,
    Outcomes,
    Request,
    Trial,
    Work,
    WorkSource,
)
from audit.errors import UsageError

LEAST = 8
"""Attempts that go on together at least, however long they take: fewer would no longer fill a
batch."""


def drive(
    work: Work,
    trials: Iterable[Trial],
    width: int,
    patience: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Outcomes:
    """Attempt all trials, `width` at a time.

    Each round takes what the live attempts yielded, groups it by answerer and type of query, asks
    the group of most queries, sends the answers back, and starts the next attempt whenever one
    returns. The others wait, so that more join them and batches are fuller. An attempt cannot see
    the others.

    Args:
        work: what to attempt.
        trials: in the order in which they are started.
        width: how many attempts are in flight; bounds memory, never changes an outcome.
        patience: seconds without an outcome after which only the older half goes on, `LEAST` at
            least: attempts in lock step all end at once, and until then a journal has nothing to go
            on from.
        clock: tells the time in seconds.

    Yields:
        (trial id, outcome) as soon as an attempt returns.

    Raises:
        ValueError: `width` is under 1, so that nothing would ever be attempted.
    """
    if width < 1:
        raise ValueError("at least one attempt must be in flight")
    waiting = iter(trials)
    live: list[tuple[Trial, Attempt, Request]] = []
    last = clock()
    while True:
        while len(live) < width and (trial := next(waiting, None)) is not None:
            attempt = work.attempt(trial)
            try:
                live.append((trial, attempt, next(attempt)))
            except StopIteration as done:
                yield trial.id, done.value
        if not live:
            return
        if clock() - last > patience:
            width, last = max(width // 2, min(width, LEAST)), clock()
        groups: dict[tuple[int, type], list[int]] = defaultdict(list)
        for index, (_, _, request) in enumerate(live[:width]):
            groups[id(request.answerer), type(next(iter(request.queries), None))].append(index)
        largest = {
            *max(
                groups.values(),
                key=lambda group: sum(len(live[index][2].queries) for index in group),
            )
        }
        asked = [live[index] for index in sorted(largest)]
        live = [one for index, one in enumerate(live) if index not in largest]
        queries = [query for _, _, request in asked for query in request.queries]
        replies = asked[0][2].answerer.ask(queries) if queries else ()
        given = iter([reply for _, reply in zip(queries, replies, strict=True)])
        still_live = []
        for trial, attempt, request in asked:
            try:
                still_live.append(
                    (trial, attempt, attempt.send([*islice(given, len(request.queries))]))
                )
            except StopIteration as done:
                yield trial.id, done.value
                last = clock()
        live = [*still_live, *live]


LOCAL = "local"
PATIENCE = 30.0
"""Seconds without an outcome after which fewer attempts are in flight: about what a kill may
cost."""


@dataclass(frozen=True)
class LocalEngine:
    """The engine for one process and one device; implements `audit.engine.interface.Engine`."""

    width: int = WIDTH

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """See `Engine.run`."""
        yield from drive(source.here, trials, self.width, PATIENCE)

    def close(self) -> None:
        """See `Engine.close`: nothing was started."""


HERE = LocalEngine()


def make_engine(engine: str, settings: EngineSettings) -> Engine:
    """Make the engine of `--engine NAME[:KEY=VALUE,...]`.

    Args:
        engine: "local", or the name of an engine that an extension adds; then its options.
        settings: everything else that an engine needs.

    Raises:
        UsageError: no engine has this name, or it does not take these options.
    """
    name, _, text = engine.partition(":")
    pairs = [option.partition("=") for option in text.split(",") if option]
    settings = replace(settings, options={key: value for key, _, value in pairs})
    if name == LOCAL:
        if settings.options.keys() - {"answers"}:
            raise UsageError("--engine local takes answers=ADDRESS alone", "leave the rest out")
        return LocalEngine(settings.width)
    engines: dict[str, Callable[[EngineSettings], Engine]] = plugins.load("docaudit.engines")
    if name not in engines:
        raise UsageError(
            f"--engine {engine}: no engine is called {name!r}",
            f"one of {', '.join((LOCAL, *engines))}",
        )
    return engines[name](settings)
