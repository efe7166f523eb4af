"""Names that the owner gives: of documents that were trained on, or never were."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from audit.errors import ManifestError, UsageError
from audit.files import decode_text, read_file
from audit.importers.faults import NAMES
from audit.importers.files import TEXTS

DELIMITERS = "\t;,|"
"""What may stand between the columns of a list; in plain text no comma, which names may hold."""


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

    def with_pages(self, pages: Mapping[str, Sequence[str]]) -> NamedMembers:
        """Return the names, those of a document of several pages as the ids of its pages.

        Args:
            pages: the ids of the pages of each document, by the path of its file.

        Raises:
            ManifestError: a name is that of several documents, and of no page.
        """
        documents: dict[str, set[str]] = {}
        for path in pages:
            for form in _possible_ids(path):
                documents.setdefault(form, set()).add(path)
        ids = frozenset(chain.from_iterable(pages.values()))

        def expanded(names: Sequence[str]) -> tuple[str, ...]:
            """Return names with the ids of pages in place of those of documents."""
            page_ids: list[str] = []
            for number, name in enumerate(names, start=1):
                paths = _documents_named(name, documents, ids)
                if len(paths) > 1:
                    raise _shared_error(number, len(paths), "documents")
                page_ids += chain.from_iterable(pages[path] for path in paths)
                if not paths:
                    page_ids.append(name)
            return tuple(page_ids)

        return replace(self, names=expanded(self.names), heldout=expanded(self.heldout))

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
                raise _shared_error(number, several, "pages")


def _shared_error(number: int, several: int, what: str) -> ManifestError:
    """Return the error of a name that several pages or documents have."""
    return ManifestError(f"name {number} of the file is that of {several} {what}", "give its path")


def _documents_named(
    name: str, documents: Mapping[str, set[str]], ids: Collection[str]
) -> Collection[str]:
    """Return the paths of the documents that a name may mean; none where it is that of a page.

    Args:
        name: the name.
        documents: paths of documents, by each form of their names.
        ids: ids of their pages.
    """
    for form in _possible_ids(name):
        if form in ids:
            return ()
        if form in documents:
            return documents[form]
    return ()


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
            ),
            TEXTS["known_names"],
        )
    return frozenset(ids_by_name.values())


def _possible_ids(name: str) -> Iterator[str]:
    """Yield the ids of documents that a name may mean, the likeliest first.

    They hold folders, where two files share their name.
    """
    path = _path_of(name)
    yield name
    without_ending = path.with_suffix("") if path.suffix else path
    for first in range(len(path.parts)):
        for form in (path, without_ending):
            folders = (folder for folder in form.parts[first:] if folder not in (".", path.anchor))
            yield "-".join(folders)


def _path_of(name: str) -> PurePath:
    """Return the path that a name is, also one of Windows."""
    return PurePath(name.replace("\\", "/"))


def read_names(path: Path, option: str) -> tuple[str, ...]:
    """Read the names of documents from a file.

    One id or file name a line, or several with `;` between them; of a table the first column with
    a name of `NAMES["documents"]`, else the only column; in `.json` a list, in `.jsonl` a line
    each, of names or of objects with such a key.

    Args:
        path: UTF-8 or UTF-16.
        option: option that messages name.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, has another form, or names nothing.
    """
    try:
        text = decode_text(read_file(path))
        bare = map(_without_marks, _names(text, path.suffix.lower()))
        names = tuple(name for name in bare if name)
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
    else:
        yield from _names_in_lines(text.splitlines(), is_table=ending in (".csv", ".tsv"))


def _without_marks(name: str) -> str:
    """Return a name without white space, a byte order mark, quotes or a `;` around it."""
    name = name.strip("\ufeff\t\n\r ;")
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return name


def _names_in_lines(lines: Sequence[str], *, is_table: bool) -> Iterator[str]:
    """Yield the names in lines, or in the column of a table that holds them.

    `ValueError` where none of several heads is one of `NAMES["documents"]`.
    """
    first = next((line for line in lines if line.strip()), "")
    delimiters = DELIMITERS if is_table else DELIMITERS.replace(",", "")
    delimiter = max(delimiters, key=first.count)
    if not is_table and delimiter not in first.strip(" ;"):
        yield from lines
        return
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if any(row)]
    if len(rows) == 1 and _column_of_names(rows[0]) is None:
        yield from rows[0]
    else:
        yield from _names_in_column(rows)


def _names_in_column(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the names in the column that holds them, which has a head where there are several.

    `ValueError` where none of several heads is one of `NAMES["documents"]`.
    """
    if not rows:
        return
    column = _column_of_names(rows[0])
    if column is not None:
        rows = rows[1:]
    elif len(rows[0]) > 1:
        raise ValueError(f"no column is called {', '.join(NAMES['documents']['id'][:5])}")
    else:
        column = 0
    for row in rows:
        if len(row) > column:
            yield row[column]


def _column_of_names(row: Sequence[str]) -> int | None:
    """Return the index of the head of names in the first row of a table; None without one."""
    heads = [_without_marks(head).lower() for head in row]
    for key in NAMES["documents"]["id"]:
        if key in heads:
            return heads.index(key)
    return None


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
