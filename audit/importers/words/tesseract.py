"""Tesseract's table: a tab-separated row a word, of level 5."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftWord
from audit.importers.words.reading import ReadPage, shared

COLUMNS = ("level", "left", "top", "width", "height", "text")
PAGE, WORD = "1", "5"


def read(text: str) -> tuple[ReadPage, ...]:
    """Read every page of the table.

    Raises:
        ManifestError: a column is missing, a number is none, or words come before their page.
    """
    table = csv.DictReader(text.split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
    missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise ManifestError(f"no column {', '.join(missing)}: not Tesseract's table")
    pages: list[tuple[tuple[float, float], list[DraftWord]]] = []
    for row in _rows(table):
        try:
            left, top, width, height = (float(row[name]) for name in COLUMNS[1:5])
        except (TypeError, ValueError):
            raise ManifestError(f"line {table.line_num}: not a row of numbers") from None
        if row["level"] == PAGE:
            pages.append(((width, height), []))
        elif row["level"] == WORD:
            if not pages:
                raise ManifestError(f"line {table.line_num}: a word before the first page")
            shape, words = pages[-1]
            words.append(DraftWord(row["text"] or "", shared((left, top, left + width, top + height), shape)))
    return tuple(ReadPage(tuple(words), shape) for shape, words in pages)


def _rows(table: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    try:
        yield from table
    except csv.Error as error:
        raise ManifestError(f"line {table.line_num}: {error}") from None
