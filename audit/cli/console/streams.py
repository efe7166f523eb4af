"""Standard streams that may be closed, full or left by their reader, without a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from audit.errors import EngineError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT, _STDERR = 1, 2


class _Stream(io.FileIO):
    """A standard stream whose reader may leave, as `head` does: the exit code stays the verdict's."""

    def write(self, data: ReadableBuffer, /) -> int:
        """See `io.FileIO.write`.

        Raises:
            EngineError: standard output cannot be written; what follows goes to nobody.
        """
        try:
            return super().write(data) or 0
        except OSError as error:
            _point_to_nobody(self.fileno(), os.O_WRONLY)
            if self.fileno() == _STDOUT and not isinstance(error, BrokenPipeError):
                told = "closed" if error.errno == errno.EBADF else error.strerror
                raise EngineError(f"standard output: {told}", "send it to where it can be written") from None
            return memoryview(data).nbytes


def guard_streams() -> None:
    """Let standard output that cannot be written be an `EngineError`, and what standard error cannot hold be lost."""
    sys.stdout = _guarded(sys.stdout, _STDOUT)
    sys.stderr = _guarded(sys.stderr, _STDERR)


def _guarded(stream: TextIO | None, descriptor: int) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        # The descriptor is taken, so that no file that is opened later is written in the stream's place.
        _point_to_nobody(descriptor, os.O_RDONLY)
        return io.TextIOWrapper(io.BufferedWriter(_Stream(descriptor, "w", closefd=False)), "utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(descriptor, "w", closefd=False)),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _point_to_nobody(descriptor: int, mode: int) -> None:
    nobody = os.open(os.devnull, mode)
    if nobody != descriptor:
        os.dup2(nobody, descriptor)
        os.close(nobody)
