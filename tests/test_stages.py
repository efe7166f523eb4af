"""Stages: an attack stops once all its limits are exceeded for certain, and the verdict stays as sure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator as Rng
from scanned_by_engines import TIMES
from test_policy import TODAY, area, completed, judged, limit, measured, normal, words_of

from audit import record as records
from audit.attacks.interface import Attack, Units
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import SILENT, Attempt, Json, Progress, Trial
from audit.measurements import Check, Unresolved
from audit.policy import SIGNIFICANCE, STAGES, Policy, evaluate, is_sure
from audit.record import AuditRecord, Result, Stage
from audit.report.leaks import notes, tried_in_part
from audit.stats.estimates import estimate
from audit.stats.rates import excess_rate
from audit.workflows.diff import notes_on
from audit.workflows.options import ScanOptions
from audit.workflows.scan import run_scan
from audit.workflows.setup import open_scan

N, METRIC = 100, "excess_pr.unique"
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
        member, hit = (
            np.array([trial.stratum == "member" for trial in trials]),
            np.array(outcomes, float),
        )
        sides = [
            (hit[side], np.zeros(side.sum()), np.arange(side.sum())) for side in (member, ~member)
        ]
        found = estimate(METRIC, excess_rate(sides, rng), "documents", 0.0, "held-out")
        return Result(self.name, measurements=(found,))


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
    policy: Policy | None = POLICY,
    progress: Progress = SILENT,
    **options: Any,
) -> AuditRecord:
    (out / "evidence").mkdir(parents=True, exist_ok=True)
    opened = open_scan(ScanOptions(*world, out, only=("reconstruction",), **options))
    return run_scan(replace(opened, attacks=(Planted(known),)), progress, policy)


def test_a_memoriser_stops_after_a_quarter_and_a_clean_model_takes_all(world, tmp_path):
    early, late = scanned(world, tmp_path / "early", 1.0), scanned(world, tmp_path / "late", 0.0)
    assert (early.attacks[0].stage, early.timing.outcomes) == (STAGES[0], 2 * N // 4)
    assert evaluate(early, POLICY, TODAY).overall == "violated"
    assert (late.attacks[0].stage, late.timing.outcomes) == (STAGES[-1], 2 * N)
    whole = scanned(world, tmp_path / "late", 0.0, stages=False)
    assert whole.timing.resumed == 2 * N
    assert replace(late.attacks[0], stage=Stage()) == replace(whole.attacks[0], stage=Stage())
    assert whole.attacks[0].stage == Stage(), "what is judged as before"


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (None, {}),
        (POLICY, {"stages": False}),
        (POLICY, {"budget": "quick"}),
        (Policy(1, "none", ()), {}),
    ],
)
def test_what_is_not_staged_takes_all_its_trials_at_once(policy, options, world, tmp_path):
    (result,) = scanned(world, tmp_path, 1.0, policy, **options).attacks
    assert result.stage == Stage()
    assert result.measurements[0].clusters == 2 * N  # type: ignore[union-attr]


@pytest.mark.parametrize(("known", "after"), [(1.0, 7), (0.3, 7), (0.3, 60), (0.1, 150)])
def test_a_scan_that_is_killed_in_any_stage_goes_on_to_the_same_record(
    known, after, world, tmp_path
):
    whole = scanned(world, tmp_path / "whole", known)
    with pytest.raises(KeyboardInterrupt):
        scanned(world, tmp_path / "killed", known, progress=Killed(after), fresh=True)
    again = scanned(world, tmp_path / "killed", known, width=3)
    assert again.timing.resumed >= after - 1, "no outcome is lost between stages, with --fresh too"
    assert again.timing.outcomes == whole.timing.outcomes
    assert records.dumps(replace(again, timing=TIMES)) == records.dumps(
        replace(whole, timing=TIMES)
    )


ATTACKS = ("reconstruction", "attribute_inference", "membership")
LIMITS = tuple(limit(f"leak{number}", attack, max=0.6) for attack in ATTACKS for number in range(2))
NUMBERS = st.one_of(
    st.builds(normal, st.just("x"), st.floats(0.5, 1.0), st.floats(0.01, 0.2)),
    st.builds(area, st.just("x"), st.floats(0.0, 1.0), st.floats(0.01, 0.2)),
    st.just(Unresolved("x", "too few", 0)),
    st.just(Unresolved("x", "too few", 30, 72)),
)
CHECKS = st.builds(
    lambda p, cause: Check("check", p, cause, "doubt", ""),
    st.sampled_from((0.001, 0.04, 0.06, 0.5)),
    st.sampled_from(("confounded", "alarm")),
)


@settings(max_examples=4 * settings.default.max_examples)
@given(st.data())
def test_what_stops_early_exceeds_all_its_limits_whatever_the_others_find(data):
    whole, done = tuple(data.draw(st.lists(CHECKS, max_size=1))), list[Result]()
    for place, attack in enumerate(ATTACKS):
        numbers = [
            [data.draw(NUMBERS) for _ in range(data.draw(st.integers(1, 3)))] for _ in range(2)
        ]
        named = {
            f"leak{one}": tuple(f"leak{one}{'+' * n}" for n in range(len(own)))
            for one, own in enumerate(numbers)
        }
        flat = [
            replace(item, name=name)
            for own, names in zip(numbers, named.values(), strict=True)
            for item, name in zip(own, names, strict=True)
        ]
        checks = tuple(data.draw(st.lists(CHECKS, max_size=1)))
        found = completed(*flat, attack=attack, methods=named, checks=checks)
        early = [replace(found, stage=stage) for stage in STAGES[:2]]
        to_come = 6 * (len(ATTACKS) - 1 - place)
        stops = [
            one
            for one in early
            if is_sure(LIMITS, [*done, one], lambda: whole, partial(int, to_come))
        ]
        done.append(next(iter(stops), replace(found, stage=STAGES[-1])))
    record, verdict = judged(done, *LIMITS, checks=whole)
    stopped = {result.attack for result in record.attacks if result.stage.early}
    assert {
        one.outcome for one in verdict.decisions if one.limit.attack in stopped and one.measured
    } <= {"violated"}


def test_false_alarms_of_all_stages_stay_within_the_level():
    rng, errors = np.random.default_rng(5), 0
    limits, runs = tuple(limit("leak", attack, max=0.6) for attack in ATTACKS), 600
    for _ in range(runs):
        done: list[Result] = []
        for attack in ATTACKS:
            # A quarter, another quarter and a half of the same draws, of a number that lies at its
            # limit.
            sums = np.cumsum(rng.normal(0, np.sqrt([0.25, 0.25, 0.5])))
            for stage, total in zip(STAGES, sums, strict=True):
                number = normal(
                    "leak", 0.6 + 0.05 * total / stage.share, 0.05 / np.sqrt(stage.share)
                )
                found = completed(number, attack=attack, stage=stage)
                if is_sure(limits, [*done, found], tuple, lambda: 2) and stage.early:
                    break
            done.append(found)
        errors += judged(done, *limits)[1].overall == "violated"
    assert errors <= SIGNIFICANCE * runs + 2 * np.sqrt(SIGNIFICANCE * runs)


def test_under_another_policy_nothing_passes_that_stopped_early():
    inside = completed(measured("leak", 0.0, 0.1), stage=STAGES[0])
    record, verdict = judged([inside], limit(max=0.5))
    assert [(one.outcome, one.remedy) for one in verdict.decisions] == [
        ("undecided", "rerun with --no-stages")
    ]
    assert "25%" in words_of(record, verdict)
    few = completed(Unresolved("leak", "too few", 40, 72), stage=STAGES[0])
    verdict = judged([few], limit(max=0.5, required=False))[1]
    assert [(one.outcome, one.remedy) for one in verdict.decisions] == [
        ("undecided", "rerun with --no-stages")
    ]


def test_reports_terminals_and_comparisons_name_what_stopped_early():
    record, verdict = judged([completed(normal("leak", 0.6, 0.01), stage=STAGES[1])], limit())
    (said,) = tried_in_part(record)
    assert "Restoring blacked-out values (50\N{NO-BREAK SPACE}%)" in said
    assert "--no-stages" in said
    assert [note.text for note in notes(record, verdict) if note.kind == "early"] == [said]
    whole = replace(record, attacks=(replace(record.attacks[0], stage=STAGES[2]),))
    assert [*notes_on(record, whole)][-1] == f"OLD: {said}"
    assert not [*tried_in_part(whole)]


def test_a_record_without_stages_is_judged_as_before():
    text = records.dumps(tiny.record(completed(normal("leak", 0.2, 0.05))))
    stage = text[text.index(',\n   "stage"') : text.index("}", text.index('"stage"')) + 1]
    old = records.loads(text.replace(stage, ""))
    assert '"stage"' not in text.replace(stage, "")
    assert (old.attacks[0].stage, old.attacks[0].stage.spent(0.0001)) == (Stage(), 0.0001)
