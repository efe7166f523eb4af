"""A temporary folder that nobody else can read and that goes when its process does, whatever ends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

# Waits until its standard input ends, which it does with the process at the other end, however that one ends; then
# removes the folder, patiently, as others may still write there. Forks first: Ray kills the children of its workers.
_REMOVES = """
import os, shutil, sys, time
if os.fork():
    os._exit(0)
sys.stdin.read()
for _ in range(50):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.2)
"""


class PrivateFolder:
    """A new folder of mode 0700, removed on leaving the context, or when this process ends in any way.

    Args:
        within: where it goes; None: the system's folder for temporary files.

    Attributes:
        path: where it is.
    """

    def __init__(self, within: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="docaudit-", dir=within))
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REMOVES, str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._watcher.wait()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def __enter__(self) -> Path:
        """The folder."""
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the folder."""
        self.remove()

    def remove(self) -> None:
        """Remove it now; it may have been removed before."""
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
