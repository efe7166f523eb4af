"""A scan in a process of its own that a test can kill, interrupt, or leave without room on the disk.

Its processes are forked from one that has imported torch and transformers already: a new one would take seconds each.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

ENOUGH = {"quick": 16, "standard": 16, "full": 16}
"""Candidates: few, with enough to do for a scan to be stopped on the way."""
IMPORTED = (
    "audit.workflows.scan",
    "audit.targets.encoders.target",
    "audit.report.html",
    "transformers.models.layoutlm",
)


class StoppableScan:
    """`docaudit` with these arguments, just begun.

    Args:
        arguments: what follows the command's name.
        room: the largest file that it can write, bytes; None: no limit.
    """

    def __init__(self, arguments: Sequence[str], room: int | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        self._output, said = context.Pipe(duplex=False)
        self.process = context.Process(target=_scan, args=(arguments, said, room))
        self.process.start()
        said.close()

    def ended(self) -> bool:
        return self.process.exitcode is not None

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self, seconds: float) -> tuple[int | None, str]:
        """Exit code, negative where a signal ended it, and all that was printed."""
        self.process.join(seconds)
        assert self.ended(), "it did not end in time"
        with os.fdopen(self._output.fileno(), "rb", closefd=False) as stream:
            return self.process.exitcode, stream.read().decode()


def _scan(arguments: Sequence[str], said: Connection, room: int | None) -> None:
    for descriptor in (1, 2):
        os.dup2(said.fileno(), descriptor)
    said.close()
    sys.stdout, sys.stderr = (open(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))  # noqa: SIM115
    # As a new process of Python has them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    from audit.attacks.reconstruction import attack
    from audit.cli import main
    from audit.report import files

    attack.N_CANDIDATES = ENOUGH
    files.pdf = lambda *_: b"%PDF-1.7"
    sys.argv = ["docaudit", *arguments]
    main()
