"""What a block of code opens and connects to, as Python's audit hook and a listener on this machine see it."""

import ctypes
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CONNECTING = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.sendto",
    "socket.sendmsg",
    "urllib.Request",
)


@dataclass
class Seen:
    """Events of a block.

    Attributes:
        connections: names of events of the network with their arguments.
        opened: paths of opened files.
    """

    connections: list[str] = field(default_factory=list)
    opened: set[Path] = field(default_factory=set)


_watching: list[Seen] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in _CONNECTING:
        _watching[-1].connections.append(f"{event} {arguments!r}")
    elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _watching[-1].opened.add(Path(os.fsdecode(arguments[0])))


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[Seen]:
    """Record what the block opens and connects to, in all threads of this process."""
    seen = Seen()
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


class Listener:
    """Counts connections to a port of this machine, and closes them; a context manager.

    A listener that answers overrides `answer`, which then closes the connection.

    Attributes:
        port: it listens at.
        accepted: the number of connections so far.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.accepted = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        """Answer a connection: with nothing."""
        connection.close()


_IN_OPEN = 0x20
_IN_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
"""The head of an event of inotify: watch, mask, cookie, length of the name that follows."""


@contextmanager
def opened_below(root: Path) -> Iterator[set[str]]:
    """Collect which files below a folder the block opens, in Python or in compiled code, by their paths within it.

    The kernel tells of them (Linux alone); elsewhere only Python's own openings are seen.
    """
    names: set[str] = set()
    if sys.platform != "linux":
        with watched() as seen:
            yield names
        names.update(
            path.relative_to(root).as_posix() for path in seen.opened if path.is_relative_to(root)
        )
        return
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_NONBLOCK)
    assert handle >= 0, os.strerror(ctypes.get_errno())
    try:
        folders = {}
        for folder in (
            root,
            *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink()),
        ):
            folders[libc.inotify_add_watch(handle, os.fsencode(folder), _IN_OPEN)] = folder
        yield names
        with suppress(BlockingIOError):
            while events := os.read(handle, 2**16):
                names.update(_names_of(events, folders, root))
    finally:
        os.close(handle)


def _names_of(events: bytes, folders: Mapping[int, Path], root: Path) -> Iterator[str]:
    """Yield the opened files that a block of events tells of."""
    place = 0
    while place < len(events):
        watch, mask, _, length = _EVENT.unpack_from(events, place)
        place += _EVENT.size
        name = os.fsdecode(events[place : place + length].rstrip(b"\0"))
        place += length
        if name and not mask & _IN_ISDIR:
            yield (folders[watch] / name).relative_to(root).as_posix()
