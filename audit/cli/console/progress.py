"""Progress on standard error: a bar on a terminal, plain lines now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from rich.text import Text

from audit.cli.console.terminal import before_printing, duration, is_log, make_console, warn
from audit.printable import printable
from audit.progress import observed_by

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

T = TypeVar("T")
LOG_SECONDS = 10.0
"""A log gets one line of progress in so many seconds."""
SHOWN_SECONDS = 2.0
"""A stage that was over sooner leaves no line."""


class Reporter:
    """A `Progress` that draws a bar on a terminal, and prints lines elsewhere.

    Use as a context manager: within it, it observes everything that reports progress (`audit.progress`). Everything
    goes to standard error, so that standard output stays the verdict's.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False) -> None:
        self._clock, self._quiet, self._log = clock, quiet, is_log(stderr=True)
        self._name, self._total, self._done = "", 0, 0
        self._began = self._printed = clock()
        self._bars: Bars | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._held.enter_context(observed_by(self))
        before_printing.append(self._rest)
        self._held.callback(before_printing.remove, self._rest)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self._end()
        self._rest()
        self._held.close()

    def follow(self, steps: Iterable[str | T]) -> Iterator[T]:
        """Print the warnings among the steps of a workflow as they come, and pass on its results."""
        for step in steps:
            if isinstance(step, str):
                warn(step)
            else:
                yield step

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""
        self._end()
        self._name, self._total, self._done = printable(name), total, 0
        self._began = self._printed = self._clock()
        if not (self._quiet or self._log):
            self._draw()

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self._done += steps
        if self._bars is not None:
            self._bars.advance(self._bars.task_ids[0], steps)
        elif self._log and self._done != self._total and self._clock() - self._printed >= LOG_SECONDS:
            self._print(self._line())

    def _line(self) -> str:
        seconds = self._clock() - self._began
        counted = f"{self._done:,} of {self._total:,}, " if self._total else ""
        left = ""
        if 0.1 * self._total <= self._done < self._total:
            left = f", about {duration(seconds * (self._total - self._done) / self._done)} left"
        return f"{self._name}: {counted}{duration(seconds)}{left}"

    def _end(self) -> None:
        """Leave a line of a stage that took its time."""
        self._rest()
        if self._name and self._clock() - self._began >= SHOWN_SECONDS:
            self._print(self._line())
        self._name = ""

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        if not self._quiet:
            make_console(stderr=True).print(Text(text), soft_wrap=True)

    def _draw(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        counted = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Remaining())
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            *(counted if self._total else (TimeElapsedColumn(),)),
            console=make_console(stderr=True, interrupts=False),
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bars.add_task(self._name, total=self._total or None)
        self._bars.start()

    def _rest(self) -> None:
        """Take the bar away, so that something else can be printed; the next stage draws another."""
        bars, self._bars = self._bars, None
        if bars is not None:
            bars.stop()
