"""Tables that break no name: columns where they fit the width, else a few lines a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from audit.cli.console.terminal import folded, make_console, safe
from audit.corpus.paths import printable

Cell = object
"""Text, a number, or a tuple of texts, each a line."""
PROSE = 24
"""Columns that a sentence has at least beside others (ours): narrower ones are hard to read."""


@dataclass(frozen=True)
class Group:
    """Rows under a line of their own; without a name there is no such line."""

    name: str
    rows: Sequence[Sequence[Cell]]


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], gap: int = 2, lead: int | None = None
) -> None:
    """Print a table; columns of whole numbers are aligned to the right, with `gap` blanks between columns.

    A cell that is a tuple has a line for each of its texts; a line break within a text breaks no line. Where the
    columns would break a name each row becomes a few lines, its first cell and that of the column `lead` above.
    """
    print_groups(title, columns, [Group("", rows)], gap, lead=lead)
    make_console().print()


def print_groups(
    title: str,
    columns: Sequence[str],
    groups: Sequence[Group],
    gap: int = 2,
    styles: Mapping[str, str] | None = None,
    lead: int | None = None,
    heading: int = 0,
) -> bool:
    """Print rows in groups, with the same columns; False where each row became a few lines.

    Args:
        title: above all; empty: none.
        columns: their titles.
        groups: of the rows.
        gap: blanks between columns.
        styles: of a cell that is a certain word.
        lead: the column that stands beside the heading where a row is a few lines; None: all stand below.
        heading: the column that heads such lines.
    """
    console = make_console()
    if title:
        console.print(Text(folded(printable(title), console.width), style="bold"), soft_wrap=True)
    rows = [row for group in groups for row in group.rows]
    indent = 2 if any(group.name for group in groups) else 0
    widths = column_widths(columns, rows, console.width - indent, gap)
    if widths is not None:
        right = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
        grid = _Grid(console, widths, right, gap, indent, styles or {})
        if any(columns):
            grid.print(columns, "bold")
    for group in groups:
        if group.name:
            console.print(safe(group.name), style="bold", soft_wrap=True)
        for row in group.rows:
            if widths is not None:
                grid.print(row)
            else:
                _print_stacked(console, columns, row, indent, styles or {}, lead, heading)
    return widths is not None


def _lines(cell: Cell) -> list[str]:
    return [printable(str(line)) for line in (cell if isinstance(cell, tuple) else (cell,))]


def _joined(cell: Cell) -> str:
    return " ".join(line.strip() for line in _lines(cell))


def _longest(cells: Iterable[Cell]) -> tuple[int, int]:
    """The longest word of the cells and their longest line, in characters."""
    lines = [line for cell in cells for line in _lines(cell)]
    words = max((cell_len(word) for line in lines for word in line.split()), default=0)
    return words, max(map(cell_len, lines), default=0)


def column_widths(columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, gap: int) -> list[int] | None:
    """Divide a width among columns so that no word breaks; None where that cannot be done.

    A column of sentences gets `PROSE` at least, one of a few words each its longest line if that is shorter.
    """
    least, most = [], []
    for index, column in enumerate(columns):
        word, line = _longest([row[index] for row in rows])
        least.append(max(word, min(line, PROSE), _longest([column])[0]))
        most.append(max(line, least[-1], cell_len(column)))
    room = width - gap * (len(columns) - 1)
    if sum(least) > room:
        return None
    spare = room - sum(least)
    wanted = [high - low for low, high in zip(least, most, strict=True)]
    if sum(wanted) <= spare:
        return most
    # The narrowest wishes first, so that as few columns as can be are folded.
    given = [0] * len(columns)
    for rank, index in enumerate(sorted(range(len(columns)), key=wanted.__getitem__)):
        given[index] = min(wanted[index], spare // (len(columns) - rank))
        spare -= given[index]
    return [low + more for low, more in zip(least, given, strict=True)]


@dataclass(frozen=True)
class _Grid:
    """Columns of fixed widths."""

    console: Console
    widths: Sequence[int]
    right: Sequence[bool]
    gap: int
    indent: int
    styles: Mapping[str, str]

    def print(self, row: Sequence[Cell], style: str = "") -> None:
        """Print a row, each cell folded within its column."""
        cells = [
            [part for line in _lines(cell) for part in folded(line, width).split("\n")]
            for cell, width in zip(row, self.widths, strict=True)
        ]
        for number in range(max(map(len, cells))):
            text = Text(" " * self.indent)
            for lines, cell, width, right in zip(cells, row, self.widths, self.right, strict=True):
                shown = lines[number] if number < len(lines) else ""
                blank = " " * (width - cell_len(shown))
                text.append(f"{blank}{shown}" if right else shown, style or self.styles.get(str(cell), ""))
                text.append(f"{'' if right else blank}{' ' * self.gap}")
            text.rstrip()
            self.console.print(text, soft_wrap=True)


def _print_stacked(
    console: Console,
    columns: Sequence[str],
    row: Sequence[Cell],
    indent: int,
    styles: Mapping[str, str],
    lead: int | None,
    heading: int,
) -> None:
    """Print a row as one cell, and below that the others behind the titles of their columns."""
    room = console.width - indent
    first, *more = [line.strip() for line in _lines(row[heading])]
    beside = "" if lead is None else _joined(row[lead])
    if len(" ".join([first, *more, "", beside])) <= room:
        first, more = " ".join([first, *more]), []
    opening = Text(f"{' ' * indent}{first}")
    if beside:
        opening.append("  ")
        opening.append(beside, style=styles.get(beside, ""))
    others = [index for index in range(len(row)) if index not in (heading, lead) and row[index] != "-"]
    told = [
        *more,
        *(f"{columns[index].partition(',')[0]}: {_joined(row[index])}".removeprefix(": ") for index in others),
    ]
    told = [text for text in told if text]
    # What is short stands on the same line.
    if len(opening) + 2 + len("; ".join(told)) <= console.width:
        opening.append(f"  {'; '.join(told)}")
        told = []
    opening.rstrip()
    console.print(opening, soft_wrap=True)
    for line in _packed(told, room - 3):  # a line that goes on ends with a semicolon
        console.print(Text(" " * (indent + 2) + line), soft_wrap=True)


def _packed(texts: Sequence[str], width: int) -> Iterator[str]:
    """Fill lines with texts, none of which breaks where it fits a line."""
    line = ""
    for text in texts:
        if line and len(line) + 2 + len(text) <= width:
            line = f"{line}; {text}"
            continue
        if line:
            yield f"{line};"
        *whole, line = folded(text, width).split("\n")
        yield from whole
    if line:
        yield line
