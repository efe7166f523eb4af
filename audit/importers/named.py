"""Names that the owner gives: of documents that were trained on, or never were."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from audit.errors import ManifestError, UsageError
from audit.files import read_file
from audit.importers.faults import NAMES
from audit.importers.files import TEXTS


@dataclass(frozen=True)
class NamedMembers:
    """The members that the owner names, and the held-out documents where they name these too.

    The others are drawn.

    Attributes:
        names: ids or file names of the documents that the model was trained on.
        heldout: ids or file names of documents that it was never trained on; empty: drawn from the
            others.
    """

    names: tuple[str, ...]
    heldout: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path, heldout: Path | None = None) -> NamedMembers:
        """Read files of names; errors as of `read_names`."""
        return cls(
            read_names(path, "--members"),
            () if heldout is None else read_names(heldout, "--heldout"),
        )

    def refuse_shared(self, paths: Iterable[str]) -> None:
        """Refuse a name that two files have, in two folders.

        Raises:
            ManifestError: there is one.
        """
        files = Counter(form for path in map(PurePath, paths) for form in {path.name, path.stem})
        for number, name in enumerate((*self.names, *self.heldout), start=1):
            several = files[str(PurePath(name))]
            if several > 1:
                raise ManifestError(
                    f"name {number} of the file is that of {several} pages", "give its path"
                )


def find_named(names: Sequence[str], ids: Collection[str], option: str) -> frozenset[str]:
    """Find the ids of named documents: by id, by path, by file name, or by file name without its ending.

    Raises:
        ManifestError: a name is that of no document.
    """
    known = frozenset(ids)
    found = {
        name: next((form for form in _possible_ids(name) if form in known), "") for name in names
    }
    unknown = [name for name, identifier in found.items() if not identifier]
    if unknown:
        first = names.index(unknown[0]) + 1
        raise ManifestError(
            TEXTS["unknown"].format(option=option, n=len(unknown), all=len(found), first=first)
        )
    return frozenset(found.values())


def _possible_ids(name: str) -> Iterator[str]:
    """Yield the ids that a name may mean, the likeliest first: with folders, where two files share their name."""
    path = PurePath(name)
    yield name
    for first in range(len(path.parts)):
        for form in (path, path.with_suffix("") if path.suffix else path):
            yield "-".join(part for part in form.parts[first:] if part not in (".", path.anchor))


def read_names(path: Path, option: str) -> tuple[str, ...]:
    """Read the names of documents from a file.

    One id or file name a line; in `.csv` and `.tsv` the first column with a name of
    `NAMES["documents"]`, else the only column; in `.json` a list, in `.jsonl` a line each, of names
    or of objects with such a key.

    Args:
        path: UTF-8.
        option: for messages.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, has another form, or names nothing.
    """
    try:
        text = read_file(path).decode("utf-8-sig")
        names = tuple(
            name for value in _names(text, path.suffix.lower()) if (name := value.strip())
        )
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        not_text = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else None
        why = not_text or getattr(error, "strerror", None) or error
        raise UsageError(
            f"{option} {path}: {why}", "give one id or file name a line, a column, or a list"
        ) from None
    if not names:
        raise UsageError(
            f"{option} {path}: no document is named", "write one id or file name a line"
        )
    return names


def _names(text: str, ending: str) -> Iterator[str]:
    """Yield the names in a file; `ValueError` where it has another form than its ending says."""
    keys = NAMES["documents"]["id"]
    if ending == ".json":
        table = json.loads(text)
        if not isinstance(table, list):
            raise ValueError("not a list")
        yield from map(_name_in, table)
    elif ending == ".jsonl":
        yield from (_name_in(json.loads(line)) for line in text.splitlines() if line.strip())
    elif ending in (".csv", ".tsv"):
        rows = list(csv.reader(text.splitlines(), delimiter="," if ending == ".csv" else "\t"))
        heads = [head.strip().lower() for head in rows[0]] if rows else []
        known = next((heads.index(key) for key in keys if key in heads), None)
        if known is None and len(heads) > 1:
            raise ValueError(f"no column is called {', '.join(keys[:5])}")
        yield from (row[known or 0] for row in rows[known is not None :] if len(row) > (known or 0))
    else:
        yield from text.splitlines()


def _name_in(value: Any) -> str:
    """Return the name that a JSON value is or has, also that of its image.

    `ValueError` where it has none.
    """
    keys = NAMES["documents"]["id"]
    if isinstance(value, list) and value:
        return _name_in(value[0])
    if (
        isinstance(value, dict)
        and isinstance(value.get("messages"), list)
        and {*keys}.isdisjoint(value)
    ):
        contents = (turn.get("content") for turn in value["messages"] if isinstance(turn, dict))
        parts = [part for content in contents if isinstance(content, list) for part in content]
        value = next((part for part in parts if isinstance(part, dict) and part.get("image")), {})
    if isinstance(value, dict):
        return _name_in(next((value[key] for key in keys if key in value), None)).removeprefix(
            "file://"
        )
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"an entry has no name: none of {', '.join(keys[:5])}")
