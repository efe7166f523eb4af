"""Progress of long work, told upwards: to what a workflow was given, or to whoever observes the whole command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Told how far a long run is; the command line draws it, tests are silent."""

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage of `total` steps, 0 where nobody counts them; the one before it is over."""
        ...

    def advance(self, steps: int = 1) -> None:
        """Count steps that are done."""
        ...


class Silent:
    """A `Progress` that says nothing."""

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""


SILENT: Progress = Silent()
_OBSERVER: ContextVar[Progress] = ContextVar("observer", default=SILENT)


@contextmanager
def observed_by(observer: Progress) -> Iterator[None]:
    """Tell an observer of the loops that `steps` marks, however deep they lie."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def steps(name: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Pass on the items of a loop, and tell the observer of each that is done.

    Args:
        name: of the stage.
        items: of the loop.
        total: how many there are.
    """
    observer = _OBSERVER.get()
    observer.stage(name, total)
    for item in items:
        yield item
        observer.advance()


def observer() -> Progress:
    """Find who observes this command; nobody in a test or a worker."""
    return _OBSERVER.get()
