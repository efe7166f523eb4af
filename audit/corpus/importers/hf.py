"""Hugging Face data sets on disk: `save_to_disk` folders, Parquet files, image folders with a metadata file.

No script of a data set is run, and nothing is downloaded or cached.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.importers.contents import ImportRequest, SourceContents
from audit.corpus.importers.gathering.assembly import Assembly
from audit.corpus.importers.gathering.choosing import TASKS
from audit.corpus.importers.gathering.drafts import DraftPage, clean, names_of
from audit.corpus.importers.gathering.files import (
    IMAGES,
    ImageFinder,
    csv_rows,
    json_lines,
    provider_of,
    relative_files,
    save_image,
)
from audit.corpus.importers.gathering.parts import check_parts, part_named
from audit.corpus.importers.gathering.records import Columns
from audit.corpus.importers.interface import Source
from audit.corpus.importers.source_files import parse_json, read_text
from audit.corpus.importers.splits import OfficialPart
from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError

METADATA = ("metadata.jsonl", "metadata.csv")
SEVERAL = "rows with several images, left out"
LAYOUT = "give a folder of save_to_disk, one with Parquet files, or one of images with metadata.jsonl or metadata.csv"


@dataclass(frozen=True)
class _Table:
    """One split of a data set: its rows, one at a time, and the names that numbers of a column stand for.

    Attributes:
        split: its name, "" where it has none.
        columns: their names.
        rows: with their places, for messages.
        folder: of the file that holds the rows, within the source: paths of images start there.
    """

    split: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, Mapping[str, Any]]]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: str = ""

    @property
    def part(self) -> OfficialPart | None:
        """The part of the source's own division."""
        return part_named(self.split)


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
        for table in _tables(src, request.scratch, problems):
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

    def add(self, table: _Table) -> None:
        """Read the rows of one split."""
        columns = Columns(table.columns, table.classes, self._request.options.labels)
        self.tags = self.tags or columns.tags
        for number, (place, row) in enumerate(table.rows):
            with self._problems.catch(place):
                self._add_row(table, columns, number, row)

    def _add_row(self, table: _Table, columns: Columns, number: int, row: Mapping[str, Any]) -> None:
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
        page = self._by_image.get(f"{table.part}/{key}") if asks else None
        if page is None:
            name = columns.value(row, "name")
            called = clean(str(name)) if isinstance(name, str | int) else ""
            page = DraftPage(called or path or f"{number:06d}", image, part=table.part)
            page.provider = provider_of(self._request.options.provider, row, path)
            self._by_image[f"{table.part}/{key}"] = page
            self.pages.append(page)
            self._splits.append(table.split)
        columns.fill(page, row)

    def _image(self, given: Any, folder: str) -> tuple[Path | None, str | None, str | None]:
        """The file of an image, its path within the source, and what equal images have in common."""
        if given is None:
            return None, None, None
        content = given.get("bytes") if isinstance(given, dict) else None
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


def _tables(src: Path, scratch: Path, problems: Problems) -> Iterator[_Table]:
    """The splits of the data set, in whichever layout.

    Raises:
        UsageError: it has none of the layouts, or a library is missing.
    """
    if not src.is_dir():
        raise UsageError(f"{src}: no such folder", LAYOUT)
    if (src / "dataset_dict.json").is_file() or (src / "state.json").is_file():
        yield from _saved(src)
        return
    parquet = relative_files(src, (".parquet",))
    if parquet:
        yield from _of_parquet(src, parquet, scratch)
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


def _saved(src: Path) -> Iterator[_Table]:
    _check_names(src)
    datasets = _library()
    try:
        loaded = datasets.load_from_disk(str(src))
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{src}: the data set cannot be loaded: {_first_line(error)}") from None
    splits = loaded if isinstance(loaded, dict) else {str(loaded.split or ""): loaded}
    for split, dataset in splits.items():
        yield _of_dataset(datasets, str(split), dataset)


def _check_names(src: Path) -> None:
    """Refuse a saved data set whose files name others outside it, which the library would read.

    Raises:
        ManifestError: one does, or is broken.
    """
    root, problems = src.resolve(), Problems()
    for path in relative_files(src, (".json",)):
        named = PurePosixPath(path).name
        if named not in ("state.json", "dataset_dict.json"):
            continue
        with problems.catch(f"{path}:"):
            table = parse_json(read_text(src / path), "not JSON")
            if not isinstance(table, dict):
                raise ManifestError("not an object")
            files = [*(table.get("_data_files") or []), *(table.get("_indices_files") or [])]
            names = [one.get("filename") if isinstance(one, dict) else one for one in files]
            for name in (*names, *(table.get("splits") or [])):
                inside(root, (PurePosixPath(path).parent / str(name)).as_posix())
    problems.raise_if_any()


def _of_parquet(src: Path, paths: Sequence[str], scratch: Path) -> Iterator[_Table]:
    datasets = _library()
    by_split: dict[str, list[str]] = {}
    for path in paths:
        by_split.setdefault(_split_of(path), []).append(str(src / path))
    for split, files in by_split.items():
        try:
            dataset = datasets.Dataset.from_parquet(files, cache_dir=str(scratch / "parquet"))
        except (OSError, ValueError, KeyError, datasets.exceptions.DatasetGenerationError) as error:
            raise UsageError(f"{files[0]}: not readable as Parquet: {_first_line(error)}") from None
        yield _of_dataset(datasets, split, dataset)


def _of_dataset(datasets: Any, split: str, dataset: Any) -> _Table:
    classes: dict[str, Sequence[str]] = {}
    for name, feature in dataset.features.items():
        inner = getattr(feature, "feature", feature[0] if isinstance(feature, list) and feature else feature)
        if isinstance(inner, datasets.ClassLabel):
            classes[name] = list(inner.names)
        if isinstance(feature, datasets.Image):
            dataset = dataset.cast_column(name, datasets.Image(decode=False))
        elif isinstance(inner, datasets.Image):
            dataset = dataset.cast_column(name, datasets.List(datasets.Image(decode=False)))
    return _Table(split, tuple(dataset.column_names), _Rows(split, dataset), classes)


class _Rows(Sequence[tuple[str, Mapping[str, Any]]]):
    """The rows of a data set, each read when it is asked for."""

    def __init__(self, split: str, dataset: Any) -> None:
        self._split, self._dataset = split or "data set", dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError(index)
        return f"{self._split}[{index}]:", self._dataset[index]


def _of_metadata(src: Path, path: str) -> _Table:
    folder = PurePosixPath(path).parent
    rows: list[tuple[str, Mapping[str, Any]]] = []
    if path.endswith(".csv"):
        rows = [(f"{path}:{number}:", row) for number, row in csv_rows(src / path, path)]
    else:
        for place, value in json_lines(src / path):
            if not isinstance(value, dict):
                raise ManifestError(f"{place} is not an object")
            rows.append((f"{place}:", value))
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
    return _Table(_split_of(path), columns, rows, folder="" if folder.name == "" else folder.as_posix())


def _of_folders(images: Sequence[str]) -> Iterator[_Table]:
    """Images alone: the folder of each is its class, where there are several."""
    by_split: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    classed = len({PurePosixPath(path).parent.name for path in images}) > 1
    for path in images:
        own = {"file_name": path, **({"label": PurePosixPath(path).parent.name} if classed else {})}
        by_split.setdefault(_split_of(path), []).append((f"{path}:", own))
    for split, rows in by_split.items():
        yield _Table(split, ("file_name", "label"), rows)


def _split_of(path: str) -> str:
    """The split that a path within the source speaks of, by a folder's name or the beginning of the file's."""
    return next((name for name in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem) if part_named(name)), "")


def _library() -> Any:
    """The library that reads Arrow and Parquet.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import datasets
    except ImportError:
        raise UsageError(
            "reading Arrow and Parquet needs the library datasets", "pip install 'docaudit[datasets]'"
        ) from None
    datasets.disable_progress_bars()
    return datasets


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
