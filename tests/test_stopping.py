"""A signal ends a command wherever it arrives: also in a finaliser, a callback or an import that swallows it."""

import signal
from pathlib import Path

import pytest
from case_tables import read_tables
from commands import run_python

TEXTS = read_tables(Path(__file__).with_suffix(".toml"))
PROGRAMS, SWALLOWED = TEXTS["programs"], TEXTS["swallowed"]


@pytest.mark.parametrize("place", SWALLOWED)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_heard_wherever_it_arrives(place, sent, code):
    program = PROGRAMS["program"].format(body=SWALLOWED[place].replace("\n", "\n    "))
    done = run_python("-c", program, int(sent), timeout=60)
    assert (done.returncode, done.stdout) == (code, "cleaned up\n"), done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("run the same command again to go on") == (sent == signal.SIGTERM)


@pytest.mark.parametrize("ended", ["raise ValueError('no schema') from error", "sys.exit(1)"])
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_a_library_makes_of_a_signal_ends_as_the_signal_does(ended, sent, code):
    done = run_python("-c", PROGRAMS["turned"].format(ended=ended), int(sent), timeout=60)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("run the same command again to go on") == 1
    assert "Traceback" not in done.stderr


def test_a_signal_that_is_ignored_stays_so():
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from audit.cli import stopping; "
    program += "stopping.listen(); signal.raise_signal(signal.SIGINT); print('went on')"
    done = run_python("-c", program, timeout=60)
    assert (done.returncode, done.stdout) == (0, "went on\n")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            "owner = Owner(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
            143,
            id="again at the end",
        ),
        pytest.param("owner = Owner(); sys.exit(2)", 2, id="at the end"),
        pytest.param(
            "sys.unraisablehook.__self__._try_later(); sys.exit(2)",
            2,
            id="with an alarm that waits",
        ),
    ],
)
def test_no_alarm_kills_a_command_that_leaves(body, code):
    """A signal that a finaliser swallowed as the interpreter ended was raised again by an alarm: 142."""
    done = run_python("-c", PROGRAMS["leaving"].format(body=body), timeout=60)
    assert done.returncode == code, done.stderr


def test_errors_without_a_signal_stay_what_they_are():
    program = (
        "from audit.cli import stopping\nwith stopping.ended_by_signals():\n    raise SystemExit(1)"
    )
    assert run_python("-c", program, timeout=60).returncode == 1
    done = run_python("-c", program.replace("SystemExit(1)", "ValueError"), timeout=60)
    assert (done.returncode, "ValueError" in done.stderr) == (1, True)
