"""How long something takes, with an end to it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _TimeUpError(Exception):
    """What is timed takes longer than there is time for."""


def seconds_of(run: Callable[[], object], limit: float) -> float | None:
    """Time a run; None when it takes more than `limit` seconds, at which it is stopped.

    The clock rings inside of it, for a single pass of a large model may take minutes, between two operations of Python.
    Where there is no such clock (Windows, a thread that is not the main one) what was begun is finished.
    """
    began = time.perf_counter()
    try:
        with _alarm(limit):
            run()
    except _TimeUpError:
        return None
    return time.perf_counter() - began


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `_TimeUpError` in what takes longer."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
