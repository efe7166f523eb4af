"""Bounds of Arrow and Parquet.

What a file declares is judged before it is decoded, and a batch before Python has it. A value of
Arrow may stand for far more than its bytes: a run of 2^31 rows, a dictionary's text named a million
times, a list of a billion nothings, a compressed buffer. Types that only such files have are
refused. All others are weighed.
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from audit.errors import ManifestError
from audit.importers.faults import shown_name
from audit.importers.reading import spend

LARGEST_ROW = 256 << 20
"""Bytes of a row: an image of 100 million pixels fits as PNG or JPEG."""
LARGEST_CHUNK = 2 << 30
"""Bytes of one column in a row group of Parquet, or of one buffer in a batch of Arrow, once
decompressed."""
EACH_VALUE = 16
"""Bytes that a value of no bytes counts as: Python makes an object of it all the same."""
_NUMBERS = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "halffloat",
    "float",
)
_TIMES = ("date32", "date64", "time32", "time64", "timestamp", "duration")
_TEXTS = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
READ_TYPES = frozenset(
    (
        *_NUMBERS,
        *_TIMES,
        *_TEXTS,
        "null",
        "double",
        "decimal32",
        "decimal64",
        "decimal128",
        "decimal256",
    )
)
"""Names of the types that are read, besides those that hold others."""


def check_columns(schema: Any, asked: Collection[str]) -> None:
    """Refuse a schema with two columns of one name, or an asked column of a type not read.

    Raises:
        ManifestError: there are some.
    """
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise ManifestError(f"two columns of one name: {shown_name(name)}; rename one of them")
    for name in asked:
        unread = next(_unread_types(schema.field(name).type), None)
        if unread is not None:
            raise ManifestError(
                f"column {shown_name(name)} holds values of type {unread}; "
                "write them as plain columns"
            )


def _unread_types(kind: Any) -> Iterator[str]:
    """Yield the names of the types within a type that are not read."""
    inner_types = _inner_types(kind)
    for inner in inner_types:
        yield from _unread_types(inner)
    if not inner_types and not _is_plain(kind):
        yield str(kind).partition("<")[0]


def _inner_types(kind: Any) -> list[Any]:
    """Return the types of the parts of a type.

    None where it has none, or where such parts are not read.
    """
    import pyarrow.types as types

    if isinstance(kind, _extension()):
        return [kind.storage_type]
    if types.is_struct(kind):
        return [kind.field(number).type for number in range(kind.num_fields)]
    if types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if _is_list(kind) or (types.is_dictionary(kind) and _is_text(kind.value_type)):
        return [kind.value_type]
    return []


def _is_list(kind: Any) -> bool:
    """Test whether values of a type are lists."""
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_plain(kind: Any) -> bool:
    """Test whether a type is one of `READ_TYPES`."""
    name = str(kind).partition("[")[0].partition("(")[0]
    return name in READ_TYPES


def _is_text(kind: Any) -> bool:
    """Test whether values of a type are texts or bytes."""
    return str(kind) in ("string", "large_string", "binary", "large_binary")


def _extension() -> Any:
    """Return pyarrow's class of extension types."""
    import pyarrow

    return pyarrow.BaseExtensionType


def check_parquet(metadata: Any, asked: Collection[str]) -> None:
    """Refuse a Parquet file whose metadata speak of more than can be read.

    Raises:
        ManifestError: a value, or a column of a row group, is too large.
        UsageError: the file has more rows than its size allows.
    """
    spend("rows", metadata.num_rows)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in range(group.num_columns):
            chunk = group.column(column)
            if chunk.path_in_schema.partition(".")[0] in asked:
                _check_chunk(chunk.total_uncompressed_size, group.num_rows)


def _check_chunk(n_bytes: int, n_rows: int) -> None:
    """Refuse the column of a row group whose bytes or rows are too many to read."""
    if n_bytes > LARGEST_ROW * max(n_rows, 1) or n_bytes > LARGEST_CHUNK:
        raise ManifestError(
            f"{n_bytes:,} bytes in one column of {n_rows:,} rows: more than can be read at once"
        )
    spend("bytes", n_bytes)


def check_batch(batch: Any) -> None:
    """Refuse a few rows that Python's objects would take too much memory for, and charge them.

    Raises:
        ManifestError: a row is too large.
        UsageError: all rows together are more than the size of the source allows.
    """
    weight = sum(map(weigh, batch.columns))
    if weight > LARGEST_ROW:
        raise ManifestError(
            f"{weight:,} bytes in {batch.num_rows} rows: more than can be read at once"
        )
    spend("bytes", weight)


def weigh(array: Any) -> int:
    """Count the bytes that the values of an array stand for, written out one by one."""
    import pyarrow.compute as compute
    import pyarrow.types as types

    kind = array.type
    weight = len(array) * EACH_VALUE
    if isinstance(kind, _extension()):
        return weigh(array.storage)
    if types.is_dictionary(kind):
        lengths = compute.take(compute.binary_length(array.dictionary), array.indices)
        return weight + (compute.sum(lengths).as_py() or 0)
    if _is_text(kind):
        return weight + (compute.sum(compute.binary_length(array)).as_py() or 0)
    if types.is_struct(kind):
        return weight + sum(weigh(child) for child in array.flatten())
    if _is_list(kind) or types.is_map(kind):
        return weight + weigh(array.flatten())
    return weight


class _Table(NamedTuple):
    """A table of a flatbuffer: where it stands in the bytes, and how long its list of fields is."""

    content: bytes
    place: int

    def field(self, number: int) -> int:
        """Return the byte at which a numbered field's value stands; 0 where the table lacks it."""
        fields = self.place - _integer(self.content, self.place, "<i")
        size = _integer(self.content, fields, "<H")
        entry = 4 + 2 * number
        if entry + 2 > size:
            return 0
        offset = _integer(self.content, fields + entry, "<H")
        return self.place + offset if offset else 0

    def table(self, number: int) -> "_Table | None":
        """Return the table that a numbered field points at; None without the field."""
        place = self.field(number)
        if not place:
            return None
        return _Table(self.content, place + _integer(self.content, place, "<I"))

    def vector(self, number: int) -> tuple[int, int]:
        """Return the byte of the first entry of a vector field, and its number of entries."""
        place = self.field(number)
        if not place:
            return 0, 0
        start = place + _integer(self.content, place, "<I")
        return start + 4, _integer(self.content, start, "<I")


def _integer(content: Any, place: int, form: str) -> int:
    """Read the integer of struct's format `form` at byte `place` of the content."""
    return int(struct.unpack_from(form, content, place)[0])


_HEADER = 2
"""Field of a message (Arrow's Message.fbs, as those below)."""
_DATA = 1
"""Field of a batch of a dictionary."""
_LENGTH = 0
_BUFFERS = 2
_COMPRESSION = 3
"""Fields of a batch of rows."""


def check_stream(path: Path) -> None:
    """Refuse a stream of Arrow whose batches declare more rows or bytes than can be read.

    Nothing is decoded.

    Raises:
        ManifestError: a buffer is too large once decompressed.
        UsageError: the stream has more rows than its size allows.
    """
    import pyarrow.ipc as ipc

    with _mapped(path) as source:
        for message in ipc.MessageReader.open_stream(source):
            if message.type in ("record batch", "dictionary"):
                _check_message(message)


def _mapped(path: Path) -> Any:
    """Map a file into memory, and return it as Arrow's file."""
    import pyarrow

    return pyarrow.memory_map(str(path))


def _check_message(message: Any) -> None:
    """Refuse a record batch that declares more rows or bytes than can be read."""
    content = message.metadata.to_pybytes()
    root = _Table(content, _integer(content, 0, "<I"))
    batch = root.table(_HEADER)
    if batch is not None and message.type == "dictionary":
        batch = batch.table(_DATA)
    if batch is None:
        raise ManifestError("a batch without a declaration")
    rows = batch.field(_LENGTH)
    spend("rows", _integer(content, rows, "<q") if rows else 0)
    if batch.table(_COMPRESSION) is None:
        return
    start, count = batch.vector(_BUFFERS)
    for number in range(count):
        offset, length = struct.unpack_from("<qq", content, start + 16 * number)
        if length > 0:
            n_bytes = _integer(message.body, offset, "<q")
            _check_buffer(n_bytes)


def _check_buffer(n_bytes: int) -> None:
    """Refuse a compressed buffer by its size; -1 stands for one that is not compressed."""
    if n_bytes > LARGEST_CHUNK:
        raise ManifestError(f"{n_bytes:,} bytes in one buffer: more than can be read at once")
    spend("bytes", max(n_bytes, 0))
