"""Start trials in this process, and share the rest with others where they take long."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from audit.engine.driver import PATIENCE, drive
from audit.engine.interface import WIDTH, Engine, Json, Outcomes, Trial, WorkSource

AFTER = 30.0
"""Seconds of an attack after which it is told how long the rest takes."""
N_REPEATED = 4
"""Trials that workers repeat before they take any."""
WORTH = 120.0
"""Seconds that the rest must take here: to start workers and load models takes some tens."""


@dataclass(eq=False)
class GrowingEngine:
    """The engine that shares long work with others; implements `audit.engine.interface.Engine`.

    Outcomes do not depend on where a trial runs, so that a switch changes none: workers repeat some
    trials first, and take others only if every bit is the same. They live on from one attack to
    the next. Nobody asked for them: where they cannot start, are lost again and again, or compute
    otherwise, this process goes on alone.

    Attributes:
        make_pool: makes the engine that has several workers.
        width: attempts in flight in this process.
        clock: tells the time in seconds.
        notice: why this process went on alone; empty where it did not. It has no text of an error,
            which may hold a document's.
    """

    make_pool: Callable[[], Engine]
    width: int = WIDTH
    clock: Callable[[], float] = time.monotonic
    notice: str = field(default="", init=False)
    _pool: Engine | None = field(default=None, init=False)
    _alone: bool = field(default=False, init=False)

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Yield (trial id, outcome) of trials as they are done, here or on workers."""
        waiting = _Waiting(trials)
        if self._pool is None:
            computed: dict[str, Json] = {}
            for trial_id, outcome in self._run_here(source, waiting):
                if len(computed) < N_REPEATED:
                    computed[trial_id] = outcome
                yield trial_id, outcome
            if waiting.rest:
                self._start_workers(source, trials, computed)
        yield from self._run_shared(source, [*waiting.rest])

    def close(self) -> None:
        """End the workers, where some were started."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _run_here(self, source: WorkSource, waiting: _Waiting) -> Outcomes:
        """Run trials in this process, until the rest is worth sharing.

        Args:
            source: the work.
            waiting: the trials; those that are left to others stay in it.
        """
        start = self.clock()
        n_trials = len(waiting.rest)
        outcomes = drive(source.here, waiting, self.width, PATIENCE)
        for n_done, (trial_id, outcome) in enumerate(outcomes, start=1):
            elapsed = self.clock() - start
            n_rest = len(waiting.rest)
            # Of those under way about half the work is done.
            n_worked = (n_done + n_trials - n_rest) / 2
            if not self._alone and elapsed >= AFTER:
                waiting.closed = n_rest * elapsed / n_worked >= WORTH
            yield trial_id, outcome

    def _run_shared(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Run trials on the workers; here, where there are none or they fail."""
        unfinished = _by_id(trials)
        if self._pool is not None:
            try:
                for trial_id, outcome in self._pool.run(source, trials):
                    del unfinished[trial_id]
                    yield trial_id, outcome
            except Exception as error:  # noqa: BLE001 (a trial's own error comes again here)
                self._go_on_alone(f"workers failed ({type(error).__name__})")
        yield from drive(source.here, [*unfinished.values()], self.width, PATIENCE)

    def _start_workers(
        self, source: WorkSource, trials: Sequence[Trial], outcomes: Mapping[str, Json]
    ) -> None:
        """Start workers, and have them repeat trials whose outcomes are there already.

        Args:
            source: the work.
            trials: all trials.
            outcomes: what some of them gave here, by id.
        """
        trial_of = _by_id(trials)
        repeated = [trial_of[trial_id] for trial_id in outcomes]
        try:
            self._pool = self.make_pool()
            outcomes_there = dict(self._pool.run(source, repeated))
        except Exception as error:  # noqa: BLE001 (whatever workers lack: nobody asked for them)
            self._go_on_alone(f"no workers started ({type(error).__name__})")
            return
        if json.dumps(outcomes_there, sort_keys=True) != json.dumps(outcomes, sort_keys=True):
            self._go_on_alone("workers gave other answers")

    def _go_on_alone(self, reason: str) -> None:
        """End the workers for good.

        Args:
            reason: what is wrong with them.
        """
        self._alone = True
        self.notice = f"One process went on alone: {reason}"
        self.close()


def _by_id(trials: Sequence[Trial]) -> dict[str, Trial]:
    """Return trials by their ids."""
    return {trial.id: trial for trial in trials}


class _Waiting:
    """Trials that are not started yet, in order.

    Attributes:
        rest: those that nobody took.
        closed: whether no more are given.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        """Start with all trials."""
        self.rest = deque(trials)
        self.closed = False

    def __iter__(self) -> Iterator[Trial]:
        """Give the next trial for as long as it is open."""
        while self.rest and not self.closed:
            yield self.rest.popleft()
