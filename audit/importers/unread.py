"""Columns that an import gives no meaning: what they hold, and what that may mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from audit.importers.faults import shown_column

MOST_ROWS = 200
"""Rows whose values are looked at."""
MOST_COLUMNS = 50
"""Columns that are looked at."""
JSON = "JSON"
MARKS = "Donut's marks"
TEXTS = "texts"
_MARKS = re.compile(r"\s*<s_[^<>]+>")
_TEXT_CONTENTS = frozenset({JSON, MARKS, TEXTS})
_MEANINGS = {
    JSON: "output",
    MARKS: "output",
    TEXTS: "output, text, label, question or answers",
    "numbers": "label",
    "lists of texts": "words or answers",
    "lists of numbers": "tags",
    "lists of lists": "boxes",
    "objects": "output",
}
"""Meanings of `--columns` that a content may have."""


class UnreadColumns:
    """Counts what columns hold to which an import gives no meaning."""

    def __init__(self) -> None:
        """Start without columns."""
        self._contents: dict[str, Counter[str]] = {}
        self._names: dict[str, str] = {}
        self._n_rows = 0

    def note(self, names: Iterable[str], used: Collection[str], row: Mapping[str, Any]) -> None:
        """Look at the columns of a row that have no meaning; rows behind `MOST_ROWS` are not.

        Args:
            names: names of all columns, in their order.
            used: those that have a meaning.
            row: values of the row.
        """
        self._n_rows += 1
        if self._n_rows > MOST_ROWS:
            return
        for number, name in enumerate(names, start=1):
            if name in used or number > MOST_COLUMNS:
                continue
            content = content_of(row.get(name))
            if content is not None:
                self._contents.setdefault(name, Counter())[content] += 1
                self._names.setdefault(name, shown_column(name, number))

    @property
    def hold_texts(self) -> bool:
        """Test whether a column holds texts."""
        return any(map(_is_text, self._contents.values()))

    def __str__(self) -> str:
        """List the columns, each with what it holds; empty where there are none."""
        described: list[str] = []
        for name, counts in self._contents.items():
            described.append(f"{self._names[name]} ({_main_content(counts)})")
        return ", ".join(described)

    @property
    def meanings(self) -> str:
        """Say what the contents of these columns may mean; empty where nothing fits."""
        contents = dict.fromkeys(map(_main_content, self._contents.values()))
        return "; ".join(
            f"{content} may be {_MEANINGS[content]}" for content in contents if content in _MEANINGS
        )


def written_columns(rows: Iterable[Mapping[str, Any]], names: Collection[str]) -> list[str]:
    """List the columns most of whose texts are JSON objects or in Donut's marks.

    Args:
        rows: rows of a table; those behind `MOST_ROWS` are not looked at.
        names: columns that may be.
    """
    contents: dict[str, Counter[str]] = {name: Counter() for name in names}
    for number, row in enumerate(rows):
        if number >= MOST_ROWS:
            break
        for name, counts in contents.items():
            content = content_of(row.get(name))
            if content is not None:
                counts[content] += 1
    return [name for name, counts in contents.items() if _is_written(counts)]


def content_of(value: Any) -> str | None:
    """Name what a value is of a column; None where it says nothing."""
    if isinstance(value, str):
        return _content_of_text(value)
    if isinstance(value, bool | int | float):
        return "numbers"
    if isinstance(value, dict):
        return "images" if value.keys() <= {"bytes", "path"} else "objects"
    if isinstance(value, list) and value:
        return _content_of_list(value[0])
    return None


def _content_of_text(text: str) -> str | None:
    """Name what a text is; None where it is blank."""
    if not text.strip():
        return None
    if _MARKS.match(text):
        return MARKS
    return JSON if _is_object(text) else TEXTS


def _content_of_list(first: Any) -> str:
    """Name what a list is, by its first value."""
    if isinstance(first, str):
        return "lists of texts"
    if isinstance(first, int | float):
        return "lists of numbers"
    return "lists of lists" if isinstance(first, list) else "lists of objects"


def _is_object(text: str) -> bool:
    """Test whether a text is a JSON object, or a list of them."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, list):
        value = value[0] if value else None
    return isinstance(value, dict) and bool(value)


def _is_text(counts: Counter[str]) -> bool:
    """Test whether a column holds texts of any kind."""
    return not _TEXT_CONTENTS.isdisjoint(counts)


def _is_written(counts: Counter[str]) -> bool:
    """Test whether most values of a column are what a model writes for a page."""
    return 2 * (counts[JSON] + counts[MARKS]) > counts.total()


def _main_content(counts: Counter[str]) -> str:
    """Return the commonest content of a column."""
    return counts.most_common(1)[0][0]
