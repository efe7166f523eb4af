"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from audit.errors import EngineError


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to a neighbour of `path`, with file mode `mode`, and rename it there once it is on the disk.

    Raises:
        EngineError: the disk is full or the folder cannot be written; nothing is left behind.
    """
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise EngineError(f"{path}: {error.strerror}", "free some space or choose another --out") from None
