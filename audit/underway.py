"""Files and folders that are being filled, marked by a lock that ends with its process, however that one ends."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def mark_underway(path: Path) -> Iterator[None]:
    """Mark a file or folder as being filled by this process, until the context or the process ends.

    Where the file system has no such locks it stays unmarked, and `remove_abandoned` leaves it alone.
    """
    handle = _lock(path)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove those of these files and folders that no process is filling: one that was killed left them."""
    for path in paths:
        handle = _lock(path)
        if handle is None:
            continue
        try:
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def _lock(path: Path) -> int | None:
    """An open handle that holds the lock; None where another has it, or where there are none."""
    if sys.platform == "win32":
        return None
    try:
        # Never the target of a link, and no wait for the other end of a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
