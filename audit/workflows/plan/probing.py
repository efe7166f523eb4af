"""Seconds of a model's passes: a few of the questions that a scan asks, asked and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from audit.engine.interface import Answerer
from audit.targets.interface import (
    Adaptation,
    FirstOrderLoss,
    PageAdaptation,
    PageQuery,
    Query,
    RelaxedLoss,
)
from audit.workflows.plan.clock import seconds_of
from audit.workflows.plan.rehearsal import Asked, cut, rows_of, work_of

PASS_SECONDS = 6.0
"""For a single pass (ours): of a model that takes longer a least time is said."""
EACH_SECONDS = 0.7
"""For the questions of one type to one model (ours)."""
ALL_SECONDS = 12.0
"""For all of them together (ours)."""
SLOW = 0.2
"""Seconds of a pass of one row from which on a batch takes as long as its rows (ours): the same rate then serves every
question that takes the same kind of pass."""
WARM_UP = 1.5
"""Seconds under which a slow first pass may have been slow for what is loaded once: it is asked again (ours)."""
GROWTH = 6
"""How many times as much is asked at once as the time before (ours)."""
BACKWARD = 3.0
"""A forward and a backward pass, in forward passes (ours), where no time was left to measure it."""
STEPS_TAKEN = 0.5
"""Share of the steps of an adaptation that are taken before it stops (ours), where it takes too long to be seen."""


@dataclass(frozen=True)
class Rate:
    """Seconds for each unit of work, see `work_of`; `least`: a pass was stopped before it ended, so that it is less."""

    seconds: float
    least: bool = False


@dataclass
class Probe:
    """Times questions, each kind once, and keeps what it found.

    Attributes:
        width: attempts that a scan has in flight: so many of their requests are asked at once.
        spent: seconds so far.
    """

    width: int
    spent: float = 0.0
    _known: dict[tuple[object, ...], Rate] = field(default_factory=dict)

    def rate(self, name: str, asked: Asked) -> Rate:
        """Measure, or recall, the seconds that a unit of work takes.

        Args:
            name: of the attack: of a fast model the rate depends on how many questions are asked at once.
            asked: its questions.
        """
        kind = _pass_of(asked.kept[0][0])
        slow, own = (_identity(asked.answerer), kind), (name, _identity(asked.answerer), type(asked.kept[0][0]))
        if slow in self._known:
            return self._known[slow]
        if own not in self._known:
            began = time.perf_counter()
            self._known[own], passes = self._measure(asked)
            self.spent += time.perf_counter() - began
            if passes >= SLOW and hasattr(asked.answerer, "card"):
                self._known[slow] = self._known[own]
        return self._known[own]

    def _measure(self, asked: Asked) -> tuple[Rate, float]:
        """The rate, and the seconds of the first pass."""
        left, first = ALL_SECONDS - self.spent, asked.kept[0][0]
        if left <= 0:
            return self._guess(asked), 0.0
        limit = min(left, PASS_SECONDS)
        if isinstance(first, Adaptation | PageAdaptation):
            slow = (_identity(asked.answerer), "forward") in self._known
            return _adaptation(asked.answerer, first, limit, slow)
        one = [cut(first, 1)]
        seconds = seconds_of(partial(asked.answerer.ask, one), limit)
        if seconds is None:
            return Rate(limit / _work(one), least=True), limit
        if SLOW <= seconds < WARM_UP:
            seconds = seconds_of(partial(asked.answerer.ask, one), limit) or seconds
        if seconds >= SLOW and hasattr(asked.answerer, "card"):
            return Rate(seconds / _work(one)), seconds
        return Rate(self._many(asked, one)), seconds

    def _many(self, asked: Asked, one: Sequence[object]) -> float:
        """Seconds a unit of work of as many requests at once as a scan asks: a fixed time, and one for each unit."""
        ask = partial(seconds_of, limit=PASS_SECONDS)
        whole = self.width * asked.work / asked.requests
        points: list[tuple[float, float]] = []
        batch, n_rows = list(one), 1
        while sum(taken for _, taken in points) < EACH_SECONDS:
            taken = ask(partial(asked.answerer.ask, batch))
            if taken is None:
                break
            points.append((_work(batch), taken))
            larger = _rows(asked.kept, n_rows * GROWTH)
            if _work(larger) <= _work(batch):
                break
            batch, n_rows = larger, n_rows * GROWTH
        if not points:
            return PASS_SECONDS / _work(batch)
        (little, quick), (much, slow) = points[0], points[-1]
        if whole <= much or len(points) < 2:
            return slow / much
        each = max(0.0, slow - quick) / (much - little)
        return (slow + each * (whole - much)) / whole

    def _guess(self, asked: Asked) -> Rate:
        """The rate of a question for which no time is left, from others: by the model's size, and the kind of pass."""
        size = _parameters(asked.answerer)
        backward = BACKWARD if _pass_of(asked.kept[0][0]) == "backward" else 1.0
        known = [
            replace(rate, seconds=rate.seconds * size / key[0][1] * backward)
            for key, rate in self._known.items()
            if isinstance(key[0], tuple) and key[1] == "forward" and isinstance(asked.kept[0][0], PageQuery)
        ]
        return known[0] if known else Rate(0.0, least=True)


def _rows(requests: Sequence[Sequence[object]], n_rows: int) -> list[object]:
    """So many rows of these requests, one request after the other."""
    taken: list[object] = []
    for query in (query for request in requests for query in request):
        if n_rows <= 0:
            break
        taken.append(cut(query, n_rows))
        n_rows -= rows_of(taken[-1])
    return taken


def _work(queries: Sequence[object]) -> float:
    return sum(map(work_of, queries))


def _pass_of(query: object) -> str:
    """The kind of pass that a question takes."""
    if isinstance(query, FirstOrderLoss | RelaxedLoss):
        return "backward"
    plain = isinstance(query, PageQuery) and not isinstance(query, PageAdaptation)
    return "forward" if plain else type(query).__name__


def _parameters(answerer: Any) -> int:
    return max(1, answerer.card.parameters) if hasattr(answerer, "card") else 1


def _identity(answerer: Any) -> tuple[str, int, str]:
    """All that the time of a model depends on: models of one kind and size take as long as each other."""
    if not hasattr(answerer, "card"):
        return (type(answerer).__name__, 1, "")
    return (answerer.card.architecture, answerer.card.parameters, answerer.card.dtype)


def _adaptation(answerer: Answerer, query: Adaptation | PageAdaptation, limit: float, slow: bool) -> tuple[Rate, float]:
    """The rate of an adaptation: as it is, where a pass is not slow and there is time, else from two of few steps."""
    whole = None if slow else seconds_of(partial(answerer.ask, [query]), limit / 3)
    if whole is not None:
        return Rate(whole / work_of(query)), whole
    few = _steps(answerer, query, 1, limit)
    if few is None:
        return Rate(limit / work_of(query), least=True), limit
    more = _steps(answerer, query, 5, limit)
    slope = max(0.0, ((limit if more is None else more) - few) / 4)
    return Rate((few + slope * STEPS_TAKEN * query.rule.max_steps) / work_of(query)), few


def _steps(answerer: Answerer, query: Query[Any], n: int, limit: float) -> float | None:
    """Seconds of an adaptation of so many steps."""
    assert isinstance(query, Adaptation | PageAdaptation)
    short = replace(query, rule=replace(query.rule, max_steps=n, threshold=0.0))
    ask: Callable[[], object] = partial(answerer.ask, [short])
    return seconds_of(ask, limit)
