"""docTR's exported JSON: pages of blocks of lines of words, with geometry as shares of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.errors import ManifestError
from audit.importers.gathering.boxes import bounds
from audit.importers.gathering.drafts import DraftField, DraftWord
from audit.importers.source_files import source_problems
from audit.importers.words.reading import ReadPage

_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
_Points = tuple[tuple[float, float], ...]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Word:
    value: str
    geometry: _Points = Field(min_length=2)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Line:
    words: tuple[_Word, ...]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Block:
    lines: tuple[_Line, ...]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Page:
    dimensions: tuple[float, float]
    blocks: tuple[_Block, ...] = ()
    predictions: dict[str, tuple[_Word, ...]] = Field(default_factory=dict)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Document:
    pages: tuple[_Page, ...]


_type = TypeAdapter(_Document)


def read(value: Any) -> tuple[ReadPage, ...]:
    """Read every page of a document's or a page's export; of a KIE predictor's, predictions are fields too.

    Raises:
        ManifestError: it has another form.
    """
    table = value
    if isinstance(value, list):
        table = {"pages": value}
    elif isinstance(value, dict) and "pages" not in value and ("blocks" in value or "predictions" in value):
        table = {"pages": [value]}
    try:
        document = _type.validate_python(table)
    except ValidationError as error:
        raise ManifestError(source_problems(error)) from None
    return tuple(_page(page) for page in document.pages)


def _page(page: _Page) -> ReadPage:
    words = [DraftWord(word.value, bounds(word.geometry)) for block in page.blocks for word in _of_block(block)]
    fields = []
    for label, found in page.predictions.items():
        for one in found:
            texts = one.value.split()
            fields.append(DraftField(label, tuple(range(len(words), len(words) + len(texts))), value=one.value))
            words += [DraftWord(text, bounds(one.geometry)) for text in texts]
    height, width = page.dimensions
    return ReadPage(tuple(words), (width, height), tuple(fields))


def _of_block(block: _Block) -> Iterator[_Word]:
    for line in block.lines:
        yield from line.words
