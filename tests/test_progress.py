"""Progress: a bar on a terminal, plain lines in a log."""

import io
import re
import sys

import pytest

from audit.cli import console
from audit.cli.console import Reporter


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def plain_log(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> tuple[Reporter, io.StringIO]:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    return Reporter(clock), log


def behind_names(log: io.StringIO) -> list[str]:
    """What the lines of a log say behind the names of their stages."""
    return [line.partition(": ")[2] for line in log.getvalue().splitlines()]


def test_a_log_has_a_line_a_stage_and_one_in_ten_seconds(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        for name, seconds in {"reconstruction": 40.0, "drawing": 5.0}.items():
            progress.stage(name, 10)
            for _ in range(10):
                clock.now += seconds / 10
                progress.advance()
        progress.stage("hashing")
        clock.now += 3
    assert log.getvalue().splitlines() == [
        "reconstruction: 3 of 10, 12 s, about 28 s left",
        "reconstruction: 6 of 10, 24 s, about 16 s left",
        "reconstruction: 9 of 10, 36 s, about 4 s left",
        "reconstruction: 10 of 10, 40 s",
        "drawing: 10 of 10, 5 s",
        "hashing: 3 s",
    ]


def test_the_time_left_is_that_of_the_stage_and_an_early_one_is_not_too_short(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        progress.stage("usefulness", 10)
        clock.now += 1
        progress.advance(10)
        progress.stage("attack 1 of 7 (Restoring blacked-out values)", 977)
        clock.now += 5 * 60
        progress.advance(0)
        clock.now += 7 * 60
        progress.advance(21)
        clock.now += 20 * 60
        progress.advance(400)
        clock.now += 30 * 60
        progress.advance(556)
    assert behind_names(log) == [
        "0 of 977, 5 min",
        "21 of 977, 12 min",
        "421 of 977, 32 min, about 42 min left",
        "977 of 977, 62 min",
    ]


def test_the_first_of_many_steps_under_way_is_no_evidence_of_the_time_left(monkeypatch):
    """64 questions are asked at once: the first answer comes when nearly all of them do."""
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        progress.stage("attack 1 of 4 (Answers given after they were removed)", 800)
        clock.now += 17
        progress.advance()
        clock.now += 11
        progress.advance()
        clock.now += 11
        progress.advance(63)
        clock.now += 11
        progress.advance(64)
        clock.now += 100
        progress.advance(671)
    assert behind_names(log) == [
        "1 of 800, 17 s",
        "2 of 800, 28 s",
        "65 of 800, 39 s, up to 7 min left",
        "129 of 800, 50 s, about 4 min left",
        "800 of 800, 2 min",
    ]


def test_the_time_left_is_of_all_stages_that_are_expected(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)
    with reporter as progress:
        progress.stage("attack 1 of 3 (Restoring blacked-out values)", 100)
        progress.expect(300)
        clock.now += 60
        progress.advance(50)
        clock.now += 60
        progress.advance(50)
        progress.stage("attack 3 of 3 (Distinguishing training documents)", 100)
        clock.now += 60
        progress.advance(50)
        clock.now += 60
        progress.advance(50)
    assert behind_names(log) == [
        "50 of 100, 60 s, about 7 min left in all",
        "100 of 100, 2 min",
        "50 of 100, 60 s, about 60 s left",
        "100 of 100, 2 min",
    ]


def test_a_log_names_at_once_what_is_opened(monkeypatch):
    reporter, log = plain_log(monkeypatch, Clock())
    reporter.stage("opening the model")
    assert log.getvalue() == "opening the model\n"


def test_an_error_leaves_no_line_of_something_done(monkeypatch):
    clock = Clock()
    reporter, log = plain_log(monkeypatch, clock)

    def break_down() -> None:
        with reporter as progress:
            progress.stage("reconstruction", 2)
            clock.now = 5.0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        break_down()
    assert log.getvalue() == ""


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminal_shows_a_bar_on_one_line_and_takes_it_away(monkeypatch, width):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    with Reporter(Clock()) as progress:
        progress.stage(
            "attack 2 of 7 (Answers given after they were removed from the page)", 12_000
        )
        progress.advance(3000)
        console.note("a line")
    shown = [
        re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)
        for line in re.split(r"[\r\n]+", stream.getvalue())
    ]
    bars = [line for line in shown if "━" in line]
    assert bars
    assert all(line.startswith("attack 2") and len(line) <= width for line in bars)
    assert any("3,000 of 12,000, 0 s, about 0 s left" in line for line in bars), (
        "the name is cut, never the numbers"
    )
    assert "a line" in shown
