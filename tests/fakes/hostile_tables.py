"""Parquet and Arrow of any types under the names that importers know, chat templates, options, and a hostile server."""

import datetime
import json
import random
import socket
import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from watching import Listener

MARK = "Zq7xNadia"
"""A value that stands nowhere else: it is planted in sources, and no message may have it."""
_COLUMNS = (
    *(
        "image",
        "text",
        "words",
        "tokens",
        "bboxes",
        "ner_tags",
        "labels",
        "label",
        "category",
        "question",
        "answers",
    ),
    *(
        "id",
        "messages",
        "prompt",
        "completion",
        "ground_truth",
        "spans",
        "entities",
        "extra",
        "file_name",
        MARK,
    ),
)
_WHEN = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)  # noqa: DTZ001 - Arrow has types with a zone and without
TEMPLATES = (
    "{{ raise_exception('no ' + messages[0]['content']|string) }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}",
    "{{ 'a' * 2000000000 }}",
    "{{ '%*d' % (2000000000, 1) }}",
    "{{ 9 ** 9 ** 8 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ (''|attr('__class__')).mro() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{% include '/etc/passwd' %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ messages[0]['content'] }}\x1b[2J",
    "{% if",
    "{{ undefined.value }}",
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
    "{{ namespace(a=1).b }}{{ messages|length / 0 }}",
    "{{ '{0.__class__}'.format(1) }}",
    "",
    "{" * 50_000,
    "{{ [1]|map('string')|join(messages[0]['content']) }}",
)


def _values(generator: random.Random) -> tuple[Any, Any]:
    """Draw a type and a value of it, which may hold the mark."""
    import pyarrow as pa

    kinds: tuple[tuple[Any, Any], ...] = (
        (pa.string(), MARK),
        (pa.large_string(), f"http://[{MARK}/a.png"),
        (pa.string(), "images/p0.png"),
        (pa.binary(), MARK.encode()),
        (pa.binary(), b"\xff\xfe\x00"),
        (pa.date32(), _WHEN.date()),
        (pa.timestamp("ns"), _WHEN),
        (pa.timestamp("us", "Europe/Rome"), _WHEN),
        (pa.timestamp("s", "No/Where"), _WHEN),
        (pa.time64("us"), _WHEN.time()),
        (pa.duration("ms"), datetime.timedelta(days=3)),
        (pa.decimal128(9, 2), Decimal("12.40")),
        (pa.int64(), 2**62),
        (pa.float64(), float("nan")),
        (pa.bool_(), True),
        (pa.null(), None),
        (pa.list_(pa.string()), [MARK, "b"]),
        (pa.list_(pa.string()), ["Total", "9.00"]),
        (pa.list_(pa.int32()), [0, 1]),
        (pa.list_(pa.list_(pa.int16())), [[1, 2, 3, 4], [5, 6, 7, 8]]),
        (pa.list_(pa.date32()), [_WHEN.date()]),
        (
            pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            {"bytes": None, "path": f"{MARK}.png"},
        ),
        (
            pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
            [{"role": MARK, "content": MARK}],
        ),
        (pa.struct({"text": pa.list_(pa.string())}), {"text": [MARK]}),
        (pa.map_(pa.string(), pa.int8()), [(MARK, 1)]),
        (pa.dictionary(pa.int8(), pa.string()), MARK),
        (pa.list_(pa.string(), 2), [MARK, MARK]),
        (pa.string_view(), MARK),
    )
    return generator.choice(kinds)


def drawn_table(seed: int) -> Any:
    """Draw a table of a few rows; now and then two of its columns have one name."""
    import pyarrow as pa

    generator = random.Random(seed)
    names = generator.sample(_COLUMNS, generator.randint(1, 6))
    if generator.random() < 0.1:
        names.append(names[0])
    columns = []
    for _ in names:
        kind, value = _values(generator)
        rows = [value if generator.random() < 0.8 else None for _ in range(4)]
        columns.append(pa.array(rows, kind))
    return pa.table(columns, names=names)


def write_table(path: Path, seed: int) -> None:
    """Write a drawn table in place of a file of Parquet or Arrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = drawn_table(seed)
    try:
        if path.suffix == ".parquet":
            pq.write_table(
                table, path, compression=random.Random(seed).choice(("zstd", "snappy", "none"))
            )
        else:
            with (
                pa.OSFile(str(path), "wb") as stream,
                pa.ipc.new_stream(stream, table.schema) as writer,
            ):
                writer.write_table(table)
    except (pa.ArrowException, ValueError, OSError):
        return  # a type that the format does not have: the file stays as it is


def write_template(path: Path, seed: int) -> None:
    """Write a chat template."""
    path.write_text(TEMPLATES[seed % len(TEMPLATES)])


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LISTED = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}).encode()


def _answer(body: bytes, more: bytes = b"") -> bytes:
    return _HEAD + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


REPLIES: Mapping[str, bytes] = {
    "nothing": b"",
    "no head": b"\x00\xff" * 50,
    "no JSON": _answer(b"{"),
    "deep": _answer(b"[" * 200_000),
    "other types": _answer(b'{"data": {"id": 5}}'),
    "half a letter": _answer(b'{"data": [{"id": "\\ud800", "owned_by": null}]}'),
    "control": _answer(b'{"data": [{"id": "\\u001b[2Jm", "owned_by": "\\u202e"}]}'),
    "length too long": _answer(b"{}", b"Content-Length: 999999\r\n"),
    "many headers": _HEAD + b"X: y\r\n" * 5_000 + b"\r\n",
    "moved to a file": b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
    "moved to another": b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.7/\r\n\r\n",
    "error with the page": b"HTTP/1.1 400 Bad\r\nContent-Length: 30\r\n\r\n"
    + b'{"error":{"message":"Zq7xNadia',
    "gzip": _answer(b"\x1f\x8b" + b"\x00" * 100, b"Content-Encoding: gzip\r\n"),
    "chunks": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "huge number": _answer(b'{"data": [{"id": "m", "max_model_len": ' + b"9" * 5_000 + b"}]}"),
    "models": _answer(_LISTED),
}
"""What a server sends to any request, as bytes."""


class HostileServer(Listener):
    """Answers each connection with one of `REPLIES`, or with what never ends; a context manager.

    Attributes:
        address: of the server.
    """

    def __init__(self, reply: Callable[[], bytes]) -> None:
        super().__init__()
        self._reply = reply
        self.address = f"http://127.0.0.1:{self.port}/v1"

    def answer(self, connection: socket.socket) -> None:
        """Answer a connection beside all others: a reply may never end."""
        threading.Thread(target=self._send, args=(connection,), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(10)
                connection.recv(65_536)
                connection.sendall(self._reply())
            except OSError:
                return
