"""Tables on a terminal, that of a sweep among them; no name is broken."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from audit.cli.console.terminal import fold_line, make_console, print_line
from audit.errors import printable
from audit.policy.decision import word_of

if TYPE_CHECKING:
    from rich.console import Console

    from audit.measurements import Estimate
    from audit.policy import Verdict
    from audit.record import AuditRecord
    from audit.report.leaks import NoteKind


Row = str | Sequence[object]
"""Cells, or the heading of the rows that follow."""
SENTENCE = 24
"""Columns that a sentence takes at least; narrower ones are hard to read."""


class _TextRow(NamedTuple):
    """A row as text.

    Attributes:
        heading: heading of the rows that follow; empty where the row has cells.
        cells: text of each cell, which may have several lines; none where the row is a heading.
    """

    heading: str = ""
    cells: tuple[str, ...] = ()


class _Layout(NamedTuple):
    """Widths with which a table fits into a window, or nearly.

    Attributes:
        widths: characters of each column.
        gap: blanks between two columns.
        indent: blanks before the rows below a heading.
        fits: whether the window is wide enough.
    """

    widths: tuple[int, ...]
    gap: int
    indent: str
    fits: bool


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
        title: text above the table; empty for none.
        columns: headings of the columns.
        rows: headings and rows of cells; a cell may be a tuple of texts, a line each.
        styles: styles of cells, by their text.
        spaced: print an empty line below.

    Returns:
        Whether the columns fit. If not, each row was printed as a few lines.
    """
    console = make_console()
    if title:
        folded = fold_line(printable(title), console.width)
        console.print(Text(folded, style="bold"), soft_wrap=True)
    text_rows = [_text_row(row) for row in rows]
    layout = _lay_out(columns, text_rows, console.width)
    if layout.fits:
        table = _make_table(columns, _list_numeric(rows, len(columns)), layout)
        for row in text_rows:
            table.add_row(*_styled_cells(row, layout.indent, styles or {}))
        console.print(table)
    else:
        for row in text_rows:
            _print_as_lines(console, columns, row, layout.indent)
    if spaced:
        console.print()
    return layout.fits


def _text_row(row: Row) -> _TextRow:
    """Turn a row into printable text: a heading, or its cells."""
    if isinstance(row, str):
        return _TextRow(heading=printable(row))
    return _TextRow(cells=tuple(_cell_text(cell) for cell in row))


def _cell_text(cell: object) -> str:
    """Write a cell as printable text, a tuple on one line for each item."""
    if isinstance(cell, tuple):
        return "\n".join(printable(str(line)) for line in cell)
    return printable(str(cell))


def _lay_out(columns: Sequence[str], rows: Sequence[_TextRow], width: int) -> _Layout:
    """Compute the widths of the columns.

    Rich itself would break names: the longest column is folded between words, and takes the room
    that is left.

    Args:
        columns: headings of the columns.
        rows: headings and rows of cells.
        width: columns of the window.
    """
    indent = ""
    if any(not row.cells for row in rows):
        indent = "  "
    lines = [_list_lines(heading, rows, n, indent) for n, heading in enumerate(columns)]
    widths = [max(map(len, column)) for column in lines]
    longest = widths.index(max(widths))
    words = " ".join(lines[longest]).split()
    longest_word = len(indent) + max(map(len, words), default=0)
    least = min(widths[longest], max(SENTENCE, longest_word))
    other_columns = sum(widths) - widths[longest]
    n_gaps = len(columns) - 1
    gap = 1
    if other_columns + least + 2 * n_gaps <= width:
        gap = 2
    room = width - other_columns - gap * n_gaps
    widths[longest] = min(widths[longest], room)
    return _Layout(tuple(widths), gap, indent, fits=room >= least)


def _list_lines(heading: str, rows: Sequence[_TextRow], n: int, indent: str) -> list[str]:
    """List the lines of a column, those of its heading and cells."""
    lines = [heading]
    for row in rows:
        if row.cells:
            lines.extend(_indented_cells(row, indent)[n].splitlines())
    return lines


def _indented_cells(row: _TextRow, indent: str) -> tuple[str, ...]:
    """Return the cells of a row, each line of the first one behind the indentation."""
    first = indent + row.cells[0].replace("\n", f"\n{indent}")
    return (first, *row.cells[1:])


def _list_numeric(rows: Sequence[Row], n_columns: int) -> list[bool]:
    """Tell of each column whether it has rows, and all its cells are whole numbers."""
    numeric = [bool(rows)] * n_columns
    for row in rows:
        if not isinstance(row, str):
            for n in range(n_columns):
                numeric[n] = numeric[n] and isinstance(row[n], int)
    return numeric


def _make_table(columns: Sequence[str], numeric: Sequence[bool], layout: _Layout) -> Table:
    """Make a table without rows."""
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        show_header=any(columns),
        padding=(0, layout.gap, 0, 0),
    )
    for heading, is_numeric, width in zip(columns, numeric, layout.widths, strict=True):
        justify: Literal["left", "right"] = "left"
        if is_numeric:
            justify = "right"
        table.add_column(heading, justify=justify, width=max(0, width))
    return table


def _styled_cells(row: _TextRow, indent: str, styles: Mapping[str, str]) -> list[Text]:
    """Return the cells of a row in their styles; a heading is the first cell of its row."""
    if not row.cells:
        return [Text(row.heading, style="bold")]
    return [Text(cell, style=styles.get(cell, "")) for cell in _indented_cells(row, indent)]


def _print_as_lines(console: Console, columns: Sequence[str], row: _TextRow, indent: str) -> None:
    """Print a row that is too wide as lines: the first cell, then all others with headings."""
    if not row.cells:
        console.print(Text(row.heading, style="bold"))
        return
    name, *values = (" ".join(cell.split()) for cell in row.cells)
    details = []
    for heading, value in zip(columns[1:], values, strict=True):
        detail = f"{heading}: {value}".removeprefix(": ")
        if value != "-" and detail:
            details.append(detail)
    style = "bold"
    if indent:
        style = ""
    console.print(Text(f"{indent}{name}", style=style))
    folded = fold_line(f"{indent}  {'; '.join(details)}", console.width)
    console.print(Text(folded), soft_wrap=True)


_STYLES = tomllib.loads((Path(__file__).parent / "styles.toml").read_text(encoding="utf-8"))
STYLES: Mapping[str, str] = _STYLES["outcomes"]
WORD_STYLES = {word_of(outcome): style for outcome, style in STYLES.items()}
"""The same by what outputs call the outcomes."""
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
    from audit.report.facts.questions import deciding_numbers

    estimates = [
        {**_estimates_by_name(record), **deciding_numbers(verdict)}
        for _, _, record, verdict in rows
    ]
    measured_keys = set[tuple[str, str]]().union(*estimates)
    measured_columns = {heading: key for heading, key in columns.items() if key in measured_keys}
    make_console().print()
    print_line(answer, "bold")
    make_console().print()
    cells = []
    for (x, name, _, verdict), measured in zip(rows, estimates, strict=True):
        outcome = NOT_AUDITED if verdict is None else verdict.word
        values = [_format_if_measured(measured.get(key)) for key in measured_columns.values()]
        cells.append((name, f"{x:g}", outcome, *values))
    headings = ("checkpoint", axis.partition(",")[0], "verdict", *measured_columns)
    show_table("", headings, cells, {**WORD_STYLES, NOT_AUDITED: "red"})
    if files:
        print_line(f"Read {', '.join(files)}")


def _format_if_measured(estimate: Estimate | None) -> str:
    """Write an estimate with its interval, "-" where there is none."""
    return "-" if estimate is None else format_estimate(estimate)


def _estimates_by_name(record: AuditRecord | None) -> dict[tuple[str, str], Estimate]:
    """Collect all estimates of a record, by attack and name."""
    from audit.measurements import Estimate

    if record is None:
        return {}
    estimates: dict[tuple[str, str], Estimate] = {}
    for result in record.attacks:
        for item in result.measurements:
            if isinstance(item, Estimate):
                estimates[result.attack, item.name] = item
    return estimates
