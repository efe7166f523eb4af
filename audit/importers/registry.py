"""The formats that can be imported, by name: those of this package, and those that entry points add."""

from __future__ import annotations

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

_CORE: tuple[Importer, ...] = (
    *(Forms(), HuggingFace(), Chat(), LabelStudio(), COCO(), FieldTable(), PDFFolder()),
    *(HOCR(), ALTO(), DocTR(), Textract()),
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")
