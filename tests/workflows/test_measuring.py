"""Measuring: a scan takes its trials and writes what came of them, and knows nothing of a policy."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tiny
from judged import limit
from numpy.random import Generator as Rng
from scanned_by_engines import TIMES

from audit import record as records
from audit.attacks.interface import Attack, Units
from audit.cards import DeclaredPolicy
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.defenses.interface import QueryDefense
from audit.engine.growing import GrowingEngine
from audit.engine.interface import SILENT, Attempt, Json, Progress, Trial
from audit.policy import Policy
from audit.record import AuditRecord, Result
from audit.stats.estimates import estimate
from audit.stats.rates import excess_rate
from audit.workflows import session
from audit.workflows.options import ScanOptions
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

N = 100
METRIC = "excess_pr.unique"
POLICY = Policy(schema=1, name="test", limits=(limit(METRIC),))


@dataclass(frozen=True)
class Planted(Attack):
    """One trial a document: a share of the members, chosen by their names, is known."""

    known: float = 0.0

    name: ClassVar[str] = "reconstruction"
    ablations = ()

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        return (Units(METRIC, "difference", "documents", N, N),)

    def trials(self, case: Case) -> list[Trial]:
        return [Trial(one.id, one.id, one.split) for one in case.corpus.of("member", "heldout")]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        yield from ()
        share = int(hashlib.sha256(trial.id.encode()).hexdigest()[:8], 16) / 2**32
        return float(trial.stratum == "member" and share < self.known)

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Rng,
        progress: Progress,
    ) -> Result:
        member = np.array([trial.stratum == "member" for trial in trials])
        hit = np.array(outcomes, float)
        sides = [
            (hit[side], np.zeros(side.sum()), np.arange(side.sum())) for side in (member, ~member)
        ]
        found = estimate(METRIC, excess_rate(sides, rng), "documents", 0.0, "held-out")
        return Result(self.name, measurements=(found,))


@dataclass(frozen=True)
class Recognised(Planted):
    """The same trials under another name."""

    name: ClassVar[str] = "membership"


@dataclass
class Killed(Progress):
    """Interrupts a scan after so many outcomes."""

    after: int

    def advance(self, steps: int = 1) -> None:
        self.after -= steps
        if self.after < 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def world(checkpoints, tmp_path_factory):
    data = tiny.corpus(tmp_path_factory.mktemp("staged") / "data", members=N, heldout=N, public=0)
    return checkpoints("layoutlm", "token-classification", 2), data


def scanned(
    world: tuple[Path, Path],
    out: Path,
    known: float,
    declared: DeclaredPolicy | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> AuditRecord:
    (out / "evidence").mkdir(parents=True, exist_ok=True)
    opened = open_session(ScanOptions(*world, out, only=("reconstruction",), **options))
    return run_scan(replace(opened, attacks=(Planted(known),)), progress, declared)


class Shield:
    """A model behind a countermeasure that changes no answer."""

    def __init__(self, target: Any) -> None:
        self.behind = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@dataclass
class Counting(QueryDefense):
    """A countermeasure that counts the models that it is put before."""

    wrapped: list[Any]

    name: ClassVar[str] = "counting"
    title: ClassVar[str] = "counting"

    def wrap(self, target: Any) -> Any:
        self.wrapped.append(target)
        return Shield(target)


def test_a_scan_puts_its_model_behind_the_countermeasure_once(world, tmp_path, monkeypatch):
    guard = Counting([])
    monkeypatch.setattr(session, "query_defense", lambda *_: guard)
    (tmp_path / "evidence").mkdir()
    opened = open_session(
        ScanOptions(*world, tmp_path, only=("reconstruction",), defense="counting")
    )
    attacks = (Planted(1.0), Recognised(1.0))
    record = run_scan(replace(opened, attacks=attacks), SILENT)
    assert [result.status for result in record.attacks] == ["completed", "completed"]
    assert guard.wrapped == [opened.target]
    assert record.derived_by == ("counting",)


def test_two_policies_give_one_record_but_for_the_declared_one(world, tmp_path):
    loose = replace(POLICY, name="loose", limits=(limit(METRIC, max=0.9),))
    strict = replace(POLICY, name="strict", limits=(limit(METRIC, max=0.01),))
    written = []
    for policy in (loose, strict):
        declared = DeclaredPolicy(policy.name, "0" * 64, shipped=False, toml="")
        record = scanned(world, tmp_path / policy.name, 1.0, declared)
        assert record.policy == declared
        written.append(records.dumps(replace(record, timing=TIMES, policy=None)))
    assert written[0] == written[1]


@pytest.mark.parametrize("known", [0.0, 1.0])
def test_every_trial_is_taken_whatever_leaks(known, world, tmp_path):
    (result,) = scanned(world, tmp_path, known).attacks
    assert result.measurements[0].clusters == 2 * N


@pytest.mark.parametrize(("known", "after"), [(1.0, 7), (0.3, 60), (0.1, 150)])
def test_a_scan_that_is_killed_goes_on_to_the_same_record(known, after, world, tmp_path):
    whole = scanned(world, tmp_path / "whole", known)
    with pytest.raises(KeyboardInterrupt):
        scanned(world, tmp_path / "killed", known, progress=Killed(after), fresh=True)
    again = scanned(world, tmp_path / "killed", known, width=3)
    assert again.timing.resumed >= after - 1
    assert again.timing.outcomes == whole.timing.outcomes
    assert records.dumps(replace(again, timing=TIMES)) == records.dumps(
        replace(whole, timing=TIMES)
    )


@dataclass
class Remembering(Progress):
    """Remembers the names of stages."""

    stages: list[str]

    def stage(self, name: str, total: int = 0) -> None:
        self.stages.append(name)


def cannot_start() -> Any:
    raise OSError("no room for workers")


def test_a_scan_says_that_workers_which_nobody_asked_for_did_not_start(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("audit.engine.growing.AFTER", 0.0)
    monkeypatch.setattr("audit.engine.growing.WORTH", 0.0)
    (tmp_path / "evidence").mkdir()
    opened = open_session(ScanOptions(*world, tmp_path, only=("reconstruction",)))
    growing = GrowingEngine(cannot_start, width=4)
    progress = Remembering([])
    run_scan(replace(opened, attacks=(Planted(1.0),), engine=growing), progress)
    assert "One process went on alone: no workers started (OSError)" in progress.stages
