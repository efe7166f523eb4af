"""Images with the word files of one OCR program beside them: hOCR, ALTO, docTR, Amazon Textract."""

from __future__ import annotations

from collections.abc import Iterator

from audit.importers.interface import Importer
from audit.importers.pages import Page
from audit.importers.source import Source


class WordFolder(Importer):
    """One document an image, with the words of its file."""

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        source.files(*self.word_files, hint="give the folder that holds the images too")
        for path in source.ids:
            with source.problems.catch():
                yield source.page(path)
                if source.find_words(path) is None:
                    source.problems.add("", [f"{path}: its word file is missing"])


class HOCR(WordFolder):
    """hOCR, as Tesseract, OCRopus and Kraken write it."""

    name = "hocr"
    description = "images and .hocr files"
    word_files = (".hocr", ".html", ".htm", ".xml")
    marks = (("*.hocr", ""),)


class ALTO(WordFolder):
    """ALTO, as libraries and archives keep it."""

    name = "alto"
    description = "images and ALTO .xml files"
    word_files = (".xml",)
    marks = (("*.xml", "<alto"),)


class DocTR(WordFolder):
    """docTR's exports; values that its KIE predictor found are fields."""

    name = "doctr"
    description = "images and docTR's exported .json"
    word_files = (".json",)
    marks = (("*.json", r'"pages":\s*\[\s*\{\s*"page_idx"'),)


class Textract(WordFolder):
    """Responses of Amazon Textract; keys and values are fields, queries with results are questions."""

    name = "textract"
    description = "images and Textract's .json"
    word_files = (".json",)
    marks = (("*.json", '"BlockType":'),)
