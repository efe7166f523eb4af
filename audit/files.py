"""Files written whole or not at all, and the sha256 of several together."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
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


def digest_of_files(digests: Mapping[str, str], base: str | None = None) -> str:
    """The sha256 of a checkpoint, over the names and the sha256 of its files.

    Args:
        digests: the sha256 of each file, by its name, in the order in which they count.
        base: the same of the model that an adapter was trained on.
    """
    whole = hashlib.sha256()
    for name, digest in digests.items():
        whole.update(name.encode() + b"\0" + bytes.fromhex(digest))
    if base is not None:
        whole.update(base.encode())
    return whole.hexdigest()
