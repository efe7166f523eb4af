"""Hugging Face data sets on disk: `save_to_disk` folders, Parquet files, image folders with a metadata file.

No script of a data set is run, nothing is downloaded or cached, and images are files of the source or bytes in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from audit.errors import ManifestError, UsageError
from audit.importers.arrow import SPLITS, STATE, Row, Table, parquet_split, saved_splits
from audit.importers.interface import Importer
from audit.importers.pages import Page, clean, ids_of, part_named
from audit.importers.peek import Peek
from audit.importers.records import Columns
from audit.importers.source import Source

METADATA = ("metadata.jsonl", "metadata.csv")
SEVERAL = "rows with several images, left out"
LAYOUT = "give a folder of save_to_disk, one with Parquet files, or one of images with metadata.jsonl or metadata.csv"


class HuggingFace(Importer):
    """One document a row, or an image for which there are several rows of questions.

    Columns are recognised by their names (`records.COLUMNS`). Officially, `train` was trained on and every other split
    was not.
    """

    name = "hf"
    description = "Hugging Face data set on disk: save_to_disk, Parquet, or images with metadata.jsonl"

    def looks_like(self, peek: Peek) -> bool:
        """See `Importer.looks_like`."""
        saved = peek.has("dataset_info.json", "state.json") or peek.has("dataset_dict.json")
        return saved or bool(peek.files("*.parquet", *METADATA))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        rows = _Rows(source)
        for table in _tables(source):
            columns = Columns(table.columns, table.classes, source.options.labels)
            source.tags = source.tags or columns.tags
            provider = source.options.provider
            wanted = columns.used | ({provider, "data"} if provider else set())
            for number, (place, row) in enumerate(table.read(wanted)):
                with source.problems.catch(f"{place}:"):
                    rows.add(table, columns, number, row)
        yield from rows.named()


class _Rows:
    """Pages of the rows of all splits."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[str, Page] = {}
        self._pages: list[tuple[str, Page]] = []

    def add(self, table: Table, columns: Columns, number: int, row: Mapping[str, Any]) -> None:
        """Make a row a page, or add its question to the page of its image or text."""
        given = columns.value(row, "image")
        if isinstance(given, list):
            if len(given) > 1:
                self._source.notes[SEVERAL] += 1
                return
            given = given[0] if given else None
        image, path, key = self._image(given, table.folder)
        text = columns.value(row, "text")
        if key is None and isinstance(text, str):
            key = hashlib.sha256(text.encode()).hexdigest()
        part = part_named(table.split)
        page = self._known.get(f"{part}/{key}") if columns["question"] and key is not None else None
        if page is None:
            name = columns.value(row, "name")
            called = clean(str(name)) if isinstance(name, str | int) else ""
            page = Page(called or path or f"{number:06d}", image, part=part)
            page.provider = self._source.provider(row, path)
            self._known[f"{part}/{key}"] = page
            self._pages.append((table.split or "row", page))
        columns.fill(page, row)

    def _image(self, given: Any, folder: str) -> tuple[Path | None, str | None, str | None]:
        """The file of an image, its path within the source, and what equal images have in common."""
        if given is None:
            return None, None, None
        content = given.get("bytes") if isinstance(given, dict) else given
        if isinstance(content, bytes):
            return self._source.save_image(content), None, hashlib.sha256(content).hexdigest()
        named = given.get("path") if isinstance(given, dict) else given
        if not isinstance(named, str):
            raise ManifestError("the image is neither a file nor bytes of one")
        path = self._source.find_image(named, folder)
        return self._source.root / path, path, path

    def named(self) -> Iterator[Page]:
        """Yield the pages, each with an id: its row's or image's where all differ, else with its split before it."""
        pages = [page for _, page in self._pages]
        paths = [page.name for page in pages if page.image is not None and "." in page.name]
        short = ids_of(paths) if len(paths) == len(pages) == len(set(paths)) else {}
        for page in pages:
            page.name = short.get(page.name, page.name.replace("/", "-"))
        for number_them in (False, True):
            if len({page.name for page in pages}) < len(pages):
                for number, (split, page) in enumerate(self._pages):
                    page.name = f"{split}-{number:06d}" if number_them else f"{split}-{page.name}"
        yield from pages


def _tables(source: Source) -> Iterator[Table]:
    """Yield the splits of the data set, in whichever layout.

    Raises:
        UsageError: it has none of the layouts, or a library is missing.
    """
    src = source.path
    if not src.is_dir():
        raise UsageError(f"{src}: no such folder", LAYOUT)
    if (src / SPLITS).is_file() or (src / STATE).is_file():
        yield from saved_splits(src, source.problems)
    elif parquet := source.files(".parquet"):
        by_split: dict[str, list[Path]] = {}
        for path in parquet:
            by_split.setdefault(_split_of(path), []).append(src / path)
        for name, paths in by_split.items():
            yield parquet_split(name, paths)
    elif metadata := [path for path in source.files(".jsonl", ".csv") if PurePosixPath(path).name in METADATA]:
        for path in metadata:
            with source.problems.catch():
                rows = [*source.records(path)]
                wrong = next((place for place, row in rows if not isinstance(row, dict)), None)
                if wrong is not None:
                    raise ManifestError(f"{wrong} is not an object")
                folder = PurePosixPath(path).parent.as_posix()
                yield _table(_split_of(path), rows, "" if folder == "." else folder)
    elif not source.ids:
        raise UsageError(f"{src} holds no Hugging Face data set", LAYOUT)
    else:
        yield from _of_folders([*source.ids])


def _table(split: str, rows: Sequence[Row], folder: str = "") -> Table:
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
    return Table(split, columns, lambda _: rows, folder=folder)


def _of_folders(images: Sequence[str]) -> Iterator[Table]:
    """Yield splits of images alone: the folder of each is its class, where there are several."""
    by_split: dict[str, list[Row]] = {}
    classed = len({PurePosixPath(path).parent.name for path in images}) > 1
    for path in images:
        row = {"file_name": path, **({"label": PurePosixPath(path).parent.name} if classed else {})}
        by_split.setdefault(_split_of(path), []).append((path, row))
    for split, rows in by_split.items():
        yield _table(split, rows)


def _split_of(path: str) -> str:
    """The split that a path within the source speaks of, by a folder's name or the beginning of the file's."""
    return next((name for name in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem) if part_named(name)), "")
