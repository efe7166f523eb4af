"""Temporary folders of docaudit, which a process of their own removes once their owner has ended (`audit.files`)."""

import time
from pathlib import Path


def left_in(folder: Path, names: str = "*", seconds: float = 30.0) -> list[Path]:
    """List what is left in a folder after as many seconds at most."""
    end = time.monotonic() + seconds
    while (left := [*folder.glob(names)]) and time.monotonic() < end:
        time.sleep(0.05)
    return left
