"""Splits of a Hugging Face data set as plain Arrow.

The library `datasets` decodes whole rows: it opens the files and connects to the addresses that values name, at any
depth. Here values stay as they are stored, and no column is read that was not asked for.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.problems import Problems, inside
from audit.errors import ManifestError, UsageError
from audit.importers.files import form_of, parse_json, read_text

Row = tuple[str, Mapping[str, Any]]
"""The place of a row, for messages, and its values by column."""
SPLITS, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_ROWS = 32
"""Rows that are in memory as Python's values at a time."""


@dataclass(frozen=True)
class Table:
    """One split of a data set.

    Attributes:
        split: its name, "" where it has none.
        columns: names.
        read: yields the rows; columns that are not named may be left out. `UsageError` where a file is damaged.
        classes: by column, the names that its numbers stand for.
        folder: of the file that holds the rows, within the source: paths of images start there.
    """

    split: str
    columns: tuple[str, ...]
    read: Callable[[Collection[str]], Iterable[Row]]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: str = ""


def saved_splits(src: Path, problems: Problems) -> Iterator[Table]:
    """Open what `save_to_disk` wrote; problems of a split are collected.

    Raises:
        UsageError: the library is missing.
        ManifestError: the list of splits is broken or leads out of the source.
    """
    folders = [""]
    if (src / SPLITS).is_file():
        with form_of("a list of splits"):
            listed = parse_json(read_text(src / SPLITS), f"{SPLITS} is not JSON")
            folders = [str(name) for name in listed["splits"]]
    for folder in folders:
        with problems.catch(f"{SPLITS if folder else STATE}:"), form_of("what save_to_disk writes"):
            place = inside(src.resolve(), folder) if folder else src
            state, info = (parse_json(read_text(place / name), f"{name} is not JSON") for name in (STATE, INFO))
            names = [(PurePosixPath(folder) / one["filename"]).as_posix() for one in state["_data_files"]]
            paths = [inside(src.resolve(), name) for name in names]
            yield _split(str(folder or state.get("_split") or ""), paths, _open_stream, info.get("features"))


def parquet_split(name: str, paths: Sequence[Path]) -> Table:
    """Open the Parquet files of a split.

    Raises:
        UsageError: the library is missing, or a file is damaged.
        ManifestError: the files have different columns.
    """
    return _split(name, paths, _open_parquet, None)


def _split(
    name: str, paths: Sequence[Path], opened: Callable[[Path], Any], features: Mapping[str, Any] | None
) -> Table:
    """Open the files of a split, which have the same columns; `opened` opens one."""
    columns: list[tuple[str, ...]] = []
    for path in paths:
        with _readable(path), opened(path) as (schema, _):
            columns.append(tuple(schema.names))
            features = _features(schema.metadata) if features is None else features
        if columns[-1] != columns[0]:
            raise ManifestError(f"{path.name}: its columns are not those of {paths[0].name}")

    def read(wanted: Collection[str]) -> Iterator[Row]:
        asked = [column for column in columns[0] if column in wanted]
        index = 0
        for path in paths:
            with _readable(path), opened(path) as (_, batches):
                for batch in batches(asked):
                    # Arrow reads wherever the offsets of a file point to unless they are checked.
                    batch.validate(full=True)
                    for start in range(0, batch.num_rows, _ROWS):
                        for row in batch.slice(start, _ROWS).select(asked).to_pylist():
                            yield f"{name or 'data set'}[{index}]", row
                            index += 1

    return Table(name, columns[0], read, _class_names(features or {}))


@contextmanager
def _open_stream(path: Path) -> Iterator[Any]:
    """Yield the schema of an Arrow file, and a function that yields its record batches with some of its columns."""
    arrow = _library()
    with arrow.memory_map(str(path)) as source:
        schema = arrow.ipc.open_stream(source).schema

        def batches(asked: Sequence[str]) -> Iterator[Any]:
            source.seek(0)
            fields = [schema.get_field_index(name) for name in asked]
            yield from arrow.ipc.open_stream(source, options=arrow.ipc.IpcReadOptions(included_fields=fields))

        yield schema, batches


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Yield the schema of a Parquet file, and a function as of `_open_stream`."""
    _library()
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(str(path)) as file:
        yield file.schema_arrow, lambda asked: file.iter_batches(_ROWS, columns=list(asked))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what Arrow raises on a damaged file into an error.

    Raises:
        UsageError: the file is damaged.
    """
    arrow = _library()
    try:
        yield
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "Arrow"
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"{path}: not readable as {kind}: {reason}") from None


def _features(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Any]:
    """Return the features that the library writes into the schema of a file; none where they are not there."""
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the names of classes, by column, of columns of class labels and of lists of them."""
    found: dict[str, Sequence[str]] = {}
    for column, feature in features.items():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        if isinstance(inner, dict) and inner.get("_type") in ("List", "LargeList", "Sequence"):
            inner = inner.get("feature")
        names = inner.get("names") if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found[column] = names
    return found


def _library() -> Any:
    """Import the library that reads Arrow and Parquet.

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
