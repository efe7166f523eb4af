"""A signal ends a command wherever it arrives: also in a finaliser, a callback or an import that swallows it."""

import signal

import pytest
from commands import run_python

LISTENING = """
import os, signal, sys, time
from audit.cli import stopping
number = int(sys.argv[1])
def arrive():
    os.kill(os.getpid(), number)
    sum(range(1000))
# Whoever is started in the background by a shell gets an ignored Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
stopping.listen()
try:
    {body}
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.01)
    print("went on to the end")
except KeyboardInterrupt:
    sys.exit(130)
finally:
    print("cleaned up")
"""
"""A program that listens to signals while `body` runs, and cleans up."""
TURNED = """
import os, signal, sys
from audit.cli import stopping
signal.signal(signal.SIGINT, signal.default_int_handler)
with stopping.ended_by_signals():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        sum(range(1000))
    except BaseException as error:
        {ended}
"""
"""A program that turns what a signal raises into another end."""
LEAVING = """
import atexit, os, signal, sys, time
from audit.cli import stopping
class Owner:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))
        time.sleep(0.2)
class Slow:
    def __del__(self):
        time.sleep(0.2)
slow = Slow()
atexit.register(lambda: globals().pop("owner", None))
with stopping.ended_by_signals():
    {body}
"""
"""A program in which a signal arrives in a finaliser, and slowly, as the interpreter ends."""
SWALLOWED = {
    "a finaliser": """
class Owner:
    def __del__(self):
        arrive()
        sum(range(1000))
del_me = Owner()
del del_me""",
    "an import": r"""
import pathlib, tempfile
folder = tempfile.mkdtemp()
text = "import __main__\ntry:\n    __main__.arrive()\nexcept:\n    pass\n"
pathlib.Path(folder, "swallows.py").write_text(text)
sys.path.insert(0, folder)
import swallows""",
    "an import that takes long": r"""
import pathlib, tempfile
folder = tempfile.mkdtemp()
text = "import __main__, time\n__main__.arrive()\nwhile True: time.sleep(0.01)\n"
pathlib.Path(folder, "never_ends.py").write_text(text)
sys.path.insert(0, folder)
stopping._LONGEST = 0.5
import never_ends""",
    "nothing": "arrive()",
}
"""What swallows an exception, by where a signal arrives."""


@pytest.mark.parametrize("place", SWALLOWED)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_heard_wherever_it_arrives(place, sent, code):
    program = LISTENING.format(body=SWALLOWED[place].replace("\n", "\n    "))
    done = run_python("-c", program, int(sent), timeout=60)
    assert (done.returncode, done.stdout) == (code, "cleaned up\n"), done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("run the same command again to go on") == (sent == signal.SIGTERM)


@pytest.mark.parametrize("ended", ["raise ValueError('no schema') from error", "sys.exit(1)"])
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_a_library_makes_of_a_signal_ends_as_the_signal_does(ended, sent, code):
    done = run_python("-c", TURNED.format(ended=ended), int(sent), timeout=60)
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
    done = run_python("-c", LEAVING.format(body=body), timeout=60)
    assert done.returncode == code, done.stderr


def test_errors_without_a_signal_stay_what_they_are():
    program = (
        "from audit.cli import stopping\nwith stopping.ended_by_signals():\n    raise SystemExit(1)"
    )
    assert run_python("-c", program, timeout=60).returncode == 1
    done = run_python("-c", program.replace("SystemExit(1)", "ValueError"), timeout=60)
    assert (done.returncode, "ValueError" in done.stderr) == (1, True)
