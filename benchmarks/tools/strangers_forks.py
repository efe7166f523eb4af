"""Commands and trainings in forks of one process, which has loaded the libraries once.

A busy machine spends more on loading them than on a small scan. Each fork begins as fresh as a
process of its own: nothing is trained or scanned in the process that forks.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

LIBRARIES = ("torch", "datasets", "peft", "transformers", "audit.cli")
"""What commands and trainings load, where it is installed."""


def load_libraries() -> None:
    """Load what the forks will need."""
    for name in LIBRARIES:
        importlib.import_module(name)


def run_forked(work: Callable[[], int], log: Path | None = None) -> int:
    """Do a work in a fork, and return the exit code that it gives.

    Args:
        work: what the fork does; it gives the exit code.
        log: a file for all that the work prints; None: it prints where this process does.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os._exit(_in_fork(work, log))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _in_fork(work: Callable[[], int], log: Path | None) -> int:
    """Do the work where this process is the fork, and return the exit code; never raise."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if log is not None:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
    try:
        code = work()
    except BaseException:  # noqa: BLE001 (a fork must never go on as its parent)
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def command(arguments: Sequence[str]) -> int:
    """Run a command of docaudit, and return its exit code."""
    sys.argv = ["docaudit", *arguments]
    try:
        runpy.run_module("audit", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return _code_of(ended)
    return 0


def _code_of(ended: SystemExit) -> int:
    """Return the exit code that an end of the interpreter means."""
    if ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code
    print(ended.code, file=sys.stderr)
    return 1
