"""The formats that can be imported, by name, those of installed packages included."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit import plugins
from audit.files import table_beside
from audit.importers.chat import Chat
from audit.importers.csv_table import FieldTable
from audit.importers.hf import HuggingFace
from audit.importers.interface import Importer
from audit.importers.page_folder import PageFolder
from audit.importers.pages import Page
from audit.importers.pdf import PDFFolder
from audit.importers.source import Source

WORD_FILES: Mapping[str, Mapping[str, Any]] = table_beside(__file__, "word_files.toml")
"""The formats of word files, by name."""


class WordFolder(Importer):
    """Images with the word files of one OCR program beside them: one document an image.

    Args:
        table: its class attributes: name, description, `word_files` and `marks`.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        """Take all attributes of the importer from its format's table."""
        vars(self).update(table)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a folder of word files."""
        source.files(*self.word_files, hint="give the folder that holds the images too")
        for path in source.ids:
            with source.problems.catch():
                yield source.page(path)
                if source.find_words(path) is None:
                    source.problems.add("", [f"{path}: its word file is missing"])


_CORE: tuple[Importer, ...] = (
    *(HuggingFace(), Chat(), FieldTable(), PDFFolder(), PageFolder()),
    *(WordFolder({"name": name, **table}) for name, table in WORD_FILES.items()),
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")
