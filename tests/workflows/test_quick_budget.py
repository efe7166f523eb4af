"""A quick scan takes cheap attacks whole, and of dear ones a quarter at least."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from scanned_by_engines import TIMES
from test_measuring import Killed, Planted, Recognised

from audit import record as records
from audit.engine.interface import SILENT, Progress, Trial
from audit.errors import ManifestError, TargetError
from audit.record import AuditRecord
from audit.report.leaks import tried_in_part
from audit.workflows import planning
from audit.workflows.options import ScanOptions
from audit.workflows.run import run_scan
from audit.workflows.session import Session, open_session

N = 20
DEAR = {"reconstruction": 4000.0, "membership": 1.0}
CHEAP = {"reconstruction": 1.0, "membership": 4000.0}
Clock = Callable[[dict[str, float]], list[str]]


class Panic(BaseException):
    """What libraries of Rust raise."""


ATTACKS = (Planted(1.0), Recognised(1.0))


@pytest.fixture(scope="module")
def world(checkpoints, tmp_path_factory):
    data = tiny.corpus(tmp_path_factory.mktemp("quick") / "data", members=N, heldout=N, public=0)
    return checkpoints("layoutlm", "token-classification", 2), data


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let all trials of an attack take so many seconds.

    The names of those that are timed are returned.
    """

    def use(seconds: dict[str, float]) -> list[str]:
        timed = []

        def estimate(work: Any, trials: Sequence[Trial], width: int, limit: float) -> float:
            timed.append(work.attack.name)
            return seconds[work.attack.name]

        monkeypatch.setattr(planning, "estimate", estimate)
        return timed

    return use


def opened(world: tuple[Path, Path], out: Path, **options: Any) -> Session:
    (out / "evidence").mkdir(parents=True, exist_ok=True)
    chosen = {"budget": "quick", "only": ("reconstruction", "membership"), **options}
    return replace(open_session(ScanOptions(*world, out, **chosen)), attacks=ATTACKS)


def scanned(
    world: tuple[Path, Path], out: Path, progress: Progress = SILENT, **options: Any
) -> AuditRecord:
    return run_scan(opened(world, out, **options), progress)


def tried(record: AuditRecord) -> dict[str, int]:
    """The documents that each attack tried."""
    return {result.attack: result.measurements[0].clusters for result in record.attacks}


def test_a_cheap_attack_takes_all_its_trials_and_a_dear_one_a_quarter(world, clock, tmp_path):
    clock(DEAR)
    record = scanned(world, tmp_path)
    assert tried(record) == {"reconstruction": N // 2, "membership": 2 * N}
    assert (record.share, record.shares) == (0.25, {"membership": 1.0})
    assert records.loads(records.dumps(record)) == record
    assert (record.left_untried("reconstruction"), record.left_untried("membership")) == (
        True,
        False,
    )
    assert [*tried_in_part(record)] == [
        "The budget “quick” took 25\u00a0% to 100\u00a0% of what could be tried."
    ]


def test_where_all_attacks_are_cheap_nothing_is_left_untried(world, clock, tmp_path):
    clock({"reconstruction": 40.0, "membership": 40.0})
    record = scanned(world, tmp_path)
    assert (record.share, record.shares) == (1.0, {})
    assert [*tried_in_part(record)] == []


@pytest.mark.parametrize("after", [10, N])
def test_a_killed_scan_goes_on_with_the_shares_that_it_began_with(after, world, clock, tmp_path):
    clock(DEAR)
    whole = scanned(world, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        scanned(world, tmp_path / "killed", progress=Killed(after))
    timed = clock(CHEAP)
    again = scanned(world, tmp_path / "killed")
    assert timed == []
    assert again.timing.resumed > 0
    assert records.dumps(replace(again, timing=TIMES)) == records.dumps(
        replace(whole, timing=TIMES)
    )
    assert scanned(world, tmp_path / "killed", fresh=True).shares == {"reconstruction": 1.0}


def test_a_quick_scan_is_part_of_a_standard_one(world, clock, tmp_path):
    clock(DEAR)
    quick = scanned(world, tmp_path)
    standard = scanned(world, tmp_path, budget="standard")
    assert (quick.timing.outcomes, standard.timing.resumed) == (N // 2 + 2 * N, N // 2 + 2 * N)
    assert (standard.share, standard.shares) == (1.0, {})


@pytest.mark.parametrize("options", [{"documents": 12}, {"budget": "standard"}])
def test_no_trial_is_timed_where_something_else_bounds_them(options, world, clock, tmp_path):
    timed = clock(DEAR)
    record = scanned(world, tmp_path, **options)
    assert timed == []
    assert (record.share, record.shares) == (0.25 if "documents" in options else 1.0, {})


def test_a_time_bounds_the_documents_as_before(world, clock, tmp_path):
    clock({"reconstruction": 40.0, "membership": 40.0})
    record = scanned(world, tmp_path, seconds=60.0)
    assert (record.share, record.shares) == (0.25, {})
    assert record.bounds is not None
    assert record.bounds.part == pytest.approx(planning.USED * 60 / 80)


def test_a_plan_chooses_what_a_scan_does(world, clock, tmp_path):
    clock(DEAR)
    costs = {cost.attack: cost for cost in planning.time_attacks(opened(world, tmp_path), SILENT)}
    record = scanned(world, tmp_path)
    assert {name: cost.trials for name, cost in costs.items()} == tried(record)
    assert {name: cost.share for name, cost in costs.items()} == {
        name: record.share_of(name) for name in costs
    }
    assert {name: cost.seconds for name, cost in costs.items()} == {
        "reconstruction": 1000.0,
        "membership": 1.0,
    }
    assert costs["reconstruction"].reached == (N // 4, N // 4)


def test_a_scan_whose_trials_run_elsewhere_takes_a_quarter(world, clock, tmp_path):
    timed = clock(DEAR)
    elsewhere = replace(opened(world, tmp_path), device="cuda")
    assert not elsewhere.awaits_time
    assert elsewhere.sampling.share_of("membership") == 0.25
    assert timed == []


def broken(page: Any) -> Callable[..., None]:
    """Fail as a model or a page does, or as somebody ends the program."""

    def fail(*_: Any) -> None:
        raise page

    return fail


FAILURES = [
    ValueError("a page"),
    ManifestError("a page"),
    TargetError("a page"),
    MemoryError(),
    Panic("a page"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_an_attack_that_cannot_be_timed_takes_a_quarter_and_is_run(
    failure, world, clock, tmp_path, monkeypatch
):
    clock({"reconstruction": 1.0, "membership": 1.0})
    told = planning.estimate

    def estimate(work: Any, *others: Any) -> float:
        if work.attack.name == "reconstruction":
            raise failure
        return told(work, *others)

    monkeypatch.setattr(planning, "estimate", estimate)
    record = scanned(world, tmp_path)
    assert {result.status for result in record.attacks} == {"completed"}
    assert (record.share, record.shares) == (0.25, {"membership": 1.0})
    assert not [*(tmp_path / "evidence").glob("failure-*")]
    assert scanned(world, tmp_path).shares == {"membership": 1.0}


def test_where_nothing_can_be_timed_all_take_a_quarter(world, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "_references_at_hand", broken(ValueError("a page")))
    record = scanned(world, tmp_path)
    assert {result.status for result in record.attacks} == {"completed"}
    assert (record.share, record.shares) == (0.25, {})


def test_an_attack_that_fails_where_it_is_timed_fails_where_it_runs(
    world, clock, tmp_path, monkeypatch
):
    clock({"reconstruction": 1.0, "membership": 1.0})
    monkeypatch.setattr(Recognised, "trials", broken(ValueError("a page")))
    reconstruction, membership = scanned(world, tmp_path).attacks
    assert (reconstruction.status, membership.status) == ("completed", "failed")
    assert [path.name for path in (tmp_path / "evidence").glob("failure-*")] == [
        "failure-membership.txt"
    ]


def test_whoever_ends_the_program_while_trials_are_timed_ends_it(world, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "estimate", broken(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        scanned(world, tmp_path)


def test_a_plan_tells_what_fails_where_trials_are_timed(world, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "estimate", broken(ValueError("a page")))
    with pytest.raises(ValueError, match="a page"):
        planning.time_attacks(opened(world, tmp_path), SILENT)


@pytest.mark.parametrize("content", ["[]", '{"membership": 2.0}', '{"membership": NaN}', "{"])
def test_a_choice_that_cannot_be_read_is_one_line(content, world, clock, tmp_path):
    clock(DEAR)
    scanned(world, tmp_path)
    (kept,) = (tmp_path / "evidence").glob("time-*.json")
    kept.write_text(content)
    with pytest.raises(planning.EngineError, match="cannot be read"):
        scanned(world, tmp_path)
