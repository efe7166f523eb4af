"""Results of OCR programs as JSON beside a page of 600 x 400 pixels, and their imports."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.importers.interface import ImportReport
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options

SIZE = (600, 400)
ALL: Mapping[Split, float] = {"member": 1.0}


def write_result(folder: Path, value: Any, name: str = "a") -> Path:
    """Write a page and its result into a folder."""
    folder.mkdir(exist_ok=True)
    Image.new("L", SIZE, 255).save(folder / f"{name}.png")
    (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def import_folder(
    format: str, folder: Path, task: Any = "mlm", shares: Mapping[Split, float] = ALL
) -> tuple[dict[str, Document], ImportReport]:
    """Import a folder; return its documents by id, and the report."""
    dst = folder.parent / "out"
    request = ImportRequest(folder, dst, shares, 1, task=task, options=Options(draws=True))
    report = FORMATS[format].convert(request)
    documents = {document.id: document for document in manifests.load(dst).documents}
    return documents, report


def import_result(format: str, value: Any, folder: Path, task: Any = "mlm") -> Document:
    """Import a page with its result; return its document."""
    documents, _ = import_folder(format, write_result(folder / "src", value), task)
    return documents["a"]


def texts_of(document: Document) -> list[str]:
    """List the words of a document."""
    return [word.text for word in document.words]


def boxes_of(document: Document) -> list[tuple[int, ...]]:
    """List the boxes of a document's words, in whole pixels."""
    return [tuple(map(round, word.box or ())) for word in document.words]


def fields_of(document: Document) -> list[tuple[str, str]]:
    """List the label and the text of each field of a document."""
    return [(entity.label, document.text_of(entity)) for entity in document.entities]


def corners(left: float, top: float, right: float, bottom: float) -> list[list[float]]:
    """Return the four corners of a box, as OCR programs write them."""
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def points(box: Sequence[Sequence[float]]) -> list[Mapping[str, float]]:
    """Return corners as tables of x and y."""
    return [{"x": x, "y": y} for x, y in box]
