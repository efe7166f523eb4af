"""Progress of long work, reported upwards.

To what a workflow was given, or to whoever observes the whole command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class Progress:
    """Receives how far a long run is; the command line draws it, this one says nothing."""

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage of `total` steps, 0 where nobody counts them; the one before it is over."""

    def expect(self, steps: int) -> None:
        """Expect so many steps of later stages; the time left of the present one counts them."""

    def advance(self, steps: int = 1) -> None:
        """Count steps that are done."""


SILENT = Progress()
_OBSERVER: ContextVar[Progress] = ContextVar("observer", default=SILENT)


@contextmanager
def observed_by(observer: Progress) -> Iterator[None]:
    """Report the loops that `steps` marks to an observer, however deep they lie."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def steps(name: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield the items of a loop, and report each completed item to the observer.

    Args:
        name: name of the stage.
        items: items of the loop.
        total: number of items.
    """
    observer = _OBSERVER.get()
    observer.stage(name, total)
    for item in items:
        yield item
        observer.advance()


def observer() -> Progress:
    """Return the observer of this command; a silent one in tests and workers."""
    return _OBSERVER.get()
