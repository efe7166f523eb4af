"""A quick look at a folder: names of files and folders, and the keys of one record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

MAX_BYTES = 50_000_000
"""Larger JSON files are not read to guess a format."""
MAX_LOOKED_AT = 2_000
"""Files and folders of a source that are looked at."""


class Peek:
    """A folder or a file, looked at quickly; the import checks what it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        own = sorted(one for one in islice(path.iterdir(), MAX_LOOKED_AT) if one.is_dir()) if path.is_dir() else []
        self.folders = [path, *own] if path.is_dir() else []

    def has(self, *names: str) -> bool:
        """Test whether all of these are there, in the folder or together in one below it."""
        return any(all((own / name).exists() for name in names) for own in self.folders)

    def files(self, *patterns: str) -> list[Path]:
        """List the files that match a pattern, in the folder or in one below it; the file itself where it is one."""
        if not self.folders:
            return [self.path] if self.path.is_file() and any(map(self.path.match, patterns)) else []
        found = (own for pattern in patterns for depth in ("", "*/") for own in self.path.glob(depth + pattern))
        return sorted(own for own in islice(found, MAX_LOOKED_AT) if own.is_file())

    def heads(self, *patterns: str, most: int = 3) -> Iterator[str]:
        """Yield the first 2,000 characters of the first few files, in lower case."""
        for own in self.files(*patterns)[:most]:
            try:
                with own.open(encoding="utf-8-sig", errors="replace") as stream:
                    yield stream.read(2_000).lower()
            except OSError:
                continue

    def records(self, *patterns: str) -> Iterator[Mapping[str, Any]]:
        """Yield one object of each of the first few files: the file's own, or the first of its list."""
        for own in self.files(*patterns)[:5]:
            content = _first_record(own)
            first = content[0] if isinstance(content, list) and content else content
            if isinstance(first, dict):
                yield first

    def keys(self, *wanted: str, patterns: tuple[str, ...] = ("*.json",)) -> bool:
        """Test whether some record has all of these keys."""
        return any({*wanted} <= {*record} for record in self.records(*patterns))


def _first_record(path: Path) -> Any:
    """The first object of a JSON-lines file, or the content of a JSON file; None where there is none to read."""
    try:
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as stream:
                return json.loads(stream.readline(MAX_BYTES))
        return json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
