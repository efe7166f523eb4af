"""An engine that starts here, and shares the rest with workers where it takes long."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.engine.growing import AFTER, WORTH, GrowingEngine
from audit.engine.interface import Attempt, Outcomes, Request, Trial, WorkSource
from audit.errors import EngineError


class Clock:
    """A clock that goes on by some seconds with each question of a trial."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        return self.now

    def ask(self, queries: Sequence[Any]) -> list[float]:
        self.now += self.step * len(queries)
        return [0.0] * len(queries)


def value_of(trial: Trial) -> float:
    return float(trial.id[1:]) / 3


@dataclass
class Slow:
    """Work whose trials take a question each."""

    clock: Clock

    def attempt(self, trial: Trial) -> Attempt:
        yield Request(self.clock, (trial.id,))
        return value_of(trial)


@dataclass
class Workers:
    """An engine elsewhere that remembers what it was asked for.

    Outcomes are equal to those of this process, or off by `error`.
    """

    clock: Clock
    lost_after: int | None = None
    error: float = 0.0
    runs: list[list[str]] = field(default_factory=list)
    closed: int = 0

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        self.runs.append([trial.id for trial in trials])
        for n_done, trial in enumerate(trials):
            if len(self.runs) > 1 and n_done == self.lost_after:
                raise EngineError("3 Ray workers were lost", "use fewer")
            yield trial.id, value_of(trial) + self.error

    @property
    def n_taken(self) -> int:
        """How many trials they were given beside those that they repeated."""
        return sum(len(names) for names in self.runs[1:])

    def close(self) -> None:
        self.closed += 1


def trials(count: int) -> list[Trial]:
    return [Trial(f"t{number}", f"t{number}") for number in range(count)]


def source_of(clock: Clock) -> WorkSource:
    return WorkSource(Slow(clock), lambda fetch: None, lambda kept: Slow(clock))


def run(engine: GrowingEngine, source: WorkSource, count: int) -> None:
    """Run all trials; each gives its outcome once."""
    pairs = list(engine.run(source, trials(count)))
    assert len(pairs) == count
    outcomes = dict(pairs)
    for trial in trials(count):
        assert outcomes[trial.id] == value_of(trial)


def test_short_work_stays_in_this_process():
    clock = Clock(step=1.0)
    engine = GrowingEngine(lambda: pytest.fail("no workers"), width=4, clock=clock)
    run(engine, source_of(clock), int(AFTER) + 10)


def test_the_rest_of_long_work_goes_to_workers_and_later_work_at_once():
    clock = Clock(step=1.0)
    workers = Workers(clock)
    engine = GrowingEngine(lambda: workers, width=4, clock=clock)
    with closing(engine):
        run(engine, source_of(clock), 1000)
        assert workers.runs[0] == ["t0", "t1", "t2", "t3"]
        assert AFTER <= 1000 - workers.n_taken <= AFTER + 8
        run(engine, source_of(clock), 5)
        assert workers.runs[2] == ["t0", "t1", "t2", "t3", "t4"]
    assert workers.closed == 1
    assert not engine.notice


def test_what_is_nearly_done_is_not_shared():
    clock = Clock(step=1.0)
    engine = GrowingEngine(lambda: pytest.fail("no workers"), width=4, clock=clock)
    run(engine, source_of(clock), int(AFTER + WORTH) - 5)


@pytest.mark.parametrize("lost_after", [0, 7])
def test_where_workers_are_lost_this_process_goes_on_alone(lost_after):
    clock = Clock(step=1.0)
    workers = Workers(clock, lost_after)
    engine = GrowingEngine(lambda: workers, width=4, clock=clock)
    with closing(engine):
        run(engine, source_of(clock), 500)
        run(engine, source_of(clock), 500)
    assert (len(workers.runs), workers.closed) == (2, 1)
    assert engine.notice == "One process went on alone: workers failed (EngineError)"


def test_workers_that_compute_otherwise_get_no_trial():
    clock = Clock(step=1.0)
    workers = Workers(clock, error=1e-12)
    engine = GrowingEngine(lambda: workers, width=4, clock=clock)
    with closing(engine):
        run(engine, source_of(clock), 500)
    assert (workers.n_taken, workers.closed) == (0, 1)
    assert engine.notice == "One process went on alone: workers gave other answers"


@pytest.mark.parametrize(
    "error",
    [
        EngineError("Ray cannot be started", "scan with --engine local"),
        TypeError("no pickle of it"),
    ],
)
def test_where_no_workers_start_this_process_goes_on_alone(error):
    def cannot_start() -> Any:
        raise error

    clock = Clock(step=1.0)
    engine = GrowingEngine(cannot_start, width=4, clock=clock)
    run(engine, source_of(clock), 500)
    reason = f"no workers started ({type(error).__name__})"
    assert engine.notice == f"One process went on alone: {reason}"


def test_an_error_of_a_trial_is_that_of_this_process():
    class Broken:
        def attempt(self, trial: Trial) -> Attempt:
            yield Request(clock, (trial.id,))
            raise KeyError(trial.id)

    clock = Clock(step=1.0)
    engine = GrowingEngine(lambda: Workers(clock), clock=clock)
    broken = WorkSource(Broken(), lambda fetch: None, lambda kept: Broken())
    with pytest.raises(KeyError):
        list(engine.run(broken, trials(3)))


@given(
    count=st.integers(0, 400),
    width=st.integers(1, 70),
    step=st.floats(0.0, 40.0),
    lost_after=st.none() | st.integers(0, 50),
)
def test_each_trial_has_one_outcome_wherever_it_runs(count, width, step, lost_after):
    clock = Clock(step)
    engine = GrowingEngine(lambda: Workers(clock, lost_after), width=width, clock=clock)
    run(engine, source_of(clock), count)
