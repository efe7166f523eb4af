"""The words of one page as an OCR service wrote them: Microsoft Read, or Amazon Textract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Word
from audit.errors import ManifestError
from audit.importers.source_files import clip, parse_json, read_text, replace_controls, source_problems
from audit.importers.words.textract import Geometry

MAX_STRETCH = 0.1
"""How far the shapes (width over height) of the page that was read and of its image may differ, as a share.

Ours: wide enough for margins cut off, far too narrow for a page that was turned.
"""

_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
_Numbers = tuple[float, float, float, float, float, float, float, float]


@strict_dataclass(frozen=True, config=_LOOSE)
class _ReadWord:
    text: str
    corners: _Numbers = Field(validation_alias="boundingBox")


@strict_dataclass(frozen=True, config=_LOOSE)
class _ReadLine:
    words: tuple[_ReadWord, ...]


@strict_dataclass(frozen=True, config=_LOOSE)
class _ReadPage:
    width: float = Field(gt=0)
    height: float = Field(gt=0)
    lines: tuple[_ReadLine, ...] = ()


@strict_dataclass(frozen=True, config=_LOOSE)
class _Read:
    pages: tuple[_ReadPage, ...] = Field(validation_alias="recognitionResults")


@strict_dataclass(frozen=True, config=_LOOSE)
class _TextractWord:
    text: str = Field(validation_alias="Text")
    geometry: Geometry = Field(validation_alias="Geometry")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Textract:
    words: tuple[_TextractWord, ...] = Field(validation_alias="WORD")


_read_type = TypeAdapter(_Read)
_textract_type = TypeAdapter(_Textract)


def read_words(path: Path, size: tuple[int, int]) -> tuple[Word, ...]:
    """Read the words of the OCR, in its order; those without text are left out, boxes are cut at the page's edge.

    Read: {"recognitionResults": [{"width", "height", "lines": [{"words": [{"text", "boundingBox": 4 corners}]}]}]},
    in any unit. Textract: {"WORD": [{"Text", "Geometry": {"BoundingBox": {"Left", "Top", "Width", "Height"}}}]}, shares
    of the page.

    Args:
        path: a JSON file.
        size: width and height in pixels of the page's image, which the boxes are scaled to.

    Raises:
        ManifestError: of another form, of no or several pages, or of a page whose shape is not that of the image.
    """
    table = parse_json(read_text(path), "not JSON")
    try:
        if isinstance(table, dict) and "WORD" in table and "recognitionResults" not in table:
            return tuple(_textract_words(_textract_type.validate_python(table), size))
        return tuple(_read_words(_read_type.validate_python(table), size))
    except ValidationError as error:
        raise ManifestError(source_problems(error)) from None


def _read_words(ocr: _Read, size: tuple[int, int]) -> Iterator[Word]:
    if len(ocr.pages) != 1:
        raise ManifestError(f"recognitionResults: {len(ocr.pages)} pages for one image")
    (page,) = ocr.pages
    across, down = size[0] / page.width, size[1] / page.height
    if abs(across / down - 1) > MAX_STRETCH:
        raise ManifestError(
            f"the OCR read a page of {page.width:g} x {page.height:g}, but the image has {size[0]} x {size[1]} pixels"
        )
    for line in page.lines:
        for word in line.words:
            xs, ys = word.corners[0::2], word.corners[1::2]
            text = replace_controls(word.text).strip()
            if text:
                yield Word(text, clip((min(xs) * across, min(ys) * down, max(xs) * across, max(ys) * down), size))


def _textract_words(ocr: _Textract, size: tuple[int, int]) -> Iterator[Word]:
    width, height = size
    for word in ocr.words:
        box, text = word.geometry.box, replace_controls(word.text).strip()
        right, bottom = box.left + box.width, box.top + box.height
        if text:
            yield Word(text, clip((box.left * width, box.top * height, right * width, bottom * height), size))
