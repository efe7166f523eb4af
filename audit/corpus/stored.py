"""Documents of a large data set, whose contents stay in their file until they are asked for."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from audit.corpus.documents import Document
from audit.errors import EngineError

LARGE = 16 * 2**20
"""Bytes of a documents file from which on contents stay in it: as objects they take ten times as much memory."""
KEPT = 32
"""Documents of such a file whose contents are kept, those asked for last: a pass over all of them is quickest
where these fit into the processor's cache."""


_CONTENTS: Mapping[str, object] = {
    "words": (),
    "entities": (),
    "links": (),
    "questions": (),
    "tags": None,
    "intent": None,
    "paragraphs": (),
    "label": None,
    "output": None,
}
"""What stays in the file, and what a document holds that has none of it."""


class DocumentFile:
    """A documents file that is read again, line by line.

    The file stays open, so that what replaces it is never read; a line that was changed in place is an error.

    Args:
        path: the file.
        parse: makes a document of a line that was found valid.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Document]) -> None:
        self.name = path.name
        self._parse = parse
        self._stream = path.open("rb")
        self.contents = lru_cache(KEPT)(self._read)

    def document(self, document: Document, start: int, line: bytes) -> StoredDocument:
        """Give a document without its contents, which stand in this line at byte `start`."""
        return StoredDocument.of(document, self, (start, len(line), zlib.crc32(line)))

    def _read(self, start: int, length: int, check: int) -> Document:
        line = os.pread(self._stream.fileno(), length, start)
        if zlib.crc32(line) != check:
            raise EngineError(f"{self.name} has changed since it was read", "leave it alone, and run the command again")
        return self._parse(line)


class StoredDocument(Document):
    """A document of which id, split, image, size and provider are in memory; the file holds what else it has.

    What it lacks is known without the file. A changed copy (`dataclasses.replace`) is a `Document` like any other.
    """

    _file: DocumentFile
    _place: tuple[int, int, int]
    _counts: tuple[int, int]
    _has: frozenset[str]

    def __new__(cls, *content: Any, **fields: Any) -> Any:
        """Give a document that is in memory: copies differ from the file."""
        return Document(*content, **fields)

    @classmethod
    def of(cls, document: Document, file: DocumentFile, place: tuple[int, int, int]) -> StoredDocument:
        """The document without its contents; `place` is where they begin, their bytes and check sum."""
        stored: StoredDocument = object.__new__(cls)
        provider = None if document.provider is None else sys.intern(document.provider)
        counts = (len(document.words), len(document.questions))
        has = frozenset(name for name, default in _CONTENTS.items() if getattr(document, name) != default)
        for name, value in (
            ("id", document.id),
            ("split", document.split),
            ("image", document.image),
            ("size", document.size),
            ("provider", provider),
            ("_file", file),
            ("_place", place),
            ("_counts", counts),
            ("_has", _same(has)),
        ):
            object.__setattr__(stored, name, value)
        return stored

    @property
    def _content(self) -> Document:
        return self._file.contents(*self._place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        return self is other or self._content == (other._content if isinstance(other, StoredDocument) else other)

    def __hash__(self) -> int:
        return hash((self.id, self.split, *self._counts))

    def __reduce__(self) -> tuple[Callable[[Document], Document], tuple[Document]]:
        """Another process gets the whole document."""
        return _whole, (self._content,)


def _stored(name: str) -> property:
    """The property that reads one of `_CONTENTS` from the file, unless the document is known to have none of it."""

    def read(document: StoredDocument) -> object:
        return getattr(document._content, name) if name in document._has else _CONTENTS[name]

    return property(read)


for _name in _CONTENTS:
    setattr(StoredDocument, _name, _stored(_name))


def _whole(document: Document) -> Document:
    return document


@cache
def _same(names: frozenset[str]) -> frozenset[str]:
    """One object for equal sets, of which there are a few."""
    return names
