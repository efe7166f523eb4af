"""The formats that can be imported, by name: those of this package, and those that entry points add; and a guess."""

from __future__ import annotations

from pathlib import Path

from audit import plugins
from audit.importers.chat import Chat
from audit.importers.coco import COCO
from audit.importers.csv_table import FieldTable
from audit.importers.forms import Forms
from audit.importers.hf import HuggingFace
from audit.importers.interface import Importer
from audit.importers.label_studio import LabelStudio
from audit.importers.ocr_folders import ALTO, HOCR, DocTR, Textract
from audit.importers.pdf import PDFFolder
from audit.importers.peek import Peek

_CORE: tuple[Importer, ...] = (
    *(Forms(), HuggingFace(), Chat(), LabelStudio(), COCO(), FieldTable(), PDFFolder()),
    *(HOCR(), ALTO(), DocTR(), Textract()),
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like; None where it looks like none."""
    peek = Peek(path)
    return next((name for name, importer in FORMATS.items() if importer.looks_like(peek)), None)


def suggest_import(name: str, path: Path) -> str:
    """Give the arguments of the import of a folder that looks like a format; its own parts where it has two.

    FUNSD's importer reads one folder of annotations: others are read as forms.
    """
    if name == "funsd" and not (path / "annotations").is_dir():
        name = "forms"
    parts = [_part(path, beginnings, name) for beginnings in (("train",), ("test", "val", "dev", "heldout"))]
    if name not in ("forms", "chat", "hf") or None in parts:
        return f"{name} {path} DATA_DIR"
    return f"{name} {parts[0]} DATA_DIR --heldout-from {parts[1]}"


def _part(path: Path, beginnings: tuple[str, ...], name: str) -> Path | None:
    """The one folder, or file of conversations, that is called after a part; None where there is none or several."""
    found = [
        own
        for own in (path.iterdir() if path.is_dir() else ())
        if own.name.lower().startswith(beginnings)
        and (own.is_dir() if name != "chat" else own.suffix in (".json", ".jsonl"))
    ]
    return found[0] if len(found) == 1 else None
