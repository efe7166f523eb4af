"""Temporary folders of docaudit, which a process of their own removes once their owner has ended (`audit.files`)."""

import time
from pathlib import Path


def left_in(folder: Path, names: str = "*", seconds: float = 30.0, told: str = "") -> list[Path]:
    """List what is left in a folder after as many seconds at most.

    Args:
        folder: of temporary files.
        names: a pattern of the names that are looked for.
        seconds: until the last look.
        told: what a command printed; what it names there was left on purpose.
    """
    end = time.monotonic() + seconds
    while True:
        left = [path for path in folder.glob(names) if path.name not in told]
        if not left or time.monotonic() >= end:
            return left
        time.sleep(0.05)
