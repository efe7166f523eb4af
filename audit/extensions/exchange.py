"""One request over HTTP to a server that may misbehave.

It is bounded in time, in size, and in what it may say.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from threading import Condition, Thread
from typing import Any

SILENCE = 120.0
"""Seconds without a byte."""
LONGEST = 600.0
"""Seconds of a request and its reply, however the server spreads its bytes."""
MOST_BYTES = 4 * 2**20
"""Of a reply."""
_UNCLEAN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Controls, and halves of surrogate pairs, which no encoding writes."""


class BoundlessError(Exception):
    """The reply is larger or slower than any answer."""


def is_loopback(host: str) -> bool:
    """Test whether a host is this machine, by its name or number alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class HttpReply:
    """A reply to a request.

    Attributes:
        status: status of HTTP; 0: there was no reply.
        wait: the pause that is asked for, as the server writes it.
        content: the body.
        trouble: why there was no reply, without any word of the server.
    """

    status: int
    wait: str = ""
    content: bytes = field(default=b"", repr=False)
    trouble: str = ""


class _Watch:
    """Lets deadlines pass: one thread for all of them, begun with the first.

    A thread for each request would cost more than the request to a server that is near.
    """

    def __init__(self) -> None:
        """Start without deadlines; the watching thread begins with the first one."""
        self._changed = Condition()
        self._due: dict[_Deadline, float] = {}
        self._wakes = math.inf
        self._thread: Thread | None = None

    def begin(self, deadline: _Deadline, seconds: float) -> None:
        """Close a connection by its deadline after some seconds, unless `end` comes first."""
        due = time.monotonic() + seconds
        with self._changed:
            self._due[deadline] = due
            # A process that was forked has the object, but no thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._changed.notify()

    def end(self, deadline: _Deadline) -> None:
        """Stop watching a deadline: on return it has passed, or it never will."""
        with self._changed:
            self._due.pop(deadline, None)

    def _run(self) -> None:
        """Close, without end, connections whose deadline is due."""
        with self._changed:
            while True:
                now = time.monotonic()
                for deadline in [one for one, due in self._due.items() if due <= now]:
                    del self._due[deadline]
                    deadline.close()
                self._wakes = min(self._due.values(), default=math.inf)
                self._changed.wait(None if self._wakes == math.inf else self._wakes - now)


_WATCH = _Watch()


class _Deadline:
    """Closes a connection after some time, whatever waits for its bytes; a context manager.

    The client of the standard library reads headers, trailers and sizes of chunks in loops of its
    own, which end when the connection does.

    Attributes:
        has_passed: whether the time is over.

    Args:
        connected: the connection.
        seconds: until it is closed.
    """

    def __init__(self, connected: socket.socket, seconds: float) -> None:
        """Take a second handle of a connection, which is closed after these seconds."""
        # The handshake of TLS takes the socket over; a second handle stays ours.
        self._handle = connected.dup()
        self._seconds = seconds
        self.has_passed = False

    def __enter__(self) -> _Deadline:
        """Begin to count the seconds."""
        _WATCH.begin(self, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        """End the deadline, and let go of the handle."""
        _WATCH.end(self)
        self._handle.close()

    def close(self) -> None:
        """Shut the connection down, as its time is over."""
        self.has_passed = True
        with suppress(OSError):
            self._handle.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Origin:
    """A server that requests go to: no redirection is followed, and no proxy is asked.

    Attributes:
        host: name of the host in ASCII.
        port: port of the host; None: that of the scheme.
        encrypted: over TLS.
    """

    host: str
    port: int | None
    encrypted: bool

    def exchange(self, target: str, content: bytes | None, headers: Mapping[str, str]) -> HttpReply:
        """Send one request: a POST of the content, or a GET without any.

        Args:
            target: path of the address, in ASCII.
            content: what is sent.
            headers: headers of the request.

        Raises:
            BoundlessError: the reply is too large or too slow.
        """
        connection = self._connection()
        try:
            connected = socket.create_connection((self.host, connection.port), timeout=SILENCE)
        except OSError as error:
            return HttpReply(0, trouble=_trouble(error))
        with closing(connected), closing(connection), _Deadline(connected, LONGEST) as deadline:
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sock = self._encrypted(connected)
                connection.request(
                    "POST" if content is not None else "GET", target, content, dict(headers)
                )
                reply = _read_reply(connection)
            except (OSError, HTTPException) as error:
                reply = HttpReply(0, trouble=_trouble(error))
            # A connection that was closed ends a reply without a length as its own end does.
            if deadline.has_passed:
                raise BoundlessError
        return reply

    def _connection(self) -> HTTPConnection:
        """Return a new connection to the server, encrypted where its address says so."""
        if self.encrypted:
            return HTTPSConnection(self.host, self.port, context=self._tls)
        return HTTPConnection(self.host, self.port)

    def _encrypted(self, connected: socket.socket) -> socket.socket:
        """Return the socket, wrapped in TLS where the address says so."""
        if not self.encrypted:
            return connected
        return self._tls.wrap_socket(connected, server_hostname=self.host)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Return the settings of TLS, with the system's certificates, for HTTP/1.1 only."""
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _read_reply(connection: HTTPConnection) -> HttpReply:
    """Read the whole reply; refuse one of more than `MOST_BYTES`."""
    reply = connection.getresponse()
    received = bytearray()
    while part := reply.read1(2**16):
        received += part
        if len(received) > MOST_BYTES:
            raise BoundlessError
    return HttpReply(reply.status, reply.headers.get("Retry-After", ""), bytes(received))


def _trouble(error: Exception) -> str:
    """Return why there was no reply, in words that repeat nothing of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def cleaned(value: Any) -> Any:
    """Return a server's JSON with characters replaced that no text may hold.

    That is controls, and halves of surrogate pairs.
    """
    if isinstance(value, str):
        return _UNCLEAN.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    return value
