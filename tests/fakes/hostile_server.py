"""A process that runs docaudit as its users do, each time in a child of its own.

A child begins with all modules imported, takes milliseconds, and can be killed, run out of memory
or crash alone. A line of JSON asks: `folder` to stand in, `arguments` of docaudit, `scratch` for
what is printed and for temporary files, `warm` to run in this process instead, which imports what
later children need. A line of JSON answers.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

SECONDS = 20
"""Of the processor that a command may take."""
IDLE = 12
"""Seconds that a command may wait for something, however long others keep the machine."""
MORE_MEMORY = 1_000_000_000
"""Bytes of address space beyond those that the modules take."""
LARGEST_FILE = 200_000_000
LONGEST_PAUSE = 301
"""Seconds that the client of the Hub may sleep, which are shortened."""
CONNECTING = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"})
"""Events of Python's audit hook that no command may cause."""
OUTSIDE = "/etc/passwd"
"""A file that hostile values name, and that no command may open."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: its exit code; negative: the signal that ended it.
        stdout: all that it printed.
        stderr: the same of standard error.
        seconds: of processor time.
        endless: it did not end and was killed: it took too long, or waited for what never came.
        reached: what it connected to or opened outside its folder.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    endless: bool
    reached: str = ""


class Server:
    """The other side: asks a process of this file; a context manager.

    Args:
        more: variables of the environment of all commands.
    """

    def __init__(self, more: Mapping[str, str] = MappingProxyType({})) -> None:
        here = Path(__file__).resolve()
        places = [str(here.parents[2]), str(here.parent), os.environ.get("PYTHONPATH", "")]
        quiet = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        plain = {
            name: value
            for name, value in os.environ.items()
            if name not in ("COLUMNS", "FORCE_COLOR")
        }
        self._process = subprocess.Popen(
            [sys.executable, str(here)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **plain,
                **quiet,
                "PYTHONPATH": os.pathsep.join(places),
                "HF_HUB_OFFLINE": "1",
                **more,
            },
        )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        scratch: Path,
        *,
        warm: bool = False,
        drawn: bool = False,
    ) -> Ended:
        """Run docaudit; PDFs are drawn only where that is asked for, which takes seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "folder": str(folder),
            "arguments": arguments,
            "scratch": str(scratch),
            "warm": warm,
            "drawn": drawn,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process that runs docaudit has ended"
        printed = [
            (scratch / name).read_bytes().decode("utf-8", "replace")
            for name in ("stdout", "stderr")
        ]
        answer = json.loads(line)
        reached = scratch / "reached"
        told = reached.read_text() if reached.is_file() else ""
        return Ended(answer["code"], *printed, answer["seconds"], answer["endless"], told)


def _serve() -> None:
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    import audit.cli  # noqa: F401 - every child has it

    for line in requests:
        request = json.loads(line)
        answers.write(json.dumps(_warm(request) if request["warm"] else _in_child(request)) + "\n")
        answers.flush()


def _warm(request: dict[str, Any]) -> dict[str, Any]:
    """Run in this process, and leave the command line as it was."""
    from audit.cli import app

    commands = app.registered_commands
    groups = app.registered_groups
    streams = (sys.stdout, sys.stderr)
    code = _docaudit(request)
    app.registered_commands = commands
    app.registered_groups = groups
    sys.stdout, sys.stderr = streams
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return {"code": code, "seconds": 0.0, "endless": False}


def _in_child(request: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            _limit()
            # A module that a case is the first to import is compiled, which is no work of docaudit.
            sys.dont_write_bytecode = True
            _watch(Path(request["scratch"]) / "reached", request)
            os._exit(_docaudit(request))
        finally:
            os._exit(70)
    endless = _wait(child)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {
        "code": code,
        "seconds": used.ru_utime + used.ru_stime,
        "endless": endless or code == -signal.SIGXCPU,
    }


def _wait(child: int) -> bool:
    """Wait for the end of a child; one that does nothing for too long is killed, which is True."""
    ended = os.pidfd_open(child)
    idle = 0
    older = 0
    while idle < IDLE:
        if select.select([ended], [], [], 1)[0]:
            os.close(ended)
            return False
        state, used = _use_of(child)
        idle = idle + 1 if state == "S" and used == older else 0
        older = used
    os.kill(child, signal.SIGKILL)
    os.close(ended)
    return True


def _use_of(process: int) -> tuple[str, int]:
    """The state of a process, and the ticks of the processor that it and its children took."""
    place = Path("/proc", str(process))
    state = (place / "stat").read_text().rpartition(") ")[2].split()
    used = int(state[11]) + int(state[12])
    for child in (place / "task" / str(process) / "children").read_text().split():
        with suppress(OSError):
            used += _use_of(int(child))[1]
    return state[0], used


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def _watch(told: Path, request: Mapping[str, Any]) -> None:
    """Write down what this process connects to, and what it opens or writes outside of its folders."""
    within = (
        request["folder"],
        request["scratch"],
        os.environ.get("HF_HOME", request["folder"]),
        "/dev/",
        "/proc/",
    )

    def is_outside(place: object, flags: object) -> bool:
        if place == OUTSIDE:
            return True
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return (
            bool(writes)
            and isinstance(place, str)
            and not os.path.abspath(place).startswith(within)
        )

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CONNECTING or (event == "open" and is_outside(arguments[0], arguments[2])):
            descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(descriptor, f"{event} {arguments!r}\n".encode("utf-8", "replace"))
            os.close(descriptor)

    sys.addaudithook(hook)


def _hurry() -> None:
    """Shorten what the client of the Hub waits for: seconds of silence, of a slow reply, and between two tries."""
    import time

    import audit.extensions.hub_client

    audit.extensions.hub_client.SILENCE = 0.5
    audit.extensions.hub_client.LONGEST = 1.5
    whole = time.sleep
    # A longer pause than its own is one that the Hub asks for.
    time.sleep = lambda seconds: whole(min(seconds, 0.01) if seconds <= LONGEST_PAUSE else seconds)


def _docaudit(request: dict[str, Any]) -> int:
    """Run `docaudit ARGUMENTS` with its streams in files, and give its exit code as Python would."""
    scratch = Path(request["scratch"])
    os.chdir(request["folder"])
    os.environ["TMPDIR"] = str(scratch / "temporary")
    import tempfile

    tempfile.tempdir = None
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        there = os.open(scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(there, descriptor)
        os.close(there)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = os.fdopen(os.dup(1), "w")
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    sys.argv = ["docaudit", *request["arguments"]]
    if not request["drawn"]:
        import audit.report.files

        audit.report.files.pdf = lambda *_: b"%PDF-1.7\n"
    if any(argument.startswith("http://127.0.0.1") for argument in request["arguments"]):
        import audit.extensions.remote

        audit.extensions.remote.PAUSES = (0.0, 0.0)
    if any(argument.startswith("hf:") for argument in request["arguments"]):
        _hurry()
    from audit.cli import main

    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python itself ends in one
        traceback.print_exc(file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 0 if code is None else 1


if __name__ == "__main__":
    _serve()
