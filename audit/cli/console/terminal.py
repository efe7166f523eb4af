"""The streams: whether they are read by eyes or by a log, how lines are folded, what is escaped."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.markup import escape

from audit.corpus.paths import printable
from audit.errors import DocauditError

_LOG_WIDTH = 200
_SWITCHES = {"plain": False}
_BEFORE_PRINTING: list[Callable[[], None]] = []
"""What must be done before something is printed: bars are put to rest."""


def set_plain(plain: bool) -> None:
    """Print for a log from now on: no colours and no bars."""
    _SWITCHES["plain"] = plain


def is_plain(*, stderr: bool = False) -> bool:
    """Tell whether a stream is read as a log: asked for, not a terminal, or the environment says so."""
    environment = os.environ
    if _SWITCHES["plain"] or environment.get("NO_COLOR") or environment.get("CI") not in (None, "", "false"):
        return True
    stream = sys.stderr if stderr else sys.stdout
    return environment.get("TERM") == "dumb" or not stream.isatty()


def before_printing(rest: Callable[[], None]) -> Callable[[], None]:
    """Call something whenever a line is about to be printed, until the function returned is called."""
    _BEFORE_PRINTING.append(rest)
    return lambda: _BEFORE_PRINTING.remove(rest)


def raw_console(*, stderr: bool = False) -> Console:
    """A console; in a log, which has no width of its own, lines are long, so that names of metrics stay whole."""
    stream = sys.stderr if stderr else sys.stdout
    plain = is_plain(stderr=stderr)
    console = Console(
        stderr=stderr,
        highlight=False,
        no_color=plain or None,
        force_terminal=False if plain else None,
        legacy_windows=False,
    )
    if not stream.isatty() and "COLUMNS" not in os.environ:
        console.width = _LOG_WIDTH
    return console


def make_console(*, stderr: bool = False) -> Console:
    """A console to print on now."""
    for rest in [*_BEFORE_PRINTING]:
        rest()
    return raw_console(stderr=stderr)


def folds(*, stderr: bool = False) -> bool:
    """Tell whether somebody reads lines of a certain width; in a log a sentence is a line."""
    return "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()


def folded(text: str, width: int) -> str:
    """Fold a line between words, behind the indentation that it has; a name longer than the width stays whole."""
    if len(text) <= width:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_line(text: str, style: str | None = None, *, lead: str = "", stderr: bool = False) -> None:
    """Print a line, folded where somebody reads it in a window.

    Args:
        text: as a record or a policy has it.
        style: of the text.
        lead: markup before it.
        stderr: print on standard error.
    """
    console = make_console(stderr=stderr)
    shown = printable(text)
    if folds(stderr=stderr):
        width = console.width
        taken = len(console.render_str(lead).plain)
        shown = folded(f"{' ' * taken}{shown}", width)[taken:]
    console.print(f"{lead}{escape(shown)}", style=style, soft_wrap=True)


def say(*lines: str) -> None:
    """Print lines on standard output."""
    for line in lines:
        print_line(line)


def width() -> int:
    """Return the columns of a terminal, or of a log."""
    return raw_console().width


def write(text: str) -> None:
    """Write text that is laid out already on standard output, control characters escaped."""
    make_console().out("\n".join(map(printable, text.splitlines())), highlight=False)


def emit(text: str) -> None:
    """Print a text as it is on standard output, in UTF-8."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def note(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        print_line(line, stderr=True)


def show_commands(title: str, commands: Iterable[str], indent: int = 2) -> None:
    """Print commands behind so many blanks; one that is folded can be copied, as its lines end as a shell wants."""
    if title:
        print_line(title)
    console = make_console()
    for command in commands:
        width = console.width - 2 if folds() else len(command) + indent
        text = folded(" " * indent + printable(command), width)
        console.print(escape(text.replace("\n", " \\\n")), soft_wrap=True)


def warn(*warnings: str) -> None:
    """Print warnings on standard error, a line each."""
    for text in warnings:
        print_line(text, lead="[yellow]warning:[/] ", stderr=True)


MOST_PROBLEMS = 200
"""Problems of one error that are printed (ours)."""


def show_error(error: DocauditError) -> None:
    """Print each problem on a line of its own, then what to do."""
    for problem in error.problems[:MOST_PROBLEMS]:
        print_line(problem, lead="[red]error:[/] ", stderr=True)
    if len(error.problems) > MOST_PROBLEMS:
        print_line(f"{len(error.problems) - MOST_PROBLEMS:,} more of them", lead="[red]error:[/] ", stderr=True)
    if error.hint:
        print_line(error.hint, lead="[cyan]hint:[/] ", stderr=True)


def safe(text: str) -> str:
    """Text of a record or a policy as a terminal shows it: it can neither style nor move what is printed."""
    return escape(printable(text))


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, in words."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
