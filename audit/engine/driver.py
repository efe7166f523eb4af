"""Run trials in this process: drive many attempts at once, so that targets are asked in large batches."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit import plugins
from audit.engine.interface import WIDTH, Attempt, Engine, EngineSettings, Outcomes, Request, Trial, Work, WorkSource
from audit.errors import UsageError

LEAST = 8
"""Attempts that go on together at least, however long they take: fewer would no longer fill a batch."""


def drive(
    work: Work,
    trials: Iterable[Trial],
    width: int,
    patience: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Outcomes:
    """Attempt all trials, `width` at a time.

    Each round takes what the live attempts yielded, groups it by answerer and type of query, asks once a group, sends
    the answers back, and starts the next attempt whenever one returns. An attempt cannot see the others.

    Args:
        work: what to attempt.
        trials: in the order in which they are started.
        width: how many attempts are in flight; bounds memory, never changes an outcome.
        patience: seconds without an outcome after which only the older half goes on, `LEAST` at least: attempts in lock
            step all end at once, and until then a journal has nothing to go on from.
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
        asked, live = live[:width], live[width:]
        answers = _answers([request for _, _, request in asked])
        still_live = []
        for (trial, attempt, _), answer in zip(asked, answers, strict=True):
            try:
                still_live.append((trial, attempt, attempt.send(answer)))
            except StopIteration as done:
                yield trial.id, done.value
                last = clock()
        live = [*still_live, *live]


def _answers(requests: Sequence[Request]) -> list[list[Any]]:
    """Answer these requests, in order, asking each answerer once for each type of query."""
    groups: dict[tuple[int, type], list[tuple[int, object]]] = defaultdict(list)
    answerers = {id(request.answerer): request.answerer for request in requests}
    for index, request in enumerate(requests):
        for query in request.queries:
            groups[id(request.answerer), type(query)].append((index, query))
    answers: list[list[Any]] = [[] for _ in requests]
    for (name, _), asked in groups.items():
        replies = answerers[name].ask([query for _, query in asked])
        for (index, _), reply in zip(asked, replies, strict=True):
            answers[index].append(reply)
    return answers


LOCAL = "local"
PATIENCE = 30.0
"""Seconds without an outcome after which fewer attempts are in flight: about what a kill may cost."""


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
        if settings.options:
            raise UsageError("--engine local takes no options", "leave them out")
        return LocalEngine(settings.width)
    engines: dict[str, Callable[[EngineSettings], Engine]] = plugins.load("docaudit.engines")
    if name not in engines:
        raise UsageError(f"--engine {engine}: no engine is called {name!r}", f"one of {', '.join((LOCAL, *engines))}")
    return engines[name](settings)
