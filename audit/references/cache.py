"""Checkpoints that training leaves in a folder: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from audit.errors import EngineError
from audit.underway import mark_underway, remove_abandoned

UNFINISHED = "unfinished-"
"""What the names of folders begin with that are being filled, or were when the process was killed."""


def key_of(depends_on: object) -> str:
    """A short name for everything that a trained model depends on; `depends_on` is what `json.dumps` takes."""
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:16]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, filled by `make` unless it is there already.

    Args:
        folder: named after everything its content depends on.
        make: fills the empty folder that it is given; when it breaks down, nothing is left, and what is left when the
            process is killed goes with the next one that is filled.

    Raises:
        EngineError: the disk does not take it.
    """
    if folder.is_dir():
        return folder
    cache = folder.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        remove_abandoned(cache.glob(f"{UNFINISHED}*"))
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache))
        try:
            with mark_underway(unfinished):
                make(unfinished)
                os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{cache}: {reason}", "free some space or choose another folder") from None
    return folder
