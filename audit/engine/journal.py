"""Outcomes on disk: one JSON line an outcome, so that a killed scan goes on where it was."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.engine.interface import Json
from audit.errors import EngineError

SYNC_SECONDS = 1.0
"""How much of a scan a failure of power may cost. What ends the process alone, `kill -9` too, costs
nothing."""


class Journal:
    """The outcomes of one attack with one set of parameters on one target and corpus.

    The file's name says what it belongs to (see `workflows.execution`); resuming is "the file is
    there". A torn last line is cut off, an id that is already known is ignored. Each line ends with
    a check sum, over the file's name too: an outcome that is not what was written, or that was
    written for another model, is ignored, so that its trial is tried again and no damage is read as
    a result. The sum tells accidents and careless edits; it is no seal.

    Args:
        path: the file; its folder must exist.
        fresh: start anew, ignoring what is there.

    Raises:
        EngineError: the file cannot be read or written, or a line other than the last is damaged.
    """

    _synced = 0.0

    def __init__(self, path: Path, fresh: bool = False) -> None:
        """Read the outcomes of the file `path`, or remove it first where `fresh`."""
        self.path = path
        try:
            if fresh:
                path.unlink(missing_ok=True)
            self.outcomes = self._read() if path.exists() else {}
        except OSError as error:
            raise EngineError(f"{path}: {error.strerror}") from None

    def _read(self) -> dict[str, Json]:
        """Return the outcomes by trial id, and cut off a last line without its end."""
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            with self.path.open("r+b") as stream:
                stream.truncate(len(complete))
        outcomes: dict[str, Json] = {}
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                entry = json.loads(line)
                trial_id = entry["id"]
                outcome = entry["outcome"]
                if not isinstance(trial_id, str):
                    raise TypeError("an id is a text")
                if entry.get("check") == self._check_sum(trial_id, outcome):
                    outcomes.setdefault(trial_id, outcome)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise EngineError(
                    f"{self.path}:{number}: damaged journal", "scan again with --fresh"
                ) from None
        return outcomes

    def append(self, trial_id: str, outcome: Json) -> None:
        """Write a trial's outcome to the file; one whose id has an outcome is ignored.

        It outlives the process from then on, and the system from the next `sync` on, `SYNC_SECONDS`
        later at most as long as outcomes come.
        """
        if trial_id in self.outcomes:
            return
        # Through JSON, so that a resumed scan sees exactly what an uninterrupted one does.
        stored = json.loads(json.dumps(outcome, allow_nan=False))
        entry = {"id": trial_id, "outcome": stored, "check": self._check_sum(trial_id, stored)}
        line = json.dumps(entry) + "\n"
        self._write(line.encode(), sync=time.monotonic() - self._synced >= SYNC_SECONDS)
        self.outcomes[trial_id] = stored

    def sync(self) -> None:
        """Flush all outcomes to the disk."""
        if self.outcomes:
            self._write(b"", sync=True)

    def _write(self, text: bytes, sync: bool) -> None:
        """Append bytes to the file, and flush them to the disk where `sync`."""
        try:
            # Its owner alone can read it, from its first byte on.
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "ab") as stream:
                stream.write(text)
                stream.flush()
                if sync:
                    os.fsync(stream.fileno())
                    self._synced = time.monotonic()
        except OSError as error:
            raise EngineError(
                f"{self.path}: {error.strerror}", "free some space and run the scan again"
            ) from None

    def _check_sum(self, trial_id: str, outcome: Json) -> int:
        """Return the CRC-32 of an entry with the file's name, as JSON writes them."""
        return zlib.crc32(json.dumps([self.path.name, trial_id, outcome]).encode())


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder within, so that no other scan uses it.

    Raises:
        EngineError: another scan holds it.
    """
    # A gate reads records without it.
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise EngineError(
            f"{folder}: another scan is writing here", "wait for it, or choose another --out"
        ) from None
