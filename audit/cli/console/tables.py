"""Tables on a terminal, that of a sweep among them; no name is broken."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from audit.cli.console.terminal import fold_line, make_console, print_line
from audit.errors import printable

if TYPE_CHECKING:
    from audit.measurements import Estimate
    from audit.policy import Verdict
    from audit.record import AuditRecord
    from audit.report.leaks import NoteKind


Row = str | Sequence[object]
"""Cells, or the heading of the rows that follow."""
SENTENCE = 24
"""Columns that a sentence takes at least; narrower ones are hard to read."""


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    styles: Mapping[str, str] | None = None,
    *,
    spaced: bool = True,
) -> bool:
    """Print a table; whole numbers are aligned to the right.

    Args:
        title: above the table; empty for none.
        columns: their headings.
        rows: a cell may be a tuple of texts, a line each.
        styles: of cells, by their text.
        spaced: print an empty line below.

    Returns:
        Whether the columns fit. If not, each row was printed as a few lines.
    """
    console, styles = make_console(), styles or {}
    if title:
        console.print(
            Text(fold_line(printable(title), console.width), style="bold"), soft_wrap=True
        )
    indent = "  " if any(isinstance(row, str) for row in rows) else ""
    texts = [row if isinstance(row, str) else [*map(_cell_text, row)] for row in rows]
    cells = [
        [indent + row[0].replace("\n", f"\n{indent}"), *row[1:]]
        for row in texts
        if not isinstance(row, str)
    ]
    lines = [
        [head, *(line for row in cells for line in row[n].splitlines())]
        for n, head in enumerate(columns)
    ]
    widths = [max(map(len, column)) for column in lines]
    # Rich itself would break names: the longest column is folded between words, and takes the room
    # that is left.
    longest = widths.index(max(widths))
    least = min(
        widths[longest],
        max(
            SENTENCE, *(len(word) + len(indent) for line in lines[longest] for word in line.split())
        ),
    )
    gap = (
        2 if sum(widths) - widths[longest] + least + 2 * (len(columns) - 1) <= console.width else 1
    )
    room = console.width - sum(widths) + widths[longest] - gap * (len(columns) - 1)
    fits, widths[longest] = room >= least, min(widths[longest], room)
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        show_header=any(columns),
        padding=(0, gap, 0, 0),
    )
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int) for row in rows if not isinstance(row, str))
        table.add_column(
            column, justify="right" if numbers and rows else "left", width=max(0, widths[index])
        )
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
            console.print(
                Text(fold_line(f"{indent}  {'; '.join(filter(None, parts))}", console.width)),
                soft_wrap=True,
            )
    if fits:
        console.print(table)
    if spaced:
        console.print()
    return fits


def _cell_text(cell: object) -> str:
    return "\n".join(
        printable(str(line)) for line in (cell if isinstance(cell, tuple) else (cell,))
    )


_STYLES = tomllib.loads((Path(__file__).parent / "styles.toml").read_text(encoding="utf-8"))
STYLES: Mapping[str, str] = _STYLES["outcomes"]
NOTE_STYLES: Mapping[NoteKind, str] = _STYLES["notes"]


def format_estimate(estimate: Estimate) -> str:
    """Write a value with its interval, or with the lower end of one that has no upper end."""
    if estimate.open_above:
        return f"{estimate.value:.3f} [at least {estimate.low:.3f}]"
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
        columns: attack and metric by heading, each shown with its 95 % interval; left out where
            nothing was measured.
        answer: the checkpoint to take, in sentences.
        files: what there is to read.
    """
    from audit.report.answer import deciding_numbers

    found = [
        {**_estimates_by_name(record), **deciding_numbers(verdict)}
        for _, _, record, verdict in rows
    ]
    columns = {
        heading: key
        for heading, key in columns.items()
        if any(key in estimates for estimates in found)
    }
    make_console().print()
    print_line(answer, "bold")
    make_console().print()
    cells = [
        (
            name,
            f"{x:g}",
            NOT_AUDITED if verdict is None else verdict.overall,
            *(
                format_estimate(estimates[key]) if key in estimates else "-"
                for key in columns.values()
            ),
        )
        for (x, name, _, verdict), estimates in zip(rows, found, strict=True)
    ]
    show_table(
        "",
        ("checkpoint", axis.partition(",")[0], "verdict", *columns),
        cells,
        {**STYLES, NOT_AUDITED: "red"},
    )
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
