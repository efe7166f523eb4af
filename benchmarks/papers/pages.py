"""Tables on pages: each has a place between two comments that name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def put_tables(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Put tables in their places; a table without a place is left out."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        begin = f"<!-- {name} -->\n"
        end = f"<!-- end of {name} -->"
        if begin in text:
            before, rest = text.split(begin)
            table = "\n".join(lines).strip()
            text = f"{before}{begin}\n{table}\n\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")
