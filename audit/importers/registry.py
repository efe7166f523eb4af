"""The formats that can be imported, by name, those of installed packages included; and a guess at a folder's."""

from __future__ import annotations

import re
from itertools import chain, islice
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
from audit.importers.pages import part_named
from audit.importers.pdf import PDFFolder

_CORE: tuple[Importer, ...] = (
    *(Forms(), HuggingFace(), Chat(), LabelStudio(), COCO(), FieldTable(), PDFFolder()),
    *(HOCR(), ALTO(), DocTR(), Textract()),
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")
MAX_FILES, MAX_CHARACTERS = 20, 10_000_000
"""Files of a pattern that are looked into to guess a format, and how far."""


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like; None where it looks like none."""
    return next((name for name, one in FORMATS.items() if any(_has(path, *mark) for mark in one.marks)), None)


def _has(path: Path, pattern: str, content: str) -> bool:
    """Test whether a file of this name, in the folder or one below it, holds a text."""
    files = chain(path.glob(pattern), path.glob(f"*/{pattern}") if "/" not in pattern else ())
    found = [path] if path.is_file() and path.match(pattern) else islice(filter(Path.is_file, files), MAX_FILES)
    return any(not content or re.search(content, _beginning(one)) for one in found)


def _beginning(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""


def suggest_import(name: str, path: Path) -> str:
    """Give the arguments of the import of a folder that looks like a format; of its two parts where it has them."""
    own = sorted(path.iterdir()) if path.is_dir() and name in ("forms", "chat", "hf") else []
    parts = {part: [one for one in own if part_named(one.stem) == part] for part in ("train", "validation")}
    if all(len(found) == 1 for found in parts.values()):
        return f"{name} {parts['train'][0]} DATA_DIR --heldout-from {parts['validation'][0]}"
    return f"{name} {path} DATA_DIR"
