"""`python -m benchmarks.gpu`: the order of its pieces, its minutes, what a kill leaves, and one piece, tiny."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import running
from benchmarks.gpu.pieces import MOST_SECONDS, PIECES, Piece
from benchmarks.gpu.running import Run, run_apart, run_here, run_pieces
from benchmarks.gpu.tables import JSON, MARKDOWN, Tables
from benchmarks.gpu.work import Inputs, OutOfTimeError, Work


def piece(name, function="count", **more):
    return Piece(name, f"what {name} shows", "gpu_pieces", function, **more)


class Clock:
    """Seconds that pass only when a piece is run."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run_of(tmp_path, *, minutes=40.0, start=None, clock=None, inputs=None, tiny=True):
    clock = clock or Clock()
    said = []
    tables = Tables(tmp_path / "out", tmp_path / "work", tiny=tiny)
    ends = clock() + 60 * minutes
    run = Run(
        tmp_path / "work",
        inputs or Inputs(),
        "cpu",
        tiny,
        tables,
        ends,
        MOST_SECONDS,
        clock,
        start or here(clock),
        said.append,
    )
    return run, said


def here(clock, seconds=100.0, ends="done", order=None):
    """Runs a piece in this process, as if it took so many seconds."""

    def start(one, work):
        clock.now += min(seconds, work.seconds)
        if order is not None:
            order.append(one.name)
        if seconds > work.seconds:
            return "stopped"
        try:
            run_here(one, work)
        except SystemExit:
            return "failed with exit code 1"
        return ends

    return start


def steps_of(tmp_path, name):
    return (tmp_path / "work" / name / "done").read_text().split()


def test_the_pieces_are_ordered_by_worth_and_come_after_what_they_need():
    names = [one.name for one in PIECES]
    groups = list(dict.fromkeys(name.split("-")[0] for name in names))
    assert groups == ["speed", "cdmi", "donut", "reading", "private"]
    assert len(names) == len({*names})
    for place, one in enumerate(PIECES):
        assert {*one.after} <= {*names[:place]}, one.name


def test_every_piece_gets_a_table_with_device_date_versions_and_commit(tmp_path):
    run, said = run_of(tmp_path)
    assert run_pieces([piece("one"), piece("two", after=("one",))], run)
    tables = json.loads((tmp_path / "out" / JSON).read_text())
    assert [*tables] == ["one", "two"]
    assert {"device", "date", "versions", "commit", "seconds"} <= {*tables["one"]}
    assert said[-1] == "2 of 2 pieces have their table"
    text = (tmp_path / "out" / MARKDOWN).read_text()
    assert "## two" in text
    assert "no number here is a result" in text


def test_a_piece_that_has_its_table_is_skipped_even_when_out_was_emptied(tmp_path):
    run, _ = run_of(tmp_path)
    run_pieces([piece("one")], run)
    (tmp_path / "out" / JSON).unlink()
    run, said = run_of(tmp_path)
    run_pieces([piece("one")], run)
    assert "one: has its table" in said
    assert steps_of(tmp_path, "one") == ["first", "second"]
    assert "one" in json.loads((tmp_path / "out" / JSON).read_text())


def test_tiny_tables_are_never_mixed_with_others(tmp_path):
    run, _ = run_of(tmp_path)
    run_pieces([piece("one")], run)
    with pytest.raises(SystemExit, match="give other folders"):
        Tables(tmp_path / "out", tmp_path / "work", tiny=False)


def test_nothing_begins_or_lasts_beyond_the_minutes(tmp_path):
    clock, order = Clock(), []
    run, said = run_of(tmp_path, minutes=10, clock=clock, start=here(clock, 250.0, order=order))
    assert run_pieces([piece("one"), piece("two"), piece("three"), piece("four")], run)
    assert order == ["one", "two", "three"]  # 250 s, 250 s, and 90 of the 250 s that the third one takes
    assert clock.now <= 600
    assert "four: waits for the next call, the minutes are used up" in said
    assert {"one", "two"} == {*json.loads((tmp_path / "out" / JSON).read_text())}


def test_a_piece_gets_no_more_than_its_share_in_one_go_and_another_turn_at_the_end(tmp_path):
    clock, order, given = Clock(), [], []

    def start(one, work):
        given.append(work.seconds)
        return here(clock, 1000.0 if one.name == "long" and order.count("long") < 2 else 10.0, order=order)(one, work)

    run, _ = run_of(tmp_path, clock=clock, start=start)
    run_pieces([piece("long"), piece("short"), piece("later", after=("long",))], run)
    assert order == ["long", "short", "long", "long", "later"]
    assert max(given) == MOST_SECONDS


def test_what_is_missing_or_untested_is_said_and_skipped(tmp_path):
    pieces = [piece("data", needs=("sroie", "backbone")), piece("read", "not_tested"), piece("then", after=("read",))]
    run, said = run_of(tmp_path, tiny=False, inputs=Inputs(backbone=tmp_path))
    assert run_pieces(pieces, run)
    assert "data: skipped, it needs --sroie FOLDER" in said
    assert "then: skipped, read could not be tested" in said
    assert run.tables["read"]["lines"] == ["Not tested: no model reads."]


def test_a_mistake_in_one_piece_stops_no_other_and_is_tried_again(tmp_path):
    run, _ = run_of(tmp_path)
    assert not run_pieces([piece("wrong", "fail"), piece("one")], run)
    assert "one" in run.tables
    assert "wrong" not in run.tables
    assert "ValueError: a mistake" in (tmp_path / "work" / "wrong" / "failed.txt").read_text()


def test_a_step_is_not_begun_with_too_little_time_unless_no_run_has_more(tmp_path):
    work = Work("one", tmp_path, Inputs(), "cpu", tiny=True, seconds=100.0, log=lambda line: None)
    assert work.step("long", lambda: 1, seconds=200.0) == 1  # a whole run has no more
    work._began -= 50.0
    with pytest.raises(OutOfTimeError, match="next waits"):
        work.step("next", lambda: 2, seconds=60.0)
    assert work.step("long", lambda: 3) == 1


@pytest.mark.slow
def test_a_piece_that_is_killed_or_hangs_goes_on_from_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "PRELOADED", ["audit.targets.opening"])
    monkeypatch.setattr(running, "GRACE", 0.5)
    work = Work("killed", tmp_path / "work", Inputs(), "cpu", tiny=True, seconds=60.0)
    assert run_apart(piece("killed", "die_once"), work) == "failed with exit code -9"
    assert steps_of(tmp_path, "killed") == ["first"]
    assert run_apart(piece("killed", "die_once"), work) == "done"
    assert steps_of(tmp_path, "killed") == ["first", "second"]
    late = Work("late", tmp_path / "work", Inputs(), "cpu", tiny=True, seconds=3.0)
    assert run_apart(piece("late", "hang"), late) == "stopped"
    assert steps_of(tmp_path, "late") == ["first"]


def test_the_attack_at_the_papers_size_runs_tiny_and_goes_on_from_its_blocks(tmp_path):
    (speed,) = [one for one in PIECES if one.name == "speed-attack"]
    said = []
    work = Work(speed.name, tmp_path, Inputs(), "cpu", tiny=True, log=said.append)
    found = speed.run(work)
    assert found.values["preflight"]["decisions"] > 0
    assert found.values["encoders"]["CUDA graphs"] == {"failure": "needs CUDA"}
    for count in (1, 8):
        assert found.values[f"attempts {count}"]["share of the matmul rate"] > 0
    kept = json.loads((work.folder / "attempts-8-000.step.json").read_text())
    traced = found.values["encoders"]["traced"]
    assert traced["tokens"] == json.loads((work.folder / "attempts-1-000.step.json").read_text())["tokens"]
    assert kept["prefixes"] >= traced["prefixes"]
    (work.folder / "attempts-8-002.step.json").unlink()
    said.clear()
    assert speed.run(work).values["attempts 1"] == found.values["attempts 1"]
    assert [line.split(" in ")[0] for line in said] == ["speed-attack: attempts-8-002"]


def test_the_list_names_what_a_piece_needs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu", "--list"])
    command.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PIECES)
    assert lines[0].startswith("speed-passes")
    assert any("[needs --backbone, --sroie]" in line for line in lines)
