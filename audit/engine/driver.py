"""Drives many attempts at once, so that targets are asked in large batches."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from audit.engine.interface import Attempt, Json, Request, Trial, Work

LEAST = 8
"""Attempts that go on together at least, however long they take (ours): fewer would no longer fill a batch."""


def drive(
    work: Work,
    trials: Iterable[Trial],
    width: int,
    patience: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[str, Json]]:
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
    """The answers to these requests, in order, asking each answerer once for each type of query."""
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
