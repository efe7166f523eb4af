"""Run trials in this process.

Many attempts are driven at once, so that targets are asked in large batches.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

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
    """Yield (trial id, outcome) of all trials, attempted `width` at a time.

    Each round takes what the live attempts yielded, groups it by answerer and type of query, asks
    the group of most queries, sends the answers back, and starts the next attempt whenever one
    returns. The others wait, so that more join them and batches are fuller. An attempt cannot see
    the others.

    Args:
        work: what to attempt.
        trials: trials in the order in which they are started.
        width: number of attempts in flight; bounds memory, never changes an outcome.
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
    live: list[_LiveAttempt] = []
    last = clock()
    while True:
        yield from _start_attempts(work, waiting, live, width)
        if not live:
            return
        if clock() - last > patience:
            width = max(width // 2, min(width, LEAST))
            last = clock()
        group, resting = _split_largest_group(live, width)
        still_live = []
        for asking, replies in zip(group, _ask_together(group), strict=True):
            try:
                request = asking.attempt.send(replies)
            except StopIteration as end:
                yield asking.trial.id, end.value
                last = clock()
            else:
                still_live.append(asking._replace(request=request))
        live = [*still_live, *resting]


class _LiveAttempt(NamedTuple):
    """An attempt that waits for the answers to its latest request."""

    trial: Trial
    attempt: Attempt
    request: Request


def _start_attempts(
    work: Work, waiting: Iterator[Trial], live: list[_LiveAttempt], width: int
) -> Outcomes:
    """Start waiting trials until `width` attempts are live; yield those that end at once.

    Args:
        work: what to attempt.
        waiting: trials that are not started yet.
        live: attempts that are live; those that are started are added.
        width: number of attempts in flight.

    Yields:
        (trial id, outcome) of each attempt that asks nothing.
    """
    while len(live) < width and (trial := next(waiting, None)) is not None:
        attempt = work.attempt(trial)
        try:
            request = next(attempt)
        except StopIteration as end:
            yield trial.id, end.value
        else:
            live.append(_LiveAttempt(trial, attempt, request))


def _split_largest_group(
    live: Sequence[_LiveAttempt], width: int
) -> tuple[list[_LiveAttempt], list[_LiveAttempt]]:
    """Return the largest group of attempts that can be asked together, and all others.

    They ask one answerer queries of one type; of groups that ask as much it is the first.

    Args:
        live: attempts that are live.
        width: number of them, the first ones, that may be asked for.
    """
    groups: dict[tuple[int, type], list[int]] = defaultdict(list)
    n_queries: Counter[tuple[int, type]] = Counter()
    for index, asking in enumerate(live[:width]):
        request = asking.request
        kind = (id(request.answerer), type(next(iter(request.queries), None)))
        groups[kind].append(index)
        n_queries[kind] += len(request.queries)
    largest = {*groups[max(groups, key=n_queries.__getitem__)]}
    group: list[_LiveAttempt] = []
    resting: list[_LiveAttempt] = []
    for index, asking in enumerate(live):
        if index in largest:
            group.append(asking)
        else:
            resting.append(asking)
    return group, resting


def _ask_together(group: Sequence[_LiveAttempt]) -> list[list[Any]]:
    """Return the answers to each attempt's request, asked in one call."""
    requests = [asking.request for asking in group]
    queries = list(chain.from_iterable(request.queries for request in requests))
    replies = requests[0].answerer.ask(queries) if queries else ()
    answers = iter([reply for _, reply in zip(queries, replies, strict=True)])
    return [list(islice(answers, len(request.queries))) for request in requests]


AUTO = "auto"
"""Leaves the choice to whoever makes an engine; `make_engine` makes that of one process."""
LOCAL = "local"
PATIENCE = 30.0
"""Seconds without an outcome after which fewer attempts are in flight: about what a kill may
cost."""


@dataclass(frozen=True)
class LocalEngine:
    """The engine for one process and one device; implements `audit.engine.interface.Engine`."""

    width: int = WIDTH

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Yield (trial id, outcome) of trials run in this process, `width` at a time."""
        yield from drive(source.here, trials, self.width, PATIENCE)

    def close(self) -> None:
        """Do nothing: this engine starts no process."""


HERE = LocalEngine()


def make_engine(engine: str, settings: EngineSettings) -> Engine:
    """Return the engine of the option `--engine NAME[:KEY=VALUE,...]`.

    Args:
        engine: "auto", "local", or the name of an engine that an extension adds; then its options.
        settings: everything else that an engine needs.

    Raises:
        UsageError: no engine has this name, or it does not take these options.
    """
    name, _, text = engine.partition(":")
    pairs = [option.partition("=") for option in text.split(",") if option]
    settings = replace(settings, options={key: value for key, _, value in pairs})
    if name == AUTO and settings.options:
        raise UsageError("--engine auto takes no options", "write --engine auto")
    if name in (AUTO, LOCAL):
        if settings.options.keys() - {"answers"}:
            raise UsageError("--engine local takes answers=ADDRESS alone", "leave the rest out")
        return LocalEngine(settings.width)
    engines: dict[str, Callable[[EngineSettings], Engine]] = plugins.load("docaudit.engines")
    if name not in engines:
        raise UsageError(
            f"--engine {engine}: no engine is called {name!r}",
            f"one of {', '.join((AUTO, LOCAL, *engines))}",
        )
    return engines[name](settings)
