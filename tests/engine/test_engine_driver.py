"""The driver: bounded, batched, and without any influence of one attempt on another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.engine.driver import LocalEngine, drive
from audit.engine.interface import Answerer, Attempt, Request, Trial, WorkSource


@dataclass(frozen=True)
class Double:
    number: int


@dataclass(frozen=True)
class Negate:
    number: int


@dataclass
class Calculator:
    """Answers, and remembers each call: the types of its queries."""

    name: str = ""
    calls: list[list[Any]] = field(default_factory=list)

    def ask(self, queries: Sequence[Any]) -> list[int]:
        self.calls.append(list(queries))
        return [
            2 * query.number if isinstance(query, Double) else -query.number for query in queries
        ]


@dataclass
class Scripted:
    """Each trial asks what its script says, one question after the other, and returns what it was told."""

    scripts: dict[str, list[tuple[int, type, int]]]
    calculators: list[Calculator] = field(
        default_factory=lambda: [Calculator("a"), Calculator("b")]
    )
    alive: int = 0
    most_alive: int = 0
    started: list[str] = field(default_factory=list)

    def attempt(self, trial: Trial) -> Attempt:
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        self.started.append(trial.id)
        told = []
        for place, (calculator, query, number) in enumerate(self.scripts[trial.id]):
            (answer,) = yield Request(self.calculators[calculator], (query(number + place),))
            told.append(answer)
        self.alive -= 1
        return told

    def expected(self, trial: str) -> list[int]:
        script = enumerate(self.scripts[trial])
        return [
            2 * (number + i) if query is Double else -(number + i)
            for i, (_, query, number) in script
        ]


def trials(scripts: dict[str, Any]) -> list[Trial]:
    return [Trial(name, name) for name in scripts]


questions = st.tuples(st.integers(0, 1), st.sampled_from([Double, Negate]), st.integers(-99, 99))
scripts = st.lists(st.lists(questions, max_size=6), max_size=25).map(
    lambda many: {f"t{number}": script for number, script in enumerate(many)}
)


@given(scripts, st.integers(1, 40))
def test_an_outcome_depends_on_its_trial_alone(scripted: dict[str, Any], width: int) -> None:
    work = Scripted(scripted)
    outcomes = list(drive(work, trials(scripted), width))
    assert sorted(name for name, _ in outcomes) == sorted(scripted)  # each once
    assert dict(outcomes) == {name: work.expected(name) for name in scripted}
    assert work.started == list(scripted)  # in the order given
    assert work.most_alive <= width
    assert work.alive == 0


@given(scripts, st.integers(1, 40))
def test_an_answerer_is_asked_one_type_at_a_time(scripted: dict[str, Any], width: int) -> None:
    work = Scripted(scripted)
    list(drive(work, trials(scripted), width))
    asked = sum(len(script) for script in scripted.values())
    calls = [call for calculator in work.calculators for call in calculator.calls]
    assert sum(len(call) for call in calls) == asked
    assert all(len({type(query) for query in call}) == 1 for call in calls)
    assert all(1 <= len(call) <= width for call in calls)


def test_questions_of_many_attempts_go_out_together() -> None:
    work = Scripted({f"t{i}": [(0, Double, i), (0, Negate, i)] for i in range(6)})
    assert len(list(drive(work, trials(work.scripts), 6))) == 6
    assert work.calculators[0].calls == [
        [Double(i) for i in range(6)],
        [Negate(i + 1) for i in range(6)],
    ]


def test_queries_wait_until_many_can_be_asked_together() -> None:
    turns = [(0, Double, 0), (0, Negate, 0)] * 5
    work = Scripted({f"t{i}": turns[i % 2 :] + turns[: i % 2] for i in range(12)})
    assert len(list(drive(work, trials(work.scripts), 12))) == 12
    assert len(work.calculators[0].calls) <= 11  # both types each round: 20


def test_an_attempt_may_ask_several_questions_at_once() -> None:
    calculator = Calculator()

    class Asks:
        def attempt(self, trial: Trial) -> Attempt:
            first = int(trial.id)
            answers = yield Request(
                calculator, tuple(Double(first + place) for place in range(first))
            )
            return answers

    outcomes = dict(drive(Asks(), [Trial("3", "u"), Trial("0", "u"), Trial("2", "u")], 3))
    assert outcomes == {"3": [6, 8, 10], "0": [], "2": [4, 6]}
    assert len(calculator.calls) == 1


def test_the_next_attempt_starts_as_soon_as_one_returns() -> None:
    work = Scripted(
        {"long": [(0, Double, 0)] * 4, **{f"short{i}": [(0, Double, i)] for i in range(4)}}
    )
    outcomes = list(drive(work, trials(work.scripts), 2))
    assert [name for name, _ in outcomes] == ["short0", "short1", "short2", "long", "short3"]
    assert [len(call) for call in work.calculators[0].calls] == [2, 2, 2, 2]


def test_an_outcome_is_given_before_the_next_round_is_asked() -> None:
    work = Scripted({"a": [(0, Double, 0)], "b": [(0, Double, 0)] * 3})
    running = drive(work, trials(work.scripts), 2)
    assert next(running) == ("a", [0])
    assert len(work.calculators[0].calls) == 1


def test_attempts_that_ask_nothing_are_run_and_take_no_place() -> None:
    work = Scripted({f"t{i}": [] for i in range(50)})
    assert [name for name, _ in drive(work, trials(work.scripts), 1)] == list(work.scripts)
    assert work.most_alive == 1


def test_an_exception_of_an_attempt_goes_through() -> None:
    class Breaks:
        def attempt(self, trial: Trial) -> Attempt:
            yield Request(Calculator(), (Double(1),))
            raise KeyError(trial.id)

    with pytest.raises(KeyError, match="t7"):
        list(drive(Breaks(), [Trial("t7", "u")], 2))


class Refuses:
    def ask(self, queries: Sequence[Any]) -> list[Any]:
        raise ValueError("not this")


class Forgetful:
    def ask(self, queries: Sequence[Any]) -> list[Any]:
        return [0] * (len(queries) - 1)


@pytest.mark.parametrize(("answerer", "message"), [(Refuses(), "not this"), (Forgetful(), "zip")])
def test_an_answerer_that_fails_or_leaves_questions_out_ends_the_run(
    answerer: Answerer, message: str
) -> None:
    class Asks:
        def attempt(self, trial: Trial) -> Attempt:
            yield Request(answerer, (Double(1),))

    with pytest.raises(ValueError, match=message):
        list(drive(Asks(), [Trial("a", "u"), Trial("b", "u")], 2))


@pytest.mark.parametrize("width", [0, -1])
def test_a_width_that_attempts_nothing_is_an_error(width: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        list(drive(Scripted({"a": []}), [Trial("a", "u")], width))


@given(scripts, st.integers(1, 9))
def test_the_local_engine_drives_the_work_that_is_open(
    scripted: dict[str, Any], width: int
) -> None:
    work = Scripted(scripted)
    outcomes = dict(LocalEngine(width).run(WorkSource(work, print, print), trials(scripted)))
    assert outcomes == {name: work.expected(name) for name in scripted}


@dataclass
class Slow(Calculator):
    """Takes a second for every query."""

    now: float = 0.0

    def ask(self, queries: Sequence[Any]) -> list[int]:
        self.now += len(queries)
        return super().ask(queries)


def first_outcome(patience: float) -> tuple[float, dict[str, Any], list[int]]:
    slow = Slow()
    work = Scripted({str(number): [(0, Double, number)] * 20 for number in range(40)}, [slow])
    found = {}
    first = 0.0
    for name, outcome in drive(work, trials(work.scripts), 32, patience, lambda: slow.now):
        first = first or slow.now
        found[name] = outcome
    return first, found, [len(call) for call in slow.calls]


def test_attempts_in_lock_step_leave_an_outcome_before_all_of_them_end():
    patient, everything, together = first_outcome(float("inf"))
    sooner, same, calls = first_outcome(60)
    assert (patient, set(together[:20])) == (32 * 20, {32})
    assert sooner < patient / 2
    assert same == everything
    assert len(same) == 40
    assert min(calls[:-1]) == 8
