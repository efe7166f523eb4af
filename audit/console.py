"""What a person sees in a terminal: progress, verdicts, summaries, errors. The only file that imports rich."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from audit.corpus.documents import SPLITS
from audit.corpus.importers.report import ImportReport
from audit.corpus.paths import printable
from audit.corpus.summary import Quartiles, Summary
from audit.errors import DocauditError
from audit.measurements import Estimate
from audit.policy import Decision, Outcome, Overall, Verdict
from audit.record import AuditRecord, Completed

_STYLES: dict[Outcome | Overall, str] = {
    "passed": "bold green",
    "violated": "bold red",
    "undecided": "bold yellow",
    "waived": "yellow",
    "inapplicable": "dim",
    "not run": "dim",
}
_QUIET_SECONDS = 15.0
"""In a log without a terminal, one line of progress in so many seconds, apart from each stage's first and last."""

_LOG_WIDTH = 200

_TELLING_SHARE = 0.1
"""The share of a stage that must be done before its time left is estimated."""


class Reporter:
    """Draws a bar with the time left on a terminal, plain lines elsewhere; implements `engine.interface.Progress`.

    Use as a context manager. Everything goes to standard error, so that standard output stays the verdict's.

    Args:
        about: stands before the name of every stage: one of several scans.
    """

    def __init__(self, about: str = "") -> None:
        self._about = f"{about}: " if about else ""
        self._console = _console(stderr=True)
        self._bar: RichProgress | None = None
        self._name, self._total, self._done = "", 0, 0
        self._began = self._said = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        """See `Progress.stage`."""
        name = self._about + name
        self._name, self._total, self._done = name, total, 0
        self._began = self._said = time.monotonic()
        if self._bar is not None:
            self._bar.add_task(name, total=total)
        else:
            self._console.print(f"{name}: {total} to do", soft_wrap=True)

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self._done += steps
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[-1], steps)
            return
        now = time.monotonic()
        finished = self._done >= self._total
        if steps and (finished or now - self._said >= _QUIET_SECONDS):
            self._said = now
            self._console.print(f"{self._name}: {self._done} of {self._total}{self._left(now)}", soft_wrap=True)

    def _left(self, now: float) -> str:
        """The time left in words; nothing while too little is done to tell (many attempts are under way at once)."""
        if self._done >= self._total:
            return ", done"
        if self._done < _TELLING_SHARE * self._total:
            return ""
        return f", about {duration((now - self._began) / self._done * (self._total - self._done))} left"


def _console(*, stderr: bool = False) -> Console:
    """A console; in a log, which has no width of its own, lines are long, so that names of metrics stay whole."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _LOG_WIDTH
    return console


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, in words."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def say(text: str) -> None:
    """One line on standard output."""
    _console().print(escape(text), soft_wrap=True)


def warn(text: str) -> None:
    """One line on standard error."""
    _console(stderr=True).print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)


def show_error(error: DocauditError) -> None:
    """Each problem on a line of its own, then what to do."""
    console = _console(stderr=True)
    for problem in error.problems:
        console.print(f"[red]error:[/] {escape(problem)}", soft_wrap=True)
    if error.hint:
        console.print(f"[cyan]hint:[/] {escape(error.hint)}", soft_wrap=True)


def _plain(text: str) -> str:
    """Text of a record or a policy as a terminal shows it: it can neither style nor move what is printed."""
    return escape(printable(text))


def show_verdict(verdict: Verdict, out: Path | None = None) -> None:
    """The verdict, every limit with what was measured, and where the reports are."""
    console = _console()
    style = _STYLES[verdict.overall]
    console.print()
    console.print(
        f"[{style}]{verdict.overall.upper()}[/]  {_plain(verdict.reason)}  "
        f"(policy {_plain(verdict.policy)}, exit code {verdict.exit_code})",
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
    if out is not None:
        written = [name for name in ("report.pdf", "report.html", "record.json") if (out / name).exists()]
        console.print(f"Read {_plain(', '.join(str(out / name) for name in written))}", soft_wrap=True)


def _open_reasons(verdict: Verdict) -> dict[tuple[str, str, str], list[str]]:
    """By attack, reason and remedy, the metrics whose limits are neither passed nor violated."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for decision in verdict.decisions:
        if decision.outcome not in ("passed", "violated"):
            key = (decision.limit.attack, decision.reason, decision.remedy)
            found.setdefault(key, []).append(decision.limit.metric)
    return found


def show_sweep(
    axis: str,
    rows: Sequence[tuple[float, str, AuditRecord | None, Verdict | None]],
    columns: Mapping[str, tuple[str, str]],
    out: Path,
) -> None:
    """One row a checkpoint: where it stands on the axis, its name, verdict and leak; "not audited" without a record.

    Args:
        axis: what the places of the checkpoints count.
        rows: place, name, record and verdict of each checkpoint.
        columns: attack and metric by heading, each shown with its 95 % interval.
        out: the folder of the sweep.
    """
    console = _console()
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (axis, "checkpoint", "verdict", *columns):
        # On a narrow terminal the intervals take a second line, the names do not.
        table.add_column(title, overflow="fold", no_wrap=title in ("checkpoint", "verdict"))
    for x, name, record, verdict in rows:
        told = f"[{_STYLES[verdict.overall]}]{verdict.overall}[/]" if verdict is not None else "[red]not audited[/]"
        found = _found(record)
        leak = [_measured(found.get(wanted))[0] for wanted in columns.values()]
        table.add_row(f"{x:g}", escape(name), told, *leak)
    console.print(table)
    written = [str(out / name) for name in ("trend.pdf", "trend.html") if (out / name).exists()]
    if any(record is not None for _, _, record, _ in rows):
        written.append(f"and each checkpoint's own reports in {out / 'CHECKPOINT'}")
        console.print(f"Read {escape(', '.join(written))}", soft_wrap=True)


def _found(record: AuditRecord | None) -> dict[tuple[str, str], Estimate]:
    """All estimates, by attack and name."""
    completed = [result for result in (record.attacks if record is not None else ()) if isinstance(result, Completed)]
    return {
        (result.attack, item.name): item
        for result in completed
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
    return f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]".replace("[", r"\["), str(measured.n)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], gap: int = 2) -> None:
    """A table; columns of whole numbers are aligned to the right, `gap` blanks stand on both sides of a column."""
    console = _console()
    table = Table(
        box=None, pad_edge=False, title=escape(title), title_justify="left", title_style="bold", padding=(0, gap)
    )
    for place, column in enumerate(columns):
        counts = all(isinstance(row[place], int) for row in rows)
        table.add_column(escape(column), justify="right" if counts else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    console.print(table)
    console.print()


def show_summary(summary: Summary) -> None:
    """What `docaudit inspect` says about a data set; warnings last."""
    say(f"{summary.name}: {summary.task}, membership assigned {summary.assigned}, sha256 {summary.sha256[:16]}")
    say("")
    splits = ("", *SPLITS)
    providers = [summary.providers[split] for split in SPLITS]
    show_table(
        "Documents",
        splits,
        [
            ("documents", *(summary.documents[split] for split in SPLITS)),
            ("with an image", *(summary.images[split] for split in SPLITS)),
            ("image repeated in the split", *(summary.duplicate_images.within[split] for split in SPLITS)),
            ("providers", *(count.providers for count in providers)),
            ("providers with two or more", *(count.with_two for count in providers)),
            ("questions", *(summary.questions[split] for split in SPLITS)),
            ("answers among the page's words", *(summary.answers_on_page[split] for split in SPLITS)),
            ("questions with an image", *(summary.questions_with_image[split] for split in SPLITS)),
            ("links between fields", *(summary.links[split] for split in SPLITS)),
        ],
    )
    if summary.categories:
        _show_fields(summary)
    if summary.words is not None:
        say(f"words a document: {_range(summary.words)} (least to greatest, median)")
    if summary.questions_a_document is not None:
        say(f"questions a document: {_range(summary.questions_a_document)} (least to greatest, median)")
    say(f"images found in several splits: {summary.duplicate_images.across}")
    asked = summary.asked_providers
    say(
        f"providers with held-out documents: {asked.n_in} in, {asked.n_out} out; in without one: {asked.unasked}; "
        f"spellings merged: {asked.merged}"
    )
    canaries = summary.canaries
    if canaries is not None:
        say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, {canaries.included} of them in "
            f"{canaries.documents} documents, {canaries.canaries - canaries.included} in none"
        )
    say("")
    for warning in summary.warnings:
        warn(warning)


def _show_fields(summary: Summary) -> None:
    categories = summary.categories.items()
    show_table(
        "Fields marked for attack, of all",
        ("category", *SPLITS),
        [
            (name, *(f"{counts.attacked[split]} of {counts.fields[split]}" for split in SPLITS))
            for name, counts in categories
        ],
    )
    show_table(
        "Values of all fields",
        ("category", "distinct", "unique", "repeated in split", "in another split"),
        [
            (
                name,
                counts.values,
                counts.unique,
                sum(counts.repeated_within.values()),
                sum(counts.repeated_across.values()),
            )
            for name, counts in categories
        ],
    )
    show_table(
        "Lengths of all fields (least to greatest, median)",
        ("category", "words", "characters"),
        [(name, _range(counts.words), _range(counts.characters)) for name, counts in categories],
    )


def _range(quartiles: Quartiles) -> str:
    return f"{quartiles.least:g}-{quartiles.greatest:g}, {quartiles.median:g}"


def show_import(found: ImportReport, destination: Path) -> None:
    """What an import found and could not find."""
    rows = []
    for label, count in found.fields.items():
        lost = ", ".join(f"{number} {reason}" for reason, number in found.not_located.get(label, {}).items() if number)
        rows.append((label, count, sum(found.located.get(label, {}).values()), lost or "-"))
    if rows:
        show_table("Fields", ("label", "fields", "located", "not located"), rows)
    show_table("Documents", ("split", "documents"), list(found.documents.items()))
    for name, count in found.notes.items():
        say(f"{name}: {count}")
    say(f"{len(found.duplicates)} groups of documents with the same image, never in two splits")
    say(f"Written to {destination}; fields without words are listed in {destination / 'import-report.json'}")
