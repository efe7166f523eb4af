"""`python -m benchmarks.gpu`: the order of its pieces, its minutes, what a kill leaves, and one piece, tiny."""

import json

import pytest

from benchmarks.gpu import running
from benchmarks.gpu.pieces import MOST_SECONDS, PIECES, Piece
from benchmarks.gpu.running import Run, run_apart, run_here, run_pieces
from benchmarks.gpu.tables import JSON, MARKDOWN, Tables
from benchmarks.gpu.work import Inputs, Work


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
    times = (ends, MOST_SECONDS, clock, start or here(clock))
    run = Run(tmp_path / "work", inputs or Inputs(), "cpu", tiny, tables, *times, said.append)
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
    assert (groups, len(names)) == (
        ["large", "speed", "cdmi", "epochs", "donut", "reading", "private"],
        len({*names}),
    )
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


def test_nothing_begins_or_lasts_beyond_the_minutes(tmp_path):
    clock = Clock()
    order = []
    run, said = run_of(tmp_path, minutes=10, clock=clock, start=here(clock, 250.0, order=order))
    assert run_pieces([piece("one"), piece("two"), piece("three"), piece("four")], run)
    assert order == [
        "one",
        "two",
        "three",
    ]  # 250 s, 250 s, and 90 of the 250 s that the third one takes
    assert clock.now <= 600
    assert "four: waits for the next call, the minutes are used up" in said
    assert {"one", "two"} == {*json.loads((tmp_path / "out" / JSON).read_text())}


@pytest.mark.slow
def test_a_piece_that_is_killed_or_hangs_goes_on_from_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "PRELOADED", ["audit.targets.opening"])
    monkeypatch.setattr(running, "GRACE", 0.5)
    work = Work("killed", tmp_path / "work", Inputs(), "cpu", tiny=True, seconds=60.0)
    assert run_apart(piece("killed", "die_once"), work) == "failed with exit code -9"
    assert (steps_of(tmp_path, "killed"), run_apart(piece("killed", "die_once"), work)) == (
        ["first"],
        "done",
    )
    assert steps_of(tmp_path, "killed") == ["first", "second"]
    late = Work("late", tmp_path / "work", Inputs(), "cpu", tiny=True, seconds=3.0)
    assert (run_apart(piece("late", "hang"), late), steps_of(tmp_path, "late")) == (
        "stopped",
        ["first"],
    )


@pytest.mark.parametrize("name", ["large-idefics3-8b", "large-llama-8b"])
def test_a_model_in_the_shape_of_a_large_one_is_loaded_asked_and_scanned(name, tmp_path):
    (one,) = [one for one in PIECES if one.name == name]
    found = one.run(Work(name, tmp_path, Inputs(), "cpu", tiny=True, seconds=600.0))
    asked = {"answers", "losses", "losses, every page read anew"}
    assert asked | {"written", "loaded"} <= {*found.values}
    assert all(found.values[way]["rows per second"] > 0 for way in asked)
    assert ("scan" in found.values) == ("llama" in name)
    assert not (tmp_path / name / "model").exists()
    assert sum(line.startswith(f"| {way} |") for line in found.lines for way in asked) == 3
