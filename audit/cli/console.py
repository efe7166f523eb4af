"""Output to a terminal: progress, verdicts, tables, errors. The only module that imports rich."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from audit.corpus.paths import printable
from audit.errors import DocauditError

if TYPE_CHECKING:
    from audit.measurements import Estimate
    from audit.policy import Decision, Outcome, Overall, Verdict
    from audit.record import AuditRecord
    from audit.report.notes import NoteKind

T = TypeVar("T")
_STYLES: dict[Outcome | Overall, str] = {
    "passed": "bold green",
    "violated": "bold red",
    "undecided": "bold yellow",
    "waived": "yellow",
    "inapplicable": "dim",
    "not run": "dim",
}
_NOTE_STYLES: dict[NoteKind, str] = {
    "policy": "dim",
    "another policy": "bold yellow",
    "waiver": "yellow",
    "outside": "bold yellow",
    "declared": "yellow",
}
_QUIET_SECONDS = 15.0
"""In a log without a terminal, one line of progress in so many seconds, apart from each stage's first and last."""

_LOG_WIDTH = 200

SHOWN_DIGITS = 12
"""Of a sha256."""

_TELLING_SHARE = 0.1
"""The share of a stage that must be done before its time left is estimated."""


class Reporter:
    """Draws a bar with the time left on a terminal, plain lines elsewhere; implements `engine.interface.Progress`.

    Use as a context manager. Everything goes to standard error, so that standard output stays the verdict's.
    """

    def __init__(self) -> None:
        self._console = _console(stderr=True)
        self._bar: RichProgress | None = None
        self._name, self._total, self._done = "", 0, 0
        self._began = self._printed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._rest()

    def follow(self, steps: Iterable[str | T]) -> Iterator[T]:
        """Print the warnings among the steps of a workflow as they come, and pass on its results."""
        for step in steps:
            self._rest()
            if isinstance(step, str):
                warn(step)
            else:
                yield step

    def _rest(self) -> None:
        """Leave the bars as they are, so that something else can be printed; the next stage begins new ones."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def stage(self, name: str, total: int) -> None:
        """See `Progress.stage`."""
        self._name, self._total, self._done = name, total, 0
        self._began = self._printed = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(f"{_plain(name)}: {total} to do", soft_wrap=True)
            return
        if self._bar is None:
            self._bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.start()
        self._bar.add_task(_plain(name), total=total)

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self._done += steps
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[-1], steps)
            return
        now = time.monotonic()
        finished = self._done >= self._total
        if steps and (finished or now - self._printed >= _QUIET_SECONDS):
            self._printed = now
            self._console.print(f"{_plain(self._name)}: {self._done} of {self._total}{self._left(now)}", soft_wrap=True)

    def _left(self, now: float) -> str:
        """The time left in words; nothing while too little is done to tell (many attempts are under way at once)."""
        if self._done >= self._total:
            return ", done"
        if self._done < _TELLING_SHARE * self._total:
            return ""
        return f", about {duration((now - self._began) / self._done * (self._total - self._done))} left"


class _PatientConsole(Console):
    """A console whose reader may leave, as `head` does: the exit code stays the verdict's."""

    def on_broken_pipe(self) -> None:
        """See `Console.on_broken_pipe`; what follows is printed to nobody."""
        _leave(self.file)


def _leave(stream: IO[str]) -> None:
    """Let what follows on a stream, and what it still holds, go to nobody."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, stream.fileno())
    os.close(nobody)


def _console(*, stderr: bool = False) -> Console:
    """A console; in a log, which has no width of its own, lines are long, so that names of metrics stay whole."""
    console = _PatientConsole(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _LOG_WIDTH
    return console


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, in words."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def say(*lines: str) -> None:
    """Print lines on standard output."""
    for line in lines:
        _console().print(_plain(line), soft_wrap=True)


def width() -> int:
    """Return the columns of a terminal, or of a log."""
    return _console().width


def write(text: str) -> None:
    """Write text that is laid out already on standard output, control characters escaped."""
    _console().out("\n".join(map(printable, text.splitlines())), highlight=False)


def emit(text: str) -> None:
    """Print a text as it is on standard output, in UTF-8; a reader who leaves changes nothing else."""
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except BrokenPipeError:
        _leave(sys.stdout)


def note(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        _console(stderr=True).print(_plain(line), soft_wrap=True)


def warn(*warnings: str) -> None:
    """Print warnings on standard error, a line each."""
    for text in warnings:
        _console(stderr=True).print(f"[yellow]warning:[/] {_plain(text)}", soft_wrap=True)


def show_error(error: DocauditError) -> None:
    """Print each problem on a line of its own, then what to do."""
    console = _console(stderr=True)
    for problem in error.problems:
        console.print(f"[red]error:[/] {_plain(problem)}", soft_wrap=True)
    if error.hint:
        console.print(f"[cyan]hint:[/] {_plain(error.hint)}", soft_wrap=True)


def _plain(text: str) -> str:
    """Text of a record or a policy as a terminal shows it: it can neither style nor move what is printed."""
    return escape(printable(text))


def show_subject(record: AuditRecord) -> None:
    """Print what a record is about: the model or data set, when it was scanned, and the policy that it declares."""
    target, corpus, policy = record.target, record.corpus, record.policy
    model = f"model {target.name} (sha256 {target.sha256[:SHOWN_DIGITS]}), " if target.is_model else "no model, "
    declared = "no policy" if policy is None else f"policy {policy.name} (sha256 {policy.sha256[:SHOWN_DIGITS]})"
    say(
        f"Record of {model}data set {corpus.name} (sha256 {corpus.sha256[:SHOWN_DIGITS]}), scanned "
        f"{record.timing.started}, which declares {declared}"
    )


def show_verdict(
    verdict: Verdict, out: Path | None = None, record: AuditRecord | None = None, *, decides_exit: bool = True
) -> None:
    """Print the verdict, every limit with what was measured, all that qualifies it, and where the reports are.

    `decides_exit` is False for a command whose exit code is not the verdict's.
    """
    from audit.report.leaks import headline

    console = _console()
    style = _STYLES[verdict.overall]
    reason = verdict.reason if record is None else headline(record, verdict)
    console.print()
    console.print(
        f"[{style}]{verdict.stamp}[/]  {_plain(reason)}  "
        f"(policy {_plain(verdict.policy)}{f', exit code {verdict.exit_code}' if decides_exit else ''})",
        soft_wrap=True,
    )
    if verdict.text is not None:
        console.print(
            f"[{_STYLES[verdict.text]}]{verdict.text.upper()}[/]  what the text itself gives away, whatever the "
            f"model: {_plain(verdict.text_reason)}",
            soft_wrap=True,
        )
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("attack", "metric", "limit", "measured, 95 % interval", "n", "outcome"):
        table.add_column(title, overflow="fold")
    for decision in verdict.decisions:
        table.add_row(*_row(decision))
    console.print(table)
    for (attack, reason, remedy), metrics in _open_reasons(verdict).items():
        helps = f"; to decide it: {remedy}" if remedy else ""
        console.print(
            _plain(f"  {attack} {', '.join(metrics)}: {reason}{helps}"),
            soft_wrap=True,
            style="yellow",
        )
    if record is not None:
        _show_notes(record, verdict)
    if out is not None:
        written = [name for name in ("report.pdf", "report.html", "annex.pdf", "record.json") if (out / name).exists()]
        console.print(f"Read {_plain(', '.join(str(out / name) for name in written))}", soft_wrap=True)


def _show_notes(record: AuditRecord, verdict: Verdict) -> None:
    """Print all that qualifies a verdict."""
    from audit.report.notes import notes

    console = _console()
    for note in notes(record, verdict):
        console.print(_plain(note.text), soft_wrap=True, style=_NOTE_STYLES[note.kind])
    if record.target.is_model and record.corpus.draw:
        said = f"{record.corpus.draw}: this holds for a model that was trained on its members after that"
        console.print(_plain(said[0].upper() + said[1:]), soft_wrap=True)
    if record.timing.origin:
        console.print(_plain(f"{record.timing.origin}."), soft_wrap=True)
    if verdict.overall == "undecided":
        _show_found(record, verdict)


def show_revealed(path: Path | None) -> None:
    """Print where the report with values is, if there is one."""
    if path is not None:
        say(f"With the values, for you alone: {path}")


def _show_found(record: AuditRecord, verdict: Verdict) -> None:
    """Print what attacks found all the same, and the one thing that would decide most."""
    from audit.report.found import decides_most, findings

    console = _console()
    lines = [*findings(record, verdict)]
    if lines:
        console.print("[bold]What was found all the same[/]")
    for line in lines:
        console.print(_plain(f"  {line}"))
    if step := decides_most(record, verdict):
        console.print(f"[bold]{_plain(step)}[/]")


def _open_reasons(verdict: Verdict) -> dict[tuple[str, str, str], list[str]]:
    """By attack, reason and remedy, the metrics whose limits are neither passed nor violated."""
    metrics: dict[tuple[str, str, str], list[str]] = {}
    for decision in verdict.decisions:
        if decision.outcome not in ("passed", "violated"):
            key = (decision.limit.attack, decision.reason, decision.remedy)
            metrics.setdefault(key, []).append(decision.limit.metric)
    return metrics


def show_sweep(
    axis: str,
    rows: Sequence[tuple[float, str, AuditRecord | None, Verdict | None]],
    columns: Mapping[str, tuple[str, str]],
    answer: str,
    files: Sequence[str],
) -> None:
    """Print a row a checkpoint: its position on the axis, name, verdict and leak; "not audited" without a record.

    Args:
        axis: the unit of the positions.
        rows: position, name, record and verdict of each checkpoint.
        columns: attack and metric by heading, each shown with its 95 % interval; left out where nothing was measured.
        answer: the checkpoint to take, in sentences.
        files: what there is to read.
    """
    console = _console()
    measured = {key for _, _, record, _ in rows for key in _estimates(record)}
    columns = {heading: wanted for heading, wanted in columns.items() if wanted in measured}
    console.print()
    console.print(_plain(answer), style="bold", soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (axis.partition(",")[0], "checkpoint", "verdict", *columns):
        # On a narrow terminal the intervals take a second line, the names do not.
        table.add_column(title, overflow="fold", no_wrap=title in ("checkpoint", "verdict"))
    for x, name, record, verdict in rows:
        outcome = f"[{_STYLES[verdict.overall]}]{verdict.overall}[/]" if verdict is not None else "[red]not audited[/]"
        estimates = _estimates(record)
        leak = [_measured(estimates.get(wanted))[0] for wanted in columns.values()]
        table.add_row(f"{x:g}", _plain(name), outcome, *leak)
    console.print(table)
    if files:
        console.print(f"Read {_plain(', '.join(files))}", soft_wrap=True)


def _estimates(record: AuditRecord | None) -> dict[tuple[str, str], Estimate]:
    """All estimates, by attack and name."""
    from audit.measurements import Estimate
    from audit.record import Completed

    return {
        (result.attack, item.name): item
        for result in (record.attacks if record is not None else ())
        if isinstance(result, Completed)
        for item in result.measurements
        if isinstance(item, Estimate)
    }


def _row(decision: Decision) -> tuple[str, ...]:
    limit = decision.limit
    bound = f"<= {limit.max:g}" if limit.max is not None else f">= {limit.min:g}"
    outcome = f"[{_STYLES[decision.outcome]}]{decision.outcome}[/]"
    measured = decision.measured
    by = "" if measured is None or measured.name == limit.metric else f"\n  by {_plain(measured.name)}"
    return (_plain(limit.attack), f"{_plain(limit.metric)}{by}", bound, *_measured(measured), outcome)


def _measured(measured: Estimate | None) -> tuple[str, str]:
    if measured is None:
        return "-", "-"
    return format_estimate(measured).replace("[", r"\["), str(measured.n)


def format_estimate(estimate: Estimate) -> str:
    """A value with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], gap: int = 2) -> None:
    """Print a table; columns of whole numbers are aligned to the right, with `gap` blanks on both sides of a column.

    A cell that is a tuple has a line for each of its texts; a line break within a text breaks no line.
    """
    console = _console()
    table = Table(
        box=None, pad_edge=False, title=_plain(title), title_justify="left", title_style="bold", padding=(0, gap)
    )
    for index, column in enumerate(columns):
        counts = all(isinstance(row[index], int) for row in rows)
        table.add_column(_plain(column), justify="right" if counts else "left", overflow="fold")
    for row in rows:
        table.add_row(*("\n".join(map(_plain, cell)) if isinstance(cell, tuple) else _plain(str(cell)) for cell in row))
    console.print(table)
    console.print()
