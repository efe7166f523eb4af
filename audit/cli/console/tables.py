"""Tables on a terminal: a verdict, a sweep, and any other; no name is broken."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from audit.cli.console.terminal import fold_line, make_console, print_line, say, show_commands
from audit.errors import printable

if TYPE_CHECKING:
    from audit.measurements import Estimate
    from audit.policy import Decision, Verdict
    from audit.record import AuditRecord
    from audit.report.leaks import NoteKind


Row = str | Sequence[object]
"""Cells, or the heading of the rows that follow."""
SENTENCE = 24
"""Columns that a sentence takes at least; narrower ones are hard to read."""


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Row], styles: Mapping[str, str] | None = None
) -> bool:
    """Print a table; whole numbers stand to the right.

    Args:
        title: above the table; empty for none.
        columns: their headings.
        rows: a cell may be a tuple of texts, a line each.
        styles: of cells, by their text.

    Returns:
        Whether the columns fit. If not, each row was printed as a few lines.
    """
    console, styles = make_console(), styles or {}
    if title:
        console.print(Text(fold_line(printable(title), console.width), style="bold"), soft_wrap=True)
    indent = "  " if any(isinstance(row, str) for row in rows) else ""
    texts = [row if isinstance(row, str) else [*map(_cell_text, row)] for row in rows]
    cells = [[indent + row[0].replace("\n", f"\n{indent}"), *row[1:]] for row in texts if not isinstance(row, str)]
    lines = [[head, *(line for row in cells for line in row[n].splitlines())] for n, head in enumerate(columns)]
    widths = [max(map(len, column)) for column in lines]
    # Rich itself would break names: the longest column is folded between words, and takes the room that is left.
    longest = widths.index(max(widths))
    least = min(
        widths[longest], max(SENTENCE, *(len(word) + len(indent) for line in lines[longest] for word in line.split()))
    )
    gap = 2 if sum(widths) - widths[longest] + least + 2 * (len(columns) - 1) <= console.width else 1
    room = console.width - sum(widths) + widths[longest] - gap * (len(columns) - 1)
    fits, widths[longest] = room >= least, min(widths[longest], room)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns), padding=(0, gap, 0, 0))
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int) for row in rows if not isinstance(row, str))
        table.add_column(column, justify="right" if numbers and rows else "left", width=max(0, widths[index]))
    table_rows = iter(cells)
    for row in texts:
        if isinstance(row, str):
            heading = Text(printable(row), style="bold")
            table.add_row(heading) if fits else console.print(heading)
        elif fits:
            table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in next(table_rows)))
        else:
            name, *others = (" ".join(cell.split()) for cell in row)
            heads = zip(columns[1:], others, strict=True)
            parts = [f"{head}: {cell}".removeprefix(": ") for head, cell in heads if cell != "-"]
            console.print(Text(f"{indent}{name}", style="" if indent else "bold"))
            console.print(Text(fold_line(f"{indent}  {'; '.join(filter(None, parts))}", console.width)), soft_wrap=True)
    if fits:
        console.print(table)
    console.print()
    return fits


def _cell_text(cell: object) -> str:
    return "\n".join(printable(str(line)) for line in (cell if isinstance(cell, tuple) else (cell,)))


_STYLES = tomllib.loads((Path(__file__).parent / "styles.toml").read_text(encoding="utf-8"))
STYLES: Mapping[str, str] = _STYLES["outcomes"]
_NOTE_STYLES: Mapping[NoteKind, str] = _STYLES["notes"]
SHOWN_DIGITS = 12
"""Of a sha256."""
COLUMNS = ("metric", "limit", "measured, 95 % interval", "n", "outcome")


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
    verdict: Verdict,
    out: Path | None = None,
    record: AuditRecord | None = None,
    *,
    decides_exit: bool = True,
    paths: Mapping[str, str] | None = None,
) -> None:
    """Print the verdict, its meaning, the first action, every limit, all that qualifies it, and where the reports are.

    `decides_exit` is False for a command whose exit code is not the verdict's; `paths` are those of `first_action`.
    """
    make_console().print()
    _show_answer(verdict, record, decides_exit=decides_exit, paths=paths)
    make_console().print()
    rows: list[Row] = []
    for attack, own in _by_attack(verdict).items():
        rows += [attack, *map(_limit_row, own)]
    if rows:
        show_table("", COLUMNS, rows, STYLES)
    if left_out := inapplicable_limits(verdict):
        print_line(left_out, STYLES["inapplicable"])
    for (attack, reason, remedy), metrics in _open_reasons(verdict).items():
        helps = f"; to decide it: {remedy}" if remedy else ""
        print_line(f"  {attack} {', '.join(metrics)}: {reason}{helps}", "yellow")
    if record is not None:
        _show_notes(record, verdict)
    if out is not None:
        written = [name for name in ("report.pdf", "report.html", "record.json") if (out / name).exists()]
        print_line(f"Read {', '.join(str(out / name) for name in written)}")


def _show_answer(
    verdict: Verdict, record: AuditRecord | None, *, decides_exit: bool, paths: Mapping[str, str] | None
) -> None:
    """Print the stamp with the counts, what that means in a plain sentence, and what to do first."""
    from audit.report import leaks

    style = STYLES[verdict.overall]
    reason = verdict.reason if record is None else leaks.headline(record, verdict)
    code = f", exit code {verdict.exit_code}" if decides_exit else ""
    print_line(f"{reason}  (policy {verdict.policy}{code})", lead=f"[{style}]{verdict.stamp}[/]  ")
    if verdict.text is not None:
        print_line(
            f"what the text itself gives away, whatever the model: {verdict.text_reason}",
            lead=f"[{STYLES[verdict.text]}]{verdict.text.upper()}[/]  ",
        )
    if record is None:
        return
    from audit.report.answer import explanation, headline
    from audit.report.recommend import first_action

    print_line(f"{headline(record, verdict)} {explanation(record, verdict)}")
    step = first_action(record, verdict, paths)
    if step is not None:
        print_line(step.text, lead="[bold]First:[/] ")
        if step.command:
            show_commands("", [step.command], indent=len("First: "))


def _by_attack(verdict: Verdict) -> dict[str, list[Decision]]:
    """Group the limits that apply by attack, in the policy's order."""
    found: dict[str, list[Decision]] = {}
    for decision in verdict.decisions:
        if decision.outcome != "inapplicable":
            found.setdefault(decision.limit.attack, []).append(decision)
    return found


def inapplicable_limits(verdict: Verdict) -> str:
    """Name the limits that do not apply, and why, in one line; empty where all apply."""
    left_out: dict[tuple[str, str], list[str]] = {}
    for one in verdict.decisions:
        if one.outcome == "inapplicable":
            left_out.setdefault((one.limit.attack, one.reason), []).append(one.limit.metric)
    count = sum(map(len, left_out.values()))
    if not count:
        return ""
    named = "; ".join(f"{attack} {', '.join(metrics)} ({why})" for (attack, why), metrics in left_out.items())
    return f"{count} {'limit does' if count == 1 else 'limits do'} not apply to this task: {named}"


def _show_notes(record: AuditRecord, verdict: Verdict) -> None:
    """Print all that qualifies a verdict."""
    from audit.report.leaks import notes

    for note in notes(record, verdict):
        print_line(note.text, _NOTE_STYLES[note.kind])
    if record.target.is_model and record.corpus.draw:
        said = f"{record.corpus.draw}: this holds for a model that was trained on its members after that"
        print_line(said[0].upper() + said[1:])
    if record.timing.origin:
        print_line(f"{record.timing.origin}.")
    if verdict.overall == "undecided":
        from audit.report.answer import findings

        if lines := [*findings(record, verdict)]:
            print_line("What was found all the same", "bold")
        for line in lines:
            print_line(f"  {line}")


def _open_reasons(verdict: Verdict) -> dict[tuple[str, str, str], list[str]]:
    """Group the metrics of undecided limits by attack, reason and remedy."""
    metrics: dict[tuple[str, str, str], list[str]] = {}
    for decision in verdict.decisions:
        if decision.outcome not in ("passed", "violated", "inapplicable"):
            key = (decision.limit.attack, decision.reason, decision.remedy)
            metrics.setdefault(key, []).append(decision.limit.metric)
    return metrics


def _limit_row(decision: Decision) -> tuple[object, ...]:
    limit, measured = decision.limit, decision.measured
    bound = f"<= {limit.max:g}" if limit.max is not None else f">= {limit.min:g}"
    other = "" if measured is None or measured.name == limit.metric else measured.name
    # The method alone: the metric stands above it.
    named = (limit.metric, f"  by {other.removeprefix(f'{limit.metric}.')}") if other else limit.metric
    cells = ("-", "-") if measured is None else (format_estimate(measured), str(measured.n))
    return named, bound, *cells, decision.outcome


def format_estimate(estimate: Estimate) -> str:
    """Write a value with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


NOT_AUDITED = "not audited"


def show_sweep(
    axis: str,
    rows: Sequence[tuple[float, str, AuditRecord | None, Verdict | None]],
    columns: Mapping[str, tuple[str, str]],
    answer: str,
    files: Sequence[str],
) -> None:
    """Print a row for each checkpoint: its name, position on the axis, verdict and leak.

    Args:
        axis: the unit of the positions.
        rows: position, name, record and verdict of each checkpoint; None: it was not audited.
        columns: attack and metric by heading, each shown with its 95 % interval; left out where nothing was measured.
        answer: the checkpoint to take, in sentences.
        files: what there is to read.
    """
    found = [_estimates_by_name(record) for _, _, record, _ in rows]
    columns = {heading: key for heading, key in columns.items() if any(key in estimates for estimates in found)}
    make_console().print()
    print_line(answer, "bold")
    make_console().print()
    cells = [
        (
            name,
            f"{x:g}",
            NOT_AUDITED if verdict is None else verdict.overall,
            *(format_estimate(estimates[key]) if key in estimates else "-" for key in columns.values()),
        )
        for (x, name, _, verdict), estimates in zip(rows, found, strict=True)
    ]
    show_table("", ("checkpoint", axis.partition(",")[0], "verdict", *columns), cells, {**STYLES, NOT_AUDITED: "red"})
    if files:
        print_line(f"Read {', '.join(files)}")


def _estimates_by_name(record: AuditRecord | None) -> dict[tuple[str, str], Estimate]:
    """Collect all estimates of a record, by attack and name."""
    from audit.measurements import Estimate

    return {
        (result.attack, item.name): item
        for result in (record.attacks if record is not None else ())
        for item in result.measurements
        if isinstance(item, Estimate)
    }
