"""The formats that can be imported, by name, those of installed packages included."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit import plugins
from audit.importers.chat import Chat
from audit.importers.csv_table import FieldTable
from audit.importers.hf import HuggingFace
from audit.importers.interface import Importer
from audit.importers.layers import WORD_FILES
from audit.importers.page_folder import PageFolder
from audit.importers.pages import Page
from audit.importers.pdf import PDFFolder
from audit.importers.sheets import pages_of_image, pages_of_pdfs
from audit.importers.source import Source


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
                for page in pages_of_image(source, path):
                    yield page
                    if page.unit is None:
                        source.problems.add("", [f"{page.place}: its word file is missing"])
        yield from pages_of_pdfs(source)


_CORE: tuple[Importer, ...] = (
    *(HuggingFace(), Chat(), FieldTable(), PageFolder()),
    *(WordFolder({"name": name, **table}) for name, table in WORD_FILES.items()),
    PDFFolder(),  # last: a result beside a PDF is of its program's format
)
FORMATS = plugins.extend({importer.name: importer for importer in _CORE}, "docaudit.importers")
