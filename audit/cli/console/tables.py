"""Tables: columns where they fit the width, else a few lines a row, so that no name is broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from audit.cli.console.terminal import folded, make_console
from audit.corpus.paths import printable

Row = str | Sequence[object]
"""Cells, or the heading of the rows that follow."""
GAP = 2
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
    table, least = (
        Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", show_header=any(columns)),
        0,
    )
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows if not isinstance(row, str)]
        lines = [line for row in texts if not isinstance(row, str) for line in row[index].splitlines()]
        longest = max(map(len, [column, *lines]))
        names = not any(" " in line.strip() for line in lines) or longest <= SENTENCE
        numbers = bool(cells) and all(isinstance(cell, int) for cell in cells)
        table.add_column(column, justify="right" if numbers else "left", no_wrap=names, overflow="fold")
        least += GAP + (longest if names else max(SENTENCE, *(len(word) for line in lines for word in line.split())))
    fits = least - GAP <= console.width
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
