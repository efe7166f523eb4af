"""The client of the Hub.

It is held to encrypted lines and to bounds of time and size, whatever a Hub says.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from audit.errors import UsageError
from audit.extensions.exchange import is_loopback

SILENCE = 60.0
"""Seconds without a byte."""
LONGEST = 120.0
"""Seconds of a request and its reply, beside those that its bytes take at `SLOWEST`."""
SLOWEST = 10_000
"""Bytes a second that a reply has at least."""
MOST_BYTES = 64 * 2**20
"""Bytes of all replies, before files are announced."""
MOST_PAGES = 1_000
"""Pages of lists of files."""
LONGEST_PAUSE = 300
"""Seconds that a Hub may ask for between two tries."""
_LOOK = 0.2
"""Seconds between two looks at the replies that are on their way."""
_PAUSES = ("Retry-After", "RateLimit")
GIVE_FOLDER = "check HF_ENDPOINT, or run hf download NAME --local-dir DIR and give DIR"
"""What helps where the Hub does not keep to the bounds, or says what cannot be."""


def refuse_open_line(address: str, endpoint: str = "") -> None:
    """Refuse to ask another machine than this one without encryption.

    Args:
        address: address that is asked.
        endpoint: the Hub, where it was permitted; nothing else of this machine is then asked
            without encryption.

    Raises:
        UsageError: the address begins with something else than https, and is not of this machine.
    """
    try:
        url = urlsplit(address)
        own = urlsplit(endpoint or address)
        is_own = (url.scheme, url.hostname, url.port) == (own.scheme, own.hostname, own.port)
        permitted = url.scheme == "https" or (is_own and is_loopback(url.hostname or ""))
    except ValueError:
        permitted = False
    if not permitted:
        raise UsageError(
            "the Hub, or where it leads, is not asked over https",
            "set HF_ENDPOINT to an https address",
        )


def _is_long(pause: str) -> bool:
    """Test whether a Retry-After header asks for a longer pause than is permitted."""
    numbers = re.findall("[0-9]+", pause)
    return any(len(number) > 9 or int(number) > LONGEST_PAUSE for number in numbers)


@dataclass(eq=False)
class _Request:
    """A request on its way.

    Attributes:
        began: seconds of the clock.
        response: once its head is there.
    """

    began: float
    response: Any = None

    @property
    def n_bytes(self) -> int:
        """Return the number of bytes received of the reply."""
        return 0 if self.response is None else int(self.response.num_bytes_downloaded)

    @property
    def is_read(self) -> bool:
        """Test whether the reply was read to its end."""
        return self.response is not None and self.response.is_closed

    @property
    def is_slow(self) -> bool:
        """Test whether the reply takes longer than its bytes permit."""
        return monotonic() - self.began > LONGEST + self.n_bytes / SLOWEST


class Bounds:
    """Bound what a download takes: where it takes more, all connections are closed.

    A thread looks at the replies now and then.

    Args:
        endpoint: the address of the Hub.
    """

    def __init__(self, endpoint: str) -> None:
        """Start with nothing asked of the endpoint, and the least permitted bytes."""
        self._endpoint = endpoint
        self._most = MOST_BYTES
        self._read = 0
        self._n_pages = 0
        self._requests: set[_Request] = set()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = Lock()
        self._ended = Event()
        self.refusal: UsageError | None = None

    def announce(self, n_bytes: int) -> None:
        """Permit the bytes of announced files, twice, as a file may be tried again."""
        self._most += 2 * n_bytes

    def before(self, request: Any) -> None:
        """Refuse a request that is not permitted, and bound its silences; a client's hook."""
        if self.refusal is not None:
            raise self.refusal
        try:
            refuse_open_line(str(request.url), self._endpoint)
        except UsageError as refusal:
            self.refusal = refusal
            raise
        kept = request.extensions.get("timeout") or {}
        silences = {
            name: min(kept.get(name) or SILENCE, SILENCE)
            for name in ("connect", "read", "write", "pool")
        }
        own = _Request(monotonic())
        with self._lock:
            self._requests.add(own)
        request.extensions = {
            "timeout": silences,
            "trace": partial(self._trace, own),
            "docaudit": own,
        }
        # What is packed has no size that could be bounded before it is unpacked.
        request.headers["Accept-Encoding"] = "identity"

    def after(self, response: Any) -> None:
        """Refuse a reply by its head, and drop long pauses it asks for; a hook of the client."""
        response.request.extensions["docaudit"].response = response
        if response.headers.get("Content-Encoding", "identity") != "identity":
            self._refuse("it packs what was asked for unpacked")
        self._n_pages += "next" in response.links
        if self._n_pages > MOST_PAGES:
            self._refuse("its list of files does not end")
        for name in _PAUSES:
            if _is_long(response.headers.get(name, "")):
                del response.headers[name]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch size and speed of the replies in a thread until the block ends."""
        watch = Thread(target=self._watch, daemon=True)
        watch.start()
        try:
            yield
        finally:
            self._ended.set()
            watch.join()

    def _refuse(self, trouble: str) -> None:
        """Note the refusal to ask the Hub any further, and raise it."""
        self.refusal = UsageError(f"the Hub is no longer asked: {trouble}", GIVE_FOLDER)
        raise self.refusal

    def _trace(self, own: _Request, event: str, details: dict[str, Any]) -> None:
        """Keep the connection of a request, and forget the request once it failed."""
        if event.endswith(".failed"):
            with self._lock:
                self._requests.discard(own)
        elif event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._sockets.add(details["return_value"].get_extra_info("socket"))

    def _watch(self) -> None:
        """End all connections once a reply is too slow or all are too large, until told to end."""
        while not self._ended.wait(_LOOK):
            self._forget_what_is_read()
            with self._lock:
                n_bytes = self._read + sum(request.n_bytes for request in self._requests)
                is_slow = any(request.is_slow for request in self._requests)
            if is_slow:
                self._refuse_and_close("a reply takes too long")
            elif n_bytes > self._most:
                self._refuse_and_close("it sends more than it announced")

    def _forget_what_is_read(self) -> None:
        """Forget requests that were read whole, and add up their bytes."""
        with self._lock:
            finished = {request for request in self._requests if request.is_read}
            self._read += sum(request.n_bytes for request in finished)
            self._requests -= finished

    def _refuse_and_close(self, trouble: str) -> None:
        """Note why the Hub is no longer asked, and close all connections."""
        self.refusal = UsageError(f"the Hub is no longer asked: {trouble}", GIVE_FOLDER)
        self._close_sockets()

    def _close_sockets(self) -> None:
        """Shut down the sockets of all requests."""
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            with suppress(OSError, ValueError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def bounded(endpoint: str) -> Iterator[Bounds]:
    """Hold every client of the Hub that the block makes to the bounds.

    Args:
        endpoint: the address of the Hub.

    Raises:
        UsageError: the Hub is not asked over https, leads elsewhere, or does not keep to the
            bounds.
    """
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils import _http

    refuse_open_line(endpoint)
    bounds = Bounds(endpoint)
    usual: Callable[[], Any] = _http._GLOBAL_CLIENT_FACTORY

    def own_client() -> Any:
        """Return the Hub's usual client, with the bounds hooked to each request and reply."""
        client = usual()
        hooks = client.event_hooks
        before = hooks.get("request", [])
        after = hooks.get("response", [])
        client.event_hooks = {
            "request": [bounds.before, *before],
            "response": [bounds.after, *after],
        }
        return client

    # The client makes another one of itself after an error of TLS: hooks of one client would not
    # last.
    set_client_factory(own_client)
    try:
        with _plain_and_quiet(), bounds.watched():
            yield bounds
    except Exception as error:
        # The client makes an error of its own of it.
        if bounds.refusal is not None:
            raise bounds.refusal from error
        raise
    finally:
        set_client_factory(usual)


@contextmanager
def _plain_and_quiet() -> Iterator[None]:
    """Let the block fetch files by plain HTTP only, send no telemetry and print nothing.

    Draw progress on a terminal alone.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils.logging import get_verbosity, set_verbosity
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    loudness = get_verbosity()
    had_bars = not are_progress_bars_disabled()
    # Xet is another client, written in Rust, which asks wherever the Hub sends it.
    xet = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = True
    # The Hub may name variables of the environment, and the client then says which of them are set.
    telemetry = constants.HF_HUB_DISABLE_TELEMETRY
    constants.HF_HUB_DISABLE_TELEMETRY = True
    set_verbosity(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = xet
        constants.HF_HUB_DISABLE_TELEMETRY = telemetry
        set_verbosity(loudness)
        if had_bars:
            enable_progress_bars()
