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
from audit.files import decode_text, read_file
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
        """Read the files of members' names and, if given, of held-out names."""
        return cls(
            read_names(path, "--members"),
            () if heldout is None else read_names(heldout, "--heldout"),
        )

    def refuse_shared(self, paths: Iterable[str]) -> None:
        """Refuse a name that several files in different folders have.

        Raises:
            ManifestError: there is one.
        """
        files = Counter[str]()
        for path in map(PurePath, paths):
            files.update({path.name, path.stem})
        for number, name in enumerate((*self.names, *self.heldout), start=1):
            several = files[str(PurePath(name))]
            if several > 1:
                raise ManifestError(
                    f"name {number} of the file is that of {several} pages", "give its path"
                )


def find_named(names: Sequence[str], ids: Collection[str], option: str) -> frozenset[str]:
    """Find the ids of named documents: by id, by path, or by file name, with its ending or without.

    Raises:
        ManifestError: a name is that of no document.
    """
    all_ids = frozenset(ids)
    ids_by_name: dict[str, str] = {}
    for name in names:
        ids_by_name[name] = next((form for form in _possible_ids(name) if form in all_ids), "")
    unknown = [name for name, identifier in ids_by_name.items() if not identifier]
    if unknown:
        first = names.index(unknown[0]) + 1
        raise ManifestError(
            TEXTS["unknown"].format(
                option=option, n=len(unknown), all=len(ids_by_name), first=first
            )
        )
    return frozenset(ids_by_name.values())


def _possible_ids(name: str) -> Iterator[str]:
    """Yield the ids of documents that a name may mean, the likeliest first.

    They hold folders, where two files share their name.
    """
    path = PurePath(name)
    yield name
    without_ending = path.with_suffix("") if path.suffix else path
    for first in range(len(path.parts)):
        for form in (path, without_ending):
            folders = (folder for folder in form.parts[first:] if folder not in (".", path.anchor))
            yield "-".join(folders)


def read_names(path: Path, option: str) -> tuple[str, ...]:
    """Read the names of documents from a file.

    One id or file name a line; in `.csv` and `.tsv` the first column with a name of
    `NAMES["documents"]`, else the only column; in `.json` a list, in `.jsonl` a line each, of names
    or of objects with such a key.

    Args:
        path: UTF-8 or UTF-16.
        option: option that messages name.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, has another form, or names nothing.
    """
    try:
        text = decode_text(read_file(path))
        stripped = (name.strip() for name in _names(text, path.suffix.lower()))
        names = tuple(name for name in stripped if name)
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
    if ending == ".json":
        table = json.loads(text)
        if not isinstance(table, list):
            raise ValueError("not a list")
        yield from map(_name_in, table)
    elif ending == ".jsonl":
        yield from (_name_in(json.loads(line)) for line in text.splitlines() if line.strip())
    elif ending in (".csv", ".tsv"):
        delimiter = "," if ending == ".csv" else "\t"
        yield from _names_in_column(list(csv.reader(text.splitlines(), delimiter=delimiter)))
    else:
        yield from text.splitlines()


def _names_in_column(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the names in the column that holds them, which has a head where there are several.

    `ValueError` where none of several heads is one of `NAMES["documents"]`.
    """
    if not rows:
        return
    keys = NAMES["documents"]["id"]
    heads = [head.strip().lower() for head in rows[0]]
    columns = [heads.index(key) for key in keys if key in heads]
    if columns:
        column = columns[0]
        rows = rows[1:]
    elif len(heads) > 1:
        raise ValueError(f"no column is called {', '.join(keys[:5])}")
    else:
        column = 0
    for row in rows:
        if len(row) > column:
            yield row[column]


def _name_in(value: Any) -> str:
    """Return the name that a JSON value is or has, also that of its image.

    `ValueError` where it has none.
    """
    keys = NAMES["documents"]["id"]
    if isinstance(value, list) and value:
        return _name_in(value[0])
    if isinstance(value, dict):
        if isinstance(value.get("messages"), list) and {*keys}.isdisjoint(value):
            value = _image_part(value["messages"])
        name = next((value[key] for key in keys if key in value), None)
        return _name_in(name).removeprefix("file://")
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"an entry has no name: none of {', '.join(keys[:5])}")


def _image_part(turns: Sequence[Any]) -> dict[str, Any]:
    """Return the first part of a conversation that names an image; empty without one."""
    for turn in turns:
        content = turn.get("content") if isinstance(turn, dict) else None
        if not isinstance(content, list):
            continue
        for piece in content:
            if isinstance(piece, dict) and piece.get("image"):
                return piece
    return {}
