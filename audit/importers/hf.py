"""Hugging Face data sets on disk: `save_to_disk` folders, Parquet files, image folders with a metadata file.

No script of a data set is run, nothing is downloaded or cached, and images are files of the source or bytes in it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.arrow import SPLITS, STATE, Row, Table, parquet_split, saved_splits
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftPage, clean, names_of
from audit.importers.gathering.files import (
    IMAGES,
    ImageFinder,
    csv_rows,
    json_lines,
    provider_of,
    relative_files,
    save_image,
)
from audit.importers.gathering.parts import check_parts, part_named
from audit.importers.gathering.records import Columns
from audit.importers.interface import Source

METADATA = ("metadata.jsonl", "metadata.csv")
SEVERAL = "rows with several images, left out"
LAYOUT = "give a folder of save_to_disk, one with Parquet files, or one of images with metadata.jsonl or metadata.csv"


class HuggingFace(Source):
    """One document a row, or an image for which there are several rows of questions.

    Columns are recognised by their names (`gathering.records.COLUMNS`). Officially, `train` was trained on and every
    other split was not.
    """

    name = "hf"
    description = "Hugging Face data set on disk: save_to_disk, Parquet, or images with metadata.jsonl"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        problems = Problems()
        reader = _Reader(src, request, problems)
        for table in _tables(src, problems):
            reader.add(table)
        check_parts(src, reader.pages, request)
        reader.name_pages()
        return Assembly(self.name, reader.pages, request, problems, reader.tags).contents(reader.notes)


class _Reader:
    """Pages of the rows of all splits."""

    def __init__(self, src: Path, request: ImportRequest, problems: Problems) -> None:
        self._images, self._request, self._problems = ImageFinder(src), request, problems
        self._by_image: dict[str, DraftPage] = {}
        self._splits: list[str] = []
        self._n_saved = 0
        self.pages: list[DraftPage] = []
        self.tags: tuple[str, ...] = ()
        self.notes: Counter[str] = Counter()

    def add(self, table: Table) -> None:
        """Read the rows of one split."""
        columns = Columns(table.columns, table.classes, self._request.options.labels)
        self.tags = self.tags or columns.tags
        provider = self._request.options.provider
        wanted = columns.used | ({provider, "data"} if provider else set())
        for number, (place, row) in enumerate(table.read(wanted)):
            with self._problems.catch(place):
                self._add_row(table, columns, number, row)

    def _add_row(self, table: Table, columns: Columns, number: int, row: Mapping[str, Any]) -> None:
        given = columns.value(row, "image")
        if isinstance(given, list):
            if len(given) > 1:
                self.notes[SEVERAL] += 1
                return
            given = given[0] if given else None
        image, path, key = self._image(given, table.folder)
        text = columns.value(row, "text")
        if key is None and isinstance(text, str):
            key = hashlib.sha256(text.encode()).hexdigest()
        asks = columns["question"] is not None and key is not None
        part = part_named(table.split)
        page = self._by_image.get(f"{part}/{key}") if asks else None
        if page is None:
            name = columns.value(row, "name")
            called = clean(str(name)) if isinstance(name, str | int) else ""
            page = DraftPage(called or path or f"{number:06d}", image, part=part)
            page.provider = provider_of(self._request.options.provider, row, path)
            self._by_image[f"{part}/{key}"] = page
            self.pages.append(page)
            self._splits.append(table.split)
        columns.fill(page, row)

    def _image(self, given: Any, folder: str) -> tuple[Path | None, str | None, str | None]:
        """The file of an image, its path within the source, and what equal images have in common."""
        if given is None:
            return None, None, None
        content = given.get("bytes") if isinstance(given, dict) else given
        if isinstance(content, bytes):
            self._n_saved += 1
            saved = save_image(content, self._request.scratch, self._n_saved)
            return saved, None, hashlib.sha256(content).hexdigest()
        named = given.get("path") if isinstance(given, dict) else given
        if not isinstance(named, str):
            raise ManifestError("the image is neither a file nor bytes of one")
        path = self._images.find(named, folder)
        return self._images.at(path), path, path

    def name_pages(self) -> None:
        """Give every page an id: its row's or image's own where all differ, else with its split before it."""
        paths = [page.name for page in self.pages if page.image is not None and "." in page.name]
        short = names_of(paths) if len(paths) == len(self.pages) == len(set(paths)) else {}
        for page in self.pages:
            page.name = short.get(page.name, page.name.replace("/", "-"))
        if len({page.name for page in self.pages}) < len(self.pages):
            for page, split in zip(self.pages, self._splits, strict=True):
                page.name = f"{split or 'row'}-{page.name}"
        if len({page.name for page in self.pages}) < len(self.pages):
            for number, (page, split) in enumerate(zip(self.pages, self._splits, strict=True)):
                page.name = f"{split or 'row'}-{number:06d}"


def _tables(src: Path, problems: Problems) -> Iterator[Table]:
    """The splits of the data set, in whichever layout.

    Raises:
        UsageError: it has none of the layouts, or a library is missing.
    """
    if not src.is_dir():
        raise UsageError(f"{src}: no such folder", LAYOUT)
    if (src / SPLITS).is_file() or (src / STATE).is_file():
        yield from saved_splits(src, problems)
        return
    parquet = relative_files(src, (".parquet",))
    if parquet:
        by_split: dict[str, list[Path]] = {}
        for path in parquet:
            by_split.setdefault(_split_of(path), []).append(src / path)
        for name, paths in by_split.items():
            yield parquet_split(name, paths)
        return
    metadata = [path for path in relative_files(src, (".jsonl", ".csv")) if PurePosixPath(path).name in METADATA]
    if metadata:
        for path in metadata:
            with problems.catch():
                yield _of_metadata(src, path)
        return
    images = relative_files(src, IMAGES)
    if not images:
        raise UsageError(f"{src} holds no Hugging Face data set", LAYOUT)
    yield from _of_folders(images)


def _of_rows(rows: Sequence[Row]) -> Callable[[Collection[str]], Sequence[Row]]:
    return lambda _: rows


def _of_metadata(src: Path, path: str) -> Table:
    folder = PurePosixPath(path).parent
    rows: list[Row] = []
    if path.endswith(".csv"):
        rows = [(f"{path}:{number}:", row) for number, row in csv_rows(src / path, path)]
    else:
        for place, value in json_lines(src / path):
            if not isinstance(value, dict):
                raise ManifestError(f"{place} is not an object")
            rows.append((f"{place}:", value))
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
    return Table(_split_of(path), columns, _of_rows(rows), folder="" if folder.name == "" else folder.as_posix())


def _of_folders(images: Sequence[str]) -> Iterator[Table]:
    """Images alone: the folder of each is its class, where there are several."""
    by_split: dict[str, list[Row]] = {}
    classed = len({PurePosixPath(path).parent.name for path in images}) > 1
    for path in images:
        own = {"file_name": path, **({"label": PurePosixPath(path).parent.name} if classed else {})}
        by_split.setdefault(_split_of(path), []).append((f"{path}:", own))
    for split, rows in by_split.items():
        yield Table(split, ("file_name", "label"), _of_rows(rows))


def _split_of(path: str) -> str:
    """The split that a path within the source speaks of, by a folder's name or the beginning of the file's."""
    return next((name for name in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem) if part_named(name)), "")
