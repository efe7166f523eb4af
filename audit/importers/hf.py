"""Hugging Face data sets on disk.

They are `save_to_disk` folders, Parquet files, or image folders with a metadata file.

No script of a data set is run, nothing is downloaded or cached, and images are files of the source
or bytes in it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from audit.errors import DocauditError, ManifestError, UsageError
from audit.importers.arrow import SPLITS, STATE, Row, Table, parquet_split, saved_splits
from audit.importers.chat import IMAGE_KEYS, ConversationRow, Conversations
from audit.importers.columns import Columns
from audit.importers.faults import shown_path
from audit.importers.files import TEXTS
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, clean, ids_of, part_named
from audit.importers.source import PERSON_KEYS, Source, person_of
from audit.importers.unread import MOST_ROWS, written_columns

METADATA = ("metadata.jsonl", "metadata.csv")
BESIDE = ("data", "system", "history", "input", *IMAGE_KEYS)
"""Columns that may belong to rows beside those with a meaning."""

_SplitPage = tuple[str, Page]
"""The name of a split, and a page of it."""


class HuggingFace(Importer):
    """One document a row, or an image for which there are several rows of questions.

    Columns are recognised by their names (`names.toml`). Officially, `train` was trained on and
    every other split was not.
    """

    name = "hf"
    description = (
        "Hugging Face data set on disk: save_to_disk, Parquet, JSON lines, "
        "or images with metadata.jsonl"
    )
    marks = (
        *((name, "") for name in (SPLITS, STATE, "*.parquet", *METADATA)),
        ("*.jsonl", r'^\s*\{.*"(prompt|instruction|ner_tags|word_labels|questions?)"\s*:'),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a saved data set of Hugging Face."""
        rows = _RowPages(source)
        talks = Conversations(source)
        for table in _tables(source):
            columns = _columns_of(table, source)
            source.tags = source.tags or columns.tags
            read_columns = {*columns.used, *BESIDE, *PERSON_KEYS, source.options.provider or ""}
            for number, (place, row) in enumerate(table.read(read_columns)):
                with source.problems.catch(f"{place}:"):
                    if columns.talks:
                        part = part_named(table.split)
                        talks.add(ConversationRow(place, row, columns, table.folder, part))
                    else:
                        rows.add(_TableRow(table, columns, number, place, row))
        yield from _with_ids(rows.pages)
        yield from talks.pages()


def _columns_of(table: Table, source: Source) -> Columns:
    """Return which columns of a table have a meaning; refuse a table without any.

    Raises:
        UsageError: none of them makes a page.
    """
    columns = Columns(table.columns, table.classes, source.options.labels, source.options.columns)
    if not (columns.talks or columns.asks or columns["output"]):
        columns = _with_output(table, columns, source)
    makes_pages = any(columns[meaning] for meaning in ("words", "text", "image"))
    if not (columns.talks or makes_pages):
        raise columns.refusal(table.place, TEXTS["no_columns"])
    return columns


def _with_output(table: Table, columns: Columns, source: Source) -> Columns:
    """Return the columns with the one that holds what the model writes, where there is one.

    It is the only one with JSON objects or marks of Donut's, whatever its name; of a model that
    writes also the text beside an image. Columns without a meaning are noted.
    """
    rows = _first_rows(table)
    column = ""
    if source.may_write:
        column = _written_column(rows, columns, source)
    if column:
        source.advice.append(TEXTS["written"].format(column=columns.shown(column)))
        columns = columns.writing(column)
    for row in rows:
        source.unread.note(table.columns, columns.used, row)
    return columns


def _written_column(rows: Sequence[Mapping[str, Any]], columns: Columns, source: Source) -> str:
    """Return the column that holds what the model writes; empty where none or several may."""
    stated = {*source.options.columns.values()}
    written = written_columns(rows, {*columns.names} - stated)
    labels = {columns["tags"], columns["spans"], columns["label"]} - {""}
    if len(written) == 1 and (source.writes or labels <= {*written}):
        return written[0]
    text = columns["text"]
    if written or text in stated or not (source.writes and columns["image"]):
        return ""
    return text


def _first_rows(table: Table) -> list[Mapping[str, Any]]:
    """Return the first rows of a table without their bytes; none where they cannot be read."""
    with suppress(DocauditError):
        return [row for _, row in islice(table.read(table.without_bytes), MOST_ROWS)]
    return []


class _TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        table: the table.
        columns: the meanings of its columns.
        number: number of the row.
        place: place of the row, for messages.
        values: values of the row by column.
    """

    table: Table
    columns: Columns
    number: int
    place: str
    values: Mapping[str, Any]

    @property
    def part(self) -> Part | None:
        """Return the part of the data set that the row's split speaks of."""
        return part_named(self.table.split)

    def value(self, meaning: str) -> Any:
        """Return the row's value in the column of this meaning; None where there is none."""
        return self.columns.value(self.values, meaning)


class _RowPages:
    """Makes rows pages; rows with a question share the page of their image or text."""

    def __init__(self, source: Source) -> None:
        """Start with no pages; images and ids come from the source."""
        self._source = source
        self._pages: dict[str, _SplitPage] = {}

    @property
    def pages(self) -> list[_SplitPage]:
        """List the pages made up to now, each with the name of its split."""
        return list(self._pages.values())

    def add(self, row: _TableRow) -> None:
        """Make a row a page, or add its question to the page of its image or text.

        Raises:
            ManifestError: a column holds something else than its name says.
        """
        images = row.value("image")
        if isinstance(images, list) and len(images) > 1:
            self._source.notes["rows with several images, left out"] += 1
            return
        image = _image_in(images)
        path = None
        if isinstance(image, str):
            path = self._source.find_image(image, row.table.folder)
        key = self._key(row, path or image)
        if key not in self._pages:
            page = self._page(row, image, path)
            self._pages[key] = (row.table.split or "row", page)
        row.columns.fill(self._pages[key][1], row.values)

    def _key(self, row: _TableRow, image: str | bytes | None) -> str:
        """Return a key equal for rows of one page: a hash of part and content, else a number."""
        content = image
        text = row.value("text")
        if not content:
            content = text if isinstance(text, str) else None
        if not row.columns["question"] or content is None:
            return str(len(self._pages))
        if isinstance(content, str):
            content = content.encode(errors="surrogatepass")
        return f"{row.part}/{hashlib.sha256(content).hexdigest()}"

    def _page(self, row: _TableRow, image: str | bytes | None, path: str | None) -> Page:
        """Make the page of a row with its image, part and provider, but without its content.

        Args:
            row: the row.
            image: its image as it stands there.
            path: the file of its image, where it names one.
        """
        name = row.value("name")
        row_id = clean(str(name)) if isinstance(name, str | int) else ""
        page = Page(row_id or path or f"{row.number:06d}", part=row.part, place=row.place)
        if path is not None:
            page.image = self._source.at(path)
        elif isinstance(image, bytes):
            page.image = self._source.save_image(image)
        page.provider = self._source.provider(row.values, path)
        page.person = person_of(row.values)
        return page


def _image_in(value: Any) -> str | bytes | None:
    """Return the image of a row: the name of a file, or its bytes; None without one.

    A list holds one at most, and a table has its path or its bytes.

    Raises:
        ManifestError: it is something else.
    """
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("path") if value.get("bytes") is None else value["bytes"]
    if not isinstance(value, bytes | str | None):
        raise ManifestError("the image is neither a file nor bytes of one")
    return value


def _with_ids(pages: Sequence[_SplitPage]) -> Iterator[Page]:
    """Yield the pages, each with an id.

    It is its row's or image's where all differ, else with its split before it.
    """
    short = _short_ids(pages)
    for _, page in pages:
        page.name = short.get(page.name, page.name.replace("/", "-"))
    if _share_names(pages):
        for split, page in pages:
            page.name = f"{split}-{page.name}"
    if _share_names(pages):
        for number, (split, page) in enumerate(pages):
            page.name = f"{split}-{number:06d}"
    for _, page in pages:
        yield page


def _short_ids(pages: Sequence[_SplitPage]) -> Mapping[str, str]:
    """Return the ids of pages that are named by different paths of images, by path; else none."""
    paths = [page.name for _, page in pages if page.image is not None and "." in page.name]
    if len(paths) == len(pages) == len(set(paths)):
        return ids_of(paths)
    return {}


def _share_names(pages: Sequence[_SplitPage]) -> bool:
    """Test whether two pages have one name."""
    return len({page.name for _, page in pages}) < len(pages)


def _tables(source: Source) -> Iterator[Table]:
    """Yield the splits of the data set as tables, whichever layout it is saved in.

    Raises:
        UsageError: it has none of the layouts, or a library is missing.
    """
    src = source.path
    if not src.exists():
        raise UsageError(f"{src}: no such folder", TEXTS["hf_layout"])
    parquet = source.files(".parquet")
    record_files = _record_files(source)
    if (src / SPLITS).is_file() or (src / STATE).is_file():
        yield from saved_splits(src, source.problems)
    elif parquet:
        for split, paths in _by_split(parquet).items():
            yield parquet_split(split, [source.at(path) for path in paths])
    elif record_files:
        for path in record_files:
            with source.problems.catch():
                yield _table_of_records(source, path)
    elif source.ids:
        yield from _tables_of_images(source)
    else:
        raise UsageError(f"{src} holds no Hugging Face data set", TEXTS["hf_layout"])


def _record_files(source: Source) -> list[str]:
    """List the files that hold a data set's rows as text.

    Metadata of images come first, then JSON lines; lists are rows where there are no images.
    """
    lines = source.files(".jsonl")
    lists = source.files(".json")
    tables = source.files(".csv")
    metadata = [path for path in (*lines, *tables) if PurePosixPath(path).name in METADATA]
    if metadata or lines:
        return metadata or lines
    return [] if source.ids else lists


def _table_of_records(source: Source, path: str) -> Table:
    """Read a file of records.

    Raises:
        ManifestError: a record is no object.
    """
    rows: list[Row] = list(source.records(path))
    for place, row in rows:
        if not isinstance(row, dict):
            raise ManifestError(f"{place} is not an object")
    folder = PurePosixPath(path).parent.as_posix()
    return _table_of_rows(path, _split_of(path), rows, folder.removeprefix("."))


def _tables_of_images(source: Source) -> Iterator[Table]:
    """Yield a table for each split of a source that has images and no records.

    The folder of each image is its class, where there are several.
    """
    classes = {path: PurePosixPath(path).parent.name for path in source.ids}
    has_classes = len({*classes.values()}) > 1
    for split, paths in _by_split(classes).items():
        rows: list[Row] = []
        for path in paths:
            row = {"file_name": path}
            if has_classes:
                row["label"] = classes[path]
            rows.append((path, row))
        yield _table_of_rows("the images", split, rows)


def _by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    """Group paths by the split that their folder or file name speaks of."""
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split_of(path), []).append(path)
    return splits


def _table_of_rows(place: str, split: str, rows: Sequence[Row], folder: str = "") -> Table:
    """Return a table over rows that are read already."""
    columns = tuple(dict.fromkeys(chain.from_iterable(row for _, row in rows)))
    return Table(
        split,
        columns,
        lambda _: rows,
        place=shown_path(place),
        folder=folder,
        without_bytes=columns,
    )


def _split_of(path: str) -> str:
    """Return the split that a path speaks of, by a folder's name or the beginning of the file's."""
    names = (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem)
    return next((name for name in names if part_named(name)), "")
