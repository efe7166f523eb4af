"""The formats that can be imported, by name, those of installed packages included; and a guess at a folder's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from audit import plugins
from audit.files import table_beside
from audit.importers.chat import Chat
from audit.importers.csv_table import FieldTable
from audit.importers.hf import HuggingFace
from audit.importers.interface import Importer
from audit.importers.pages import Page, part_named
from audit.importers.pdf import PDFFolder
from audit.importers.source import Source

WORD_FILES: Mapping[str, Mapping[str, Any]] = table_beside(__file__, "word_files.toml")
"""The formats of word files, by name."""
MAX_FILES, MAX_CHARACTERS = 20, 10_000_000
"""Files of a pattern that are looked into to guess a format, and how far."""


class WordFolder(Importer):
    """Images with the word files of one OCR program beside them: one document an image.

    Args:
        table: its class attributes: name, description, `word_files` and `marks`.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        vars(self).update(table)

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        source.files(*self.word_files, hint="give the folder that holds the images too")
        for path in source.ids:
            with source.problems.catch():
                yield source.page(path)
                if source.find_words(path) is None:
                    source.problems.add("", [f"{path}: its word file is missing"])


_CORE: tuple[Importer, ...] = (
    *(HuggingFace(), Chat(), FieldTable(), PDFFolder()),
    *(WordFolder({"name": name, **table}) for name, table in WORD_FILES.items()),
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like; None where it looks like none."""
    return next((name for name, one in FORMATS.items() if any(_has(path, *mark) for mark in one.marks)), None)


def _has(path: Path, pattern: str, content: str) -> bool:
    """Test whether a file of this name, in the folder or one below it, holds a text."""
    files = chain(path.glob(pattern), path.glob(f"*/{pattern}") if "/" not in pattern else ())
    found = [path] if path.is_file() and path.match(pattern) else islice(filter(Path.is_file, files), MAX_FILES)
    return any(not content or re.search(content, _read_beginning(one)) for one in found)


def _read_beginning(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""


def suggest_import(name: str, path: Path) -> str:
    """Return the arguments of the import of a folder in a format; of its two parts where it has them."""
    files = sorted(path.iterdir()) if path.is_dir() and name in ("forms", "chat", "hf") else []
    parts = [[one for one in files if part_named(one.stem) == part] for part in ("train", "validation")]
    if all(len(part) == 1 for part in parts):
        return f"{name} {parts[0][0]} DATA_DIR --heldout-from {parts[1][0]}"
    return f"{name} {path} DATA_DIR"
