"""Splits of a Hugging Face data set as plain Arrow.

The library `datasets` decodes whole rows: it opens the files and connects to the addresses that
values name, at any depth. Here values stay as they are stored, and no column is read that was not
asked for.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.arrow_bounds import (
    LARGEST_ROW,
    check_batch,
    check_columns,
    check_parquet,
    check_stream,
    weigh,
)
from audit.importers.faults import name_of, refusing, shown_path
from audit.importers.files import form_of, parse_json, place_named, read_text
from audit.importers.reading import note_opened

Row = tuple[str, Mapping[str, Any]]
"""The place of a row, for messages, and its values by column."""
SPLITS = "dataset_dict.json"
STATE = "state.json"
INFO = "dataset_info.json"
_ROWS = 32
"""Rows that are in memory as Python's values at a time."""


@dataclass(frozen=True)
class Table:
    """One split of a data set.

    Attributes:
        split: its name, "" where it has none.
        place: place of it, for messages.
        columns: names.
        read: yields the rows; columns that are not named may be left out. `UsageError` where a file
            is damaged.
        classes: names by column that its numbers stand for.
        folder: folder of the file that holds the rows, within the source: paths of images start
            there.
        without_bytes: columns that hold no bytes, so that a few of their values can be looked at.
    """

    split: str
    columns: tuple[str, ...]
    read: Callable[[Collection[str]], Iterable[Row]]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    place: str = "the data set"
    folder: str = ""
    without_bytes: tuple[str, ...] = ()


def saved_splits(src: Path, problems: Problems) -> Iterator[Table]:
    """Yield the splits that `save_to_disk` wrote as tables; collect problems of a split.

    Raises:
        UsageError: the library is missing.
        ManifestError: the list of splits is broken or leads out of the source.
    """
    folders = [""]
    if (src / SPLITS).is_file():
        with form_of("a list of splits"):
            split_list = parse_json(read_text(src / SPLITS), f"{SPLITS} is not JSON")
            folders = [str(name) for name in split_list["splits"]]
    for folder in folders:
        with problems.catch(f"{SPLITS if folder else STATE}:"), form_of("what save_to_disk writes"):
            yield _saved_split(src, folder)


def _saved_split(src: Path, folder: str) -> Table:
    """Open a split that `save_to_disk` wrote into `folder`, and return it as a table.

    Args:
        src: the source.
        folder: folder of the split within it; empty where the source is the split.
    """
    place = place_named(src.resolve(), folder) if folder else src
    state = parse_json(read_text(place / STATE), f"{STATE} is not JSON")
    info = parse_json(read_text(place / INFO), f"{INFO} is not JSON")
    names = [
        (PurePosixPath(folder) / data_file["filename"]).as_posix()
        for data_file in state["_data_files"]
    ]
    paths = [place_named(src.resolve(), name) for name in names]
    for path in paths:
        with _readable(path):
            note_opened(path)
            check_stream(path)
    split = str(folder or state.get("_split") or "")
    return _split(_SplitFiles(split, folder, paths, _open_stream), info.get("features"))


def parquet_split(name: str, paths: Sequence[Path]) -> Table:
    """Open the Parquet files of a split, and return them as one table.

    Raises:
        UsageError: the library is missing, or a file is damaged.
        ManifestError: the files have different columns.
    """
    return _split(_SplitFiles(name, name, paths, _open_parquet), None)


@dataclass(frozen=True)
class _SplitFiles:
    """The files of a split.

    Attributes:
        name: name of the split.
        place: place of the split, for messages; may be empty.
        paths: the files.
        open_file: opens a file, as `_open_stream`.
    """

    name: str
    place: str
    paths: Sequence[Path]
    open_file: Callable[[Path], Any]

    def read_rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of all files, with these columns."""
        index = 0
        for path in self.paths:
            for row in self._rows_of_file(path, columns):
                yield f"{shown_path(self.place or 'data set')}[{index}]", row
                index += 1

    def _rows_of_file(self, path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a file, with these columns."""
        with _readable(path), self.open_file(path) as (schema, batches):
            check_columns(schema, columns)
            for batch in batches(columns):
                # Arrow reads wherever the offsets of a file point to unless they are checked.
                batch.validate(full=True)
                for rows in _rows_of(batch.select(columns)):
                    yield from rows.to_pylist()


def _split(files: _SplitFiles, features: Mapping[str, Any] | None) -> Table:
    """Return the files of a split as one table; they must have the same columns.

    Args:
        files: the files of the split.
        features: the features of its columns; None: those that the first file holds.

    Raises:
        UsageError: the library is missing, or a file is damaged.
        ManifestError: the files have different columns.
    """
    paths = files.paths
    columns: list[tuple[str, ...]] = []
    without_bytes: tuple[str, ...] = ()
    for path in paths:
        with _readable(path), files.open_file(path) as (schema, _):
            columns.append(tuple(schema.names))
            check_columns(schema, ())
            without_bytes = tuple(field.name for field in schema if "binary" not in str(field.type))
            features = _features(schema.metadata) if features is None else features
        if columns[-1] != columns[0]:
            raise ManifestError(
                f"{name_of(path)}: its columns are not those of {name_of(paths[0])}"
            )

    def read_rows(names: Collection[str]) -> Iterator[Row]:
        """Yield the rows of all files of the split, with those of its columns that are named."""
        return files.read_rows([column for column in columns[0] if column in names])

    return Table(
        files.name,
        columns[0],
        read_rows,
        _class_names(features or {}),
        shown_path(files.place or "the data set"),
        without_bytes=without_bytes,
    )


def _rows_of(batch: Any) -> Iterator[Any]:
    """Yield the rows of a batch in slices that Python's memory holds."""
    for start in range(0, batch.num_rows, _ROWS):
        rows = batch.slice(start, _ROWS)
        if sum(map(weigh, rows.columns)) <= LARGEST_ROW:
            slices = [rows]
        else:
            slices = [rows.slice(number, 1) for number in range(rows.num_rows)]
        for few in slices:
            check_batch(few)
            yield few


@contextmanager
def _open_stream(path: Path) -> Iterator[Any]:
    """Yield the schema of an Arrow file, and a function that yields its record batches.

    They have some of its columns.
    """
    arrow = _library()
    with arrow.memory_map(str(path)) as source:
        schema = arrow.ipc.open_stream(source).schema

        def batches(columns: Sequence[str]) -> Iterator[Any]:
            """Yield the record batches of the stream, with these columns."""
            source.seek(0)
            fields = [schema.get_field_index(name) for name in columns]
            yield from arrow.ipc.open_stream(
                source, options=arrow.ipc.IpcReadOptions(included_fields=fields)
            )

        yield schema, batches


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Yield the schema of a Parquet file, and a function that yields batches of its rows."""
    _library()
    import pyarrow.parquet

    note_opened(path)
    with pyarrow.parquet.ParquetFile(str(path)) as file:

        def batches(columns: Sequence[str]) -> Iterator[Any]:
            """Yield batches of the Parquet file's rows, with these columns."""
            check_parquet(file.metadata, columns)
            yield from file.iter_batches(_ROWS, columns=list(columns))

        yield file.schema_arrow, batches


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what Arrow raises on a damaged file into an error.

    Raises:
        UsageError: the file is damaged.
    """
    _library()
    kind = "Parquet" if path.suffix == ".parquet" else "Arrow"
    try:
        with refusing(f"not readable as {kind}"):
            yield
    except ManifestError as error:
        raise UsageError(
            [f"{name_of(path)}: {problem}" for problem in error.problems], error.hint
        ) from None


def _features(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Any]:
    """Return the features that the library `datasets` wrote into the schema of a file.

    None where they are not there.
    """
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the names of classes, by column, of columns of class labels and of lists of them."""
    class_names: dict[str, Sequence[str]] = {}
    for column, feature in features.items():
        inner = _inner_feature(feature)
        if not isinstance(inner, dict) or inner.get("_type") != "ClassLabel":
            continue
        names = inner.get("names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            class_names[column] = names
    return class_names


def _inner_feature(feature: Any) -> Any:
    """Return the feature of the values of a list, in either form; else the feature itself."""
    if isinstance(feature, list) and feature:
        feature = feature[0]
    if isinstance(feature, dict) and feature.get("_type") in ("List", "LargeList", "Sequence"):
        return feature.get("feature")
    return feature


def _library() -> Any:
    """Import and return pyarrow, which reads Arrow and Parquet.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        hint = "pip install 'docaudit[datasets]'"
        raise UsageError("reading Arrow and Parquet needs the library pyarrow", hint) from None
    return pyarrow
