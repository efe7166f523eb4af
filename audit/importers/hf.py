"""Hugging Face data sets on disk: `save_to_disk` folders, Parquet files, image folders with a metadata file.

No script of a data set is run, nothing is downloaded or cached, and images are files of the source
or bytes in it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from audit.errors import ManifestError, UsageError
from audit.importers.arrow import SPLITS, STATE, Row, Table, parquet_split, saved_splits
from audit.importers.chat import IMAGE_KEYS, Conversations
from audit.importers.columns import Columns
from audit.importers.faults import shown_path
from audit.importers.files import TEXTS
from audit.importers.interface import Importer
from audit.importers.pages import Page, clean, ids_of, part_named
from audit.importers.source import Source

METADATA = ("metadata.jsonl", "metadata.csv")
BESIDE = ("data", "system", *IMAGE_KEYS)
"""Columns that may belong to rows beside those with a meaning."""

_Pages = dict[str, tuple[str, Page]]
"""Split and page of each row, by the hash of its image or text where it asks a question, else by
number."""


class HuggingFace(Importer):
    """One document a row, or an image for which there are several rows of questions.

    Columns are recognised by their names (`names.toml`). Officially, `train` was trained on and
    every other split was not.
    """

    name = "hf"
    description = "Hugging Face data set on disk: save_to_disk, Parquet, JSON lines, or images with metadata.jsonl"
    marks = (
        *((name, "") for name in (SPLITS, STATE, "*.parquet", *METADATA)),
        ("*.jsonl", r'^\s*\{.*"(prompt|instruction|ner_tags|word_labels|questions?)"\s*:'),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        pages: _Pages = {}
        talks = Conversations(source)
        for table in _tables(source):
            columns = Columns(
                table.columns, table.classes, source.options.labels, source.options.columns
            )
            if not (
                columns.talks or any(columns[meaning] for meaning in ("words", "text", "image"))
            ):
                raise columns.refusal(table.place, TEXTS["no_columns"])
            source.tags = source.tags or columns.tags
            for number, (place, row) in enumerate(
                table.read({*columns.used, *BESIDE, source.options.provider or ""})
            ):
                with source.problems.catch(f"{place}:"):
                    if columns.talks:
                        talks.add(place, row, columns, table.folder, part_named(table.split))
                    else:
                        _add(source, pages, table, columns, number, (place, row))
        yield from _with_ids([*pages.values()])
        yield from talks.pages()


def _add(
    source: Source, pages: _Pages, table: Table, columns: Columns, number: int, placed: Row
) -> None:
    """Make a row a page, or add its question to the page of its image or text.

    Args:
        source: of the row.
        pages: to which it is added.
        table: of the row.
        columns: of the table.
        number: of the row.
        placed: the row, with its place.

    Raises:
        ManifestError: a column holds something else than its name says.
    """
    place, row = placed
    given, text = columns.value(row, "image"), columns.value(row, "text")
    if isinstance(given, list):
        if len(given) > 1:
            source.notes["rows with several images, left out"] += 1
            return
        given = given[0] if given else None
    if isinstance(given, dict):
        given = given.get("path") if given.get("bytes") is None else given["bytes"]
    if not isinstance(given, bytes | str | None):
        raise ManifestError("the image is neither a file nor bytes of one")
    path = source.find_image(given, table.folder) if isinstance(given, str) else None
    same = path or given or (text if isinstance(text, str) else None)
    key = str(len(pages))
    if columns["question"] and same is not None:
        content = same if isinstance(same, bytes) else same.encode(errors="surrogatepass")
        key = f"{part_named(table.split)}/{hashlib.sha256(content).hexdigest()}"
    if key not in pages:
        name = columns.value(row, "name")
        called = clean(str(name)) if isinstance(name, str | int) else ""
        page = Page(called or path or f"{number:06d}", part=part_named(table.split), place=place)
        page.image = None if path is None else source.at(path)
        if isinstance(given, bytes):
            page.image = source.save_image(given)
        page.provider = source.provider(row, path)
        pages[key] = (table.split or "row", page)
    columns.fill(pages[key][1], row)


def _with_ids(pages: Sequence[tuple[str, Page]]) -> Iterator[Page]:
    """Yield the pages, each with an id: its row's or image's where all differ, else with its split before it."""
    paths = [page.name for _, page in pages if page.image is not None and "." in page.name]
    short = ids_of(paths) if len(paths) == len(pages) == len(set(paths)) else {}
    for _, page in pages:
        page.name = short.get(page.name, page.name.replace("/", "-"))
    for numbered in (False, True):
        if len({page.name for _, page in pages}) < len(pages):
            for number, (split, page) in enumerate(pages):
                page.name = f"{split}-{number:06d}" if numbered else f"{split}-{page.name}"
    yield from (page for _, page in pages)


def _tables(source: Source) -> Iterator[Table]:
    """Yield the splits of the data set, in whichever layout.

    Raises:
        UsageError: it has none of the layouts, or a library is missing.
    """
    src = source.path
    if not src.exists():
        raise UsageError(f"{src}: no such folder", TEXTS["hf_layout"])
    parquet, lines, lists, tables = (
        source.files(suffix) for suffix in (".parquet", ".jsonl", ".json", ".csv")
    )
    metadata = [path for path in (*lines, *tables) if PurePosixPath(path).name in METADATA]
    rows_in = metadata or lines or ([] if source.ids else lists)
    if (src / SPLITS).is_file() or (src / STATE).is_file():
        yield from saved_splits(src, source.problems)
    elif parquet:
        for split, paths in _by_split(parquet).items():
            yield parquet_split(split, [source.at(path) for path in paths])
    elif rows_in:
        for path in rows_in:
            with source.problems.catch():
                rows: list[Row] = [*source.records(path)]
                wrong = next((place for place, row in rows if not isinstance(row, dict)), None)
                if wrong is not None:
                    raise ManifestError(f"{wrong} is not an object")
                folder = PurePosixPath(path).parent.as_posix()
                yield _table(path, _split_of(path), rows, folder.removeprefix("."))
    elif source.ids:  # the folder of each image is its class, where there are several
        classes = {path: PurePosixPath(path).parent.name for path in source.ids}
        for split, paths in _by_split(classes).items():
            labels = (
                {"label": classes[path]} if len({*classes.values()}) > 1 else {} for path in paths
            )
            rows = [
                (path, {"file_name": path, **label})
                for path, label in zip(paths, labels, strict=True)
            ]
            yield _table("the images", split, rows)
    else:
        raise UsageError(f"{src} holds no Hugging Face data set", TEXTS["hf_layout"])


def _by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split_of(path), []).append(path)
    return splits


def _table(place: str, split: str, rows: Sequence[Row], folder: str = "") -> Table:
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
    return Table(split, columns, lambda _: rows, place=shown_path(place), folder=folder)


def _split_of(path: str) -> str:
    """Return the split that a path speaks of, by a folder's name or the beginning of the file's."""
    return next(
        (
            name
            for name in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem)
            if part_named(name)
        ),
        "",
    )
