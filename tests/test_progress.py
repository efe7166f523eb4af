"""One progress of a whole run: its share never falls, ends at 100 %, and a log of it is plain lines."""

from __future__ import annotations

import io
import re
import sys

import pytest

from audit.cli.console import Reporter
from audit.cli.console.forecast import Forecast, Stage
from audit.progress import observer, steps

PARTS = {"usefulness": 2.0, "reconstruction": 40.0, "reconstruction: measuring": 10.0, "drawing": 15.0}


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(slowness: float) -> list[tuple[float, float, float]]:
    """Elapsed, share and seconds left after every second of a run that is so many times slower than was guessed."""
    clock = Clock()
    forecast = Forecast("scan", PARTS, clock)
    told = []
    for name, guess in PARTS.items():
        forecast.part(name)
        total = 1000 if name == "reconstruction" else 0
        stage = Stage(name, total, clock.now)
        seconds = int(guess * slowness)
        for second in range(seconds):
            clock.now += 1
            stage.done = round(total * (second + 1) / seconds)
            told.append((forecast.elapsed, forecast.share(stage), forecast.left(stage)))
    return told


@pytest.mark.parametrize("slowness", [0.5, 1.0, 4.0])
def test_the_share_never_falls_and_the_time_left_becomes_right(slowness):
    told = run(slowness)
    shares = [share for _, share, _ in told]
    assert shares == sorted(shares)
    assert all(0 <= share < 1 for share in shares)
    whole = told[-1][0]
    under_way = [(elapsed, left) for elapsed, _, left in told if elapsed > 0.3 * whole]
    assert all(abs(elapsed + left - whole) < 0.5 * whole for elapsed, left in under_way)


def test_a_part_that_did_not_take_place_is_not_waited_for():
    clock = Clock()
    forecast = Forecast("scan", {"first": 10.0, "skipped": 1000.0, "last": 10.0}, clock)
    forecast.part("first")
    clock.now = 10.0
    forecast.part("last")
    assert forecast.left(None) == pytest.approx(10.0)


def test_a_part_longer_than_it_was_guessed_still_has_some_time_left():
    clock = Clock()
    forecast = Forecast("scan", {"one": 1.0}, clock)
    forecast.part("one")
    clock.now = 100.0
    assert forecast.left(None) == pytest.approx(10.0)
    assert forecast.share(None) < 1


def plain_log(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> tuple[Reporter, io.StringIO]:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    return Reporter(clock, beats=False), log


def test_a_log_has_a_line_a_stage_and_one_in_ten_seconds(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        progress.plan("scan", PARTS)
        for name, guess in PARTS.items():
            progress.part(name)
            progress.stage(name, 10)
            for _ in range(10):
                clock.now += guess / 10
                progress.advance()
                progress.beat()
        progress.plan("scan", {})
    text = log.getvalue()
    lines = text.splitlines()
    assert "\x1b" not in text
    assert "\r" not in text
    assert not re.search("[\u2500-\u259f]", text)
    assert [line.split(":")[0] for line in lines if "100 %" in line] == ["scan"]
    assert lines[-1] == "scan: 100 %, done after 67 s"
    assert len(lines) <= 67 / 10 + len(PARTS) + 1
    assert all(re.search(r"scan \d+ % after \d+ s, about \d+ s left$", line) for line in lines[:-1])


def test_what_is_over_at_once_leaves_no_line(monkeypatch):
    reporter, log = plain_log(monkeypatch, Clock())
    with reporter as progress:
        progress.stage("checking documents", 100)
        progress.advance(100)
    assert log.getvalue() == ""


def test_the_time_left_of_a_stage_is_told_once_it_can_be(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        progress.stage("training, epochs", 20)
        clock.now = 10.0
        progress.beat()
        progress.advance(5)
        clock.now = 20.0
        progress.beat()
    assert log.getvalue().splitlines() == [
        "training, epochs: 0 of 20, 10 s",
        "training, epochs: 5 of 20, 20 s, about 60 s left",
        "training, epochs: 5 of 20, 20 s, about 60 s left",
    ]


def test_an_error_leaves_no_line_of_something_done(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)

    def break_down() -> None:
        with reporter as progress:
            progress.plan("scan", PARTS)
            progress.stage("reconstruction", 2)
            clock.now = 5.0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        break_down()
    assert "100 %" not in log.getvalue()


def test_loops_tell_whoever_observes_the_command(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter:
        for _ in steps("hashing, blocks", [1, 2], 2):
            clock.now += 5
    assert log.getvalue().splitlines() == ["hashing, blocks: 2 of 2, 10 s"]
    assert observer() is not reporter
    assert [*steps("nobody looks", "ab", 2)] == ["a", "b"]


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminal_shows_one_line_for_the_run_and_one_for_what_is_under_way(width):
    from rich.console import Console

    clock = Clock()
    reporter = Reporter(clock, beats=False)
    reporter._plain = True
    reporter.plan("scan", PARTS)
    reporter.part("reconstruction")
    reporter.stage("provider membership: permutations of everything there is", 12_000)
    reporter.advance(3000)
    clock.now = 20.0
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(reporter)
    first, second = console.export_text().splitlines()
    assert first.startswith("scan ")
    assert "left" in first
    assert second.strip().startswith("provider membership")
    assert max(len(first), len(second)) <= width
