"""Lines and progress on a terminal or in a log: folded and escaped, on streams that may close."""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from audit.beside import write_beside
from audit.errors import DocauditError, EngineError, printable
from audit.failures import DEBUG, with_story
from audit.progress import Progress, observed_by

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.progress import Progress as Bars


LOG_WIDTH = 200
MOST_PROBLEMS = 200
"""Problems of one error that are printed."""
_OPTION = re.compile(r" (?P<option>--[\w-]+) (?=[^\s-])")
"""An option before its value."""
_JOINT = "\N{WORD JOINER}"
"""Stands for a blank at which no line is broken."""
before_printing: list[Callable[[], None]] = []
"""Called before a line is printed: a bar of progress is taken away."""


def is_log(*, stderr: bool = False) -> bool:
    """Test whether a stream is read as a log: it is no terminal, or the environment says so."""
    if os.environ.get("NO_COLOR") or os.environ.get("CI") not in (None, "", "false"):
        return True
    return os.environ.get("TERM") == "dumb" or not (sys.stderr if stderr else sys.stdout).isatty()


def make_console(*, stderr: bool = False, interrupts: bool = True) -> Console:
    """Make a console.

    In a log, which has no width of its own, lines are long, so that names of metrics stay whole.

    Args:
        stderr: print on standard error.
        interrupts: take a bar of progress away first.
    """
    if interrupts:
        for remove_bar in [*before_printing]:
            remove_bar()
    log = is_log(stderr=stderr)
    console = Console(
        stderr=stderr,
        highlight=False,
        # A name such as ":-1:" is no picture.
        emoji=False,
        no_color=log or None,
        force_terminal=False if log else None,
        legacy_windows=False,
    )
    if not _has_width(stderr=stderr):
        console.width = LOG_WIDTH
    return console


def _has_width(*, stderr: bool = False) -> bool:
    """Test whether a stream has a width: it is a terminal, or COLUMNS is set."""
    return "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()


def fold_line(text: str, width: int) -> str:
    """Fold a line between words, behind the indentation that it has.

    A name longer than the width stays whole.
    """
    indent = text[: len(text) - len(text.lstrip())]
    wrapper = textwrap.TextWrapper(
        width, indent, indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.fill(text.strip())


def print_line(
    text: str, style: str | None = None, *, lead: str = "", stderr: bool = False
) -> None:
    """Print a line of a record or a policy, folded where somebody reads it in a window.

    Args:
        text: line, whose control characters are escaped.
        style: style of the text.
        lead: markup before it.
        stderr: print on standard error.
    """
    console = make_console(stderr=stderr)
    line = printable(write_beside(text))
    if _has_width(stderr=stderr):
        lead_width = len(console.render_str(lead).plain)
        line = fold_line(f"{' ' * lead_width}{line}", console.width)[lead_width:]
    console.print(f"{lead}{escape(line)}", style=style, soft_wrap=True)


def say(*lines: str) -> None:
    """Print lines on standard output, each folded where a person reads it in a window."""
    for line in lines:
        print_line(line)


def show_row(cells: Sequence[str], text: str, widths: Sequence[int]) -> None:
    """Print a row at once: cells of these widths, then a text that is folded behind them."""
    padded = [printable(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)]
    print_line(text, lead=escape("".join(padded)))
    sys.stdout.flush()


def note(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        print_line(line, stderr=True)


def width() -> int:
    """Return the columns of a terminal, or of a log."""
    return make_console(interrupts=False).width


def write(text: str) -> None:
    """Write text that is laid out already on standard output, control characters escaped."""
    make_console().out("\n".join(map(printable, text.splitlines())), highlight=False)


def show_commands(title: str, commands: Iterable[str], indent: int = 2) -> None:
    """Print commands behind blanks.

    One that is folded can be copied, as its lines end as a shell wants. An option stays on the line
    of its value.
    """
    if title:
        print_line(title)
    console = make_console()
    for command in commands:
        line = " " * indent + printable(write_beside(command))
        if _has_width():
            joined = _OPTION.sub(f" \\g<option>{_JOINT}", line)
            line = fold_line(joined, console.width - 2).replace(_JOINT, " ")
        console.print(escape(line.replace("\n", " \\\n")), soft_wrap=True)


def warn(*warnings: str) -> None:
    """Print warnings on standard error, a line each."""
    for text in warnings:
        print_line(text, lead="[yellow]warning:[/] ", stderr=True)


def show_error(error: DocauditError) -> None:
    """Print each problem on a line of its own, then what to do.

    What may not be printed goes into a private file.
    """
    error = with_story(error)
    problems = list(error.problems[:MOST_PROBLEMS])
    n_more = len(error.problems) - len(problems)
    if n_more:
        problems.append(f"{n_more:,} more of them")
    for problem in problems:
        print_line(problem, lead="[red]error:[/] ", stderr=True)
    if error.hint:
        print_line(error.hint, lead="[cyan]hint:[/] ", stderr=True)


def duration(seconds: float) -> str:
    """Write seconds, minutes or hours in words."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes / 60:.1f} h"


_STDOUT = 1
_STDERR = 2


class _Stream(io.FileIO):
    """A standard stream whose reader may leave, as `head` does; the exit code stays as it is."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes to the descriptor, and return how many were written.

        Raises:
            EngineError: standard output cannot be written; what follows goes to nobody.
        """
        try:
            return super().write(data) or 0
        except OSError as error:
            _redirect_to_null(self.fileno(), os.O_WRONLY)
            if self.fileno() == _STDOUT and not isinstance(error, BrokenPipeError):
                reason = "closed" if error.errno == errno.EBADF else error.strerror
                raise EngineError(
                    f"standard output: {reason}", "send it to where it can be written"
                ) from None
            return memoryview(data).nbytes


def guard_streams() -> None:
    """Make standard output that cannot be written an `EngineError`.

    What standard error cannot hold is lost.
    """
    sys.stdout = _guard_stream(sys.stdout, _STDOUT)
    sys.stderr = _guard_stream(sys.stderr, _apart_from_compiled_code())


def _apart_from_compiled_code() -> int:
    """Return a descriptor of standard error that only Python writes to.

    A library compiled from Rust writes what it failed at to descriptor 2, past every handler: a
    part of a page, where a page made it fail. What goes there is lost, unless somebody asks for all
    there is.
    """
    if os.environ.get(DEBUG):
        return _STDERR
    try:
        apart = os.dup(_STDERR)
    except OSError:
        return _STDERR
    _redirect_to_null(_STDERR, os.O_WRONLY)
    return apart


def _guard_stream(stream: TextIO | None, descriptor: int) -> TextIO:
    """Return a text stream over a descriptor that escapes letters its encoding lacks.

    `stream`: the stream it replaces; one that is no file is replaced by the null device.
    """
    if not isinstance(stream, io.TextIOWrapper):
        # The descriptor is taken, so that no file that is opened later is written in the stream's
        # place.
        _redirect_to_null(descriptor, os.O_RDONLY)
        return io.TextIOWrapper(io.BufferedWriter(_Stream(descriptor, "w", closefd=False)), "utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(descriptor, "w", closefd=False)),
        stream.encoding,
        # A letter that the encoding lacks is escaped; an error would take the place of the
        # verdict's exit code.
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _redirect_to_null(descriptor: int, mode: int) -> None:
    """Make a descriptor one of the null device."""
    nobody = os.open(os.devnull, mode)
    if nobody != descriptor:
        os.dup2(nobody, descriptor)
        os.close(nobody)


T = TypeVar("T")
LOG_SECONDS = 10.0
"""A log gets one line of progress in so many seconds."""
EARLY = 0.1
"""Share of the steps of a stage up to which the time left is an upper bound."""
ROUNDS = 2
"""An early bound waits so many times as long as the first step took.

Steps that are under way together end together, so that the first of them shows no pace.
"""
SHOWN_SECONDS = 2.0
"""A stage that was over sooner leaves no line."""
OPENING = "opening"
"""How the names of stages begin that load libraries and models for seconds.

A log gets them at once.
"""
OPENING_MODEL = f"{OPENING} the model and the data set"
"""The first stage of a command that opens a model, named before it loads torch."""
OPENING_SCAN = f"{OPENING} the scan"
"""That of a command that begins with a finished scan."""


class Reporter(Progress):
    """A `Progress` that draws a bar on a terminal, and prints lines elsewhere.

    Use as a context manager: within it, it observes everything that reports progress
    (`audit.progress`). Everything goes to standard error, so that standard output stays the
    verdict's.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False) -> None:
        """Prepare to report the stages of a run on standard error.

        Args:
            clock: returns the seconds from which durations are measured.
            quiet: print no progress.
        """
        self._clock = clock
        self._quiet = quiet
        self._log = is_log(stderr=True)
        self._name = ""
        self._total = 0
        self._ahead = 0
        self._done = 0
        self._first_seconds = 0.0
        self._began = self._printed = clock()
        self._bars: Bars | None = None
        self._observing = ExitStack()

    def __enter__(self) -> Self:
        """Start to observe progress, and remove the bar before anything else is printed."""
        self._observing.enter_context(observed_by(self))
        before_printing.append(self._remove_bar)
        self._observing.callback(before_printing.remove, self._remove_bar)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Finish the last stage unless an error ended it, and stop observing progress."""
        if error is None:
            self._finish_stage()
        self._remove_bar()
        self._observing.close()

    def follow(self, steps: Iterable[str | T]) -> Iterator[T]:
        """Print the warnings among the steps of a workflow as they come; pass on its results."""
        for step in steps:
            if isinstance(step, str):
                warn(step)
            else:
                yield step

    def stage(self, name: str, total: int = 0) -> None:
        """Finish the stage before, and begin this one with a bar where there is a terminal."""
        self._finish_stage()
        self._name = printable(name)
        self._total = total
        self._ahead = 0
        self._done = 0
        self._first_seconds = 0.0
        self._began = self._printed = self._clock()
        if not (self._quiet or self._log):
            self._draw_bar()
        elif self._log and name.startswith(OPENING):
            self._print_log_line(self._name)
        if total and not gc.isenabled():
            gc.freeze()
            gc.enable()

    def expect(self, steps: int) -> None:
        """Count steps of later stages in the time that is left."""
        self._ahead = steps

    def advance(self, steps: int = 1) -> None:
        """Count finished steps of the stage, in the bar or as a line of the log."""
        if steps and not self._done:
            self._first_seconds = self._clock() - self._began
        self._done += steps
        if self._bars is not None:
            self._bars.advance(self._bars.task_ids[0], steps)
        elif self._log and self._done != self._total and self._is_line_due():
            self._print_log_line(f"{self._name}: {self}")

    def __str__(self) -> str:
        """Return how far the stage is; the time left follows from the pace of its own steps.

        That time is of the whole scan where steps of later stages are expected. Many steps may be
        under way when few are done, so that an early estimate is too long rather than too short,
        and waits for a second round of steps.
        """
        seconds = self._clock() - self._began
        steps = f"{self._done:,} of {self._total:,}, " if self._total else ""
        left = ""
        is_early = self._done < EARLY * self._total
        has_pace = seconds >= max(LOG_SECONDS, ROUNDS * self._first_seconds)
        if 0 < self._done < self._total and (has_pace or not is_early):
            accuracy = "up to" if is_early else "about"
            steps_left = self._total - self._done + self._ahead
            seconds_left = seconds * steps_left / self._done
            left = f", {accuracy} {duration(seconds_left)} left"
            if self._ahead:
                left += " in all"
        return f"{steps}{duration(seconds)}{left}"

    def _is_line_due(self) -> bool:
        """Test whether the last line of a log was printed `LOG_SECONDS` ago or earlier."""
        return self._clock() - self._printed >= LOG_SECONDS

    def _finish_stage(self) -> None:
        """Leave a line of a stage that took its time."""
        self._remove_bar()
        if self._name and self._clock() - self._began >= SHOWN_SECONDS:
            self._print_log_line(f"{self._name}: {self}")
        self._name = ""

    def _print_log_line(self, line: str) -> None:
        """Print a line of a log on standard error, unless quiet, and note its time."""
        self._printed = self._clock()
        if not self._quiet:
            make_console(stderr=True).print(Text(line), soft_wrap=True)

    def _draw_bar(self) -> None:
        """Draw the progress bar of the present stage in the terminal."""
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.table import Column

        whole_width = Column(ratio=1, no_wrap=True)
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False, table_column=whole_width),
            TextColumn("{task.fields[reporter]}", markup=False),
        ]
        if self._total:
            columns.append(BarColumn(12))
        self._bars = Progress(
            *columns,
            console=make_console(stderr=True, interrupts=False),
            expand=True,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bars.add_task(self._name, total=self._total or None, reporter=self)
        self._bars.start()

    def _remove_bar(self) -> None:
        """Remove the bar, so that something else can be printed; the next stage draws another."""
        bars = self._bars
        self._bars = None
        if bars is not None:
            bars.stop()
