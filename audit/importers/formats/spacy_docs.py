"""Documents of spaCy's binary files (DocBin), read by spaCy itself where it is installed.

Only spaCy knows the numbers that such a file has for its own words, so no other reader can do it.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.errors import UsageError
from audit.importers.faults import name_of
from audit.importers.files import form_of, read_source
from audit.importers.reading import spend

DOC_BIN = ".spacy"
CHUNK = 1 << 20
"""Bytes that are decompressed at a time."""


def read_doc_bin(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the documents of a file as `Doc.to_json` has them, each with its place.

    Raises:
        UsageError: spaCy is not installed, or the file holds more than its size allows.
        ManifestError: it is no such file.
    """
    content = read_source(path)
    with form_of("spaCy's DocBin"):
        _check_size(content)
    try:
        from spacy.tokens import DocBin  # type: ignore[import-not-found,unused-ignore]
        from spacy.vocab import Vocab  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UsageError(
            f"{name_of(path)}: spaCy's binary files need spaCy, which is not installed",
            "python -m pip install spacy, or write doc.to_json() of each document as JSON lines",
        ) from None
    vocabulary = Vocab()
    with form_of("spaCy's DocBin"):
        for number, document in enumerate(DocBin().from_bytes(content).get_docs(vocabulary)):
            yield f"{name_of(path)}[{number}]", document.to_json()


def _check_size(content: bytes) -> None:
    """Decompress a file in pieces, and charge them to the budget before spaCy reads it whole."""
    decompressor = zlib.decompressobj()
    piece = decompressor.decompress(content, CHUNK)
    while piece:
        spend("bytes", len(piece))
        piece = decompressor.decompress(decompressor.unconsumed_tail, CHUNK)
