"""Tables: columns where they fit the width, else a few lines a row, so that no name is broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from audit.cli.console.terminal import folded, make_console
from audit.corpus.problems import printable

Row = str | Sequence[object]
"""Cells, or the heading of the rows that follow."""
SHORT = 8
"""Columns of a cell that is never folded."""
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
        console.print(Text(folded(printable(title), console.width), style="bold"), soft_wrap=True)
    indent = "  " if any(isinstance(row, str) for row in rows) else ""
    texts = [row if isinstance(row, str) else [*map(_text, row)] for row in rows]
    if indent:
        texts = [
            row if isinstance(row, str) else [indent + row[0].replace("\n", f"\n{indent}"), *row[1:]] for row in texts
        ]
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    widths, wishes = [], []
    for index, column in enumerate(columns):
        lines = [column, *(line for row in texts if not isinstance(row, str) for line in row[index].splitlines())]
        longest = max(map(len, lines))
        word = max((len(line) - len(line.lstrip()) + len(word) for line in lines for word in line.split()), default=0)
        widths.append(longest if longest <= SHORT else max(word, SENTENCE if longest > 2 * SENTENCE else 0))
        wishes.append(longest - widths[-1])
        cells = [row[index] for row in rows if not isinstance(row, str)]
        numbers = bool(cells) and all(isinstance(cell, int) for cell in cells)
        table.add_column(column, justify="right" if numbers else "left")
    gaps = len(columns) - 1
    gap = next((gap for gap in (2, 1) if sum(widths) + gap * gaps <= console.width), 0)
    fits, spare = gap > 0, console.width - sum(widths) - gap * gaps
    # The narrowest wishes first, so that as few columns as can be are folded; Rich itself would break words.
    for rank, index in enumerate(sorted(range(len(columns)), key=wishes.__getitem__)):
        more = min(wishes[index], max(0, spare) // (len(columns) - rank))
        table.columns[index].width, spare = widths[index] + more, spare - more
    table.padding = (0, gap, 0, 0)
    for row in texts:
        if isinstance(row, str):
            heading = Text(printable(row), style="bold")
            table.add_row(heading) if fits else console.print(heading)
        elif fits:
            table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
        else:
            name, *others = (" ".join(cell.split()) for cell in row)
            parts = [
                f"{head}: {cell}".removeprefix(": ")
                for head, cell in zip(columns[1:], others, strict=True)
                if cell != "-"
            ]
            console.print(Text(f"{indent}{name}", style="" if indent else "bold"))
            console.print(Text(folded(f"{indent}  {'; '.join(filter(None, parts))}", console.width)), soft_wrap=True)
    if fits:
        console.print(table)
    console.print()
    return fits


def _text(cell: object) -> str:
    return "\n".join(printable(str(line)) for line in (cell if isinstance(cell, tuple) else (cell,)))
