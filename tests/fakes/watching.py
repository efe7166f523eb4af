"""What a block of code opens and connects to, as Python's audit hook and a listener on this machine see it."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CONNECTING = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg", "urllib.Request")


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
    """Counts connections to a port of this machine; a context manager.

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
            connection.close()
