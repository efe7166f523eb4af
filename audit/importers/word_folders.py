"""Images with the word files of one OCR program beside them: hOCR, ALTO, docTR, Amazon Textract."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from audit.corpus.problems import Problems
from audit.errors import UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.parts import check_parts
from audit.importers.interface import Source
from audit.importers.words.image_pages import ImagePages


class WordFolder(Source):
    """One document an image, with the words of its file.

    Attributes:
        suffixes: of the word files.
    """

    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True
    suffixes: ClassVar[tuple[str, ...]]

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        problems, images = Problems(), ImagePages(src, request, self.suffixes)
        if not images.files.paths:
            raise UsageError(
                f"{src} holds no {' or '.join(self.suffixes)}", "give the folder that holds the images too"
            )
        for path in images.finder.paths:
            with problems.catch():
                images.page(path)
                if images.files.find(path) is None:
                    problems.add("", [f"{path}: its word file is missing"])
        check_parts(src, [*images.pages.values()], request)
        return Assembly(self.name, [*images.pages.values()], request, problems).contents()


class HOCR(WordFolder):
    """hOCR, as Tesseract, OCRopus and Kraken write it."""

    name = "hocr"
    description = "images and .hocr files"
    suffixes = (".hocr", ".html", ".htm", ".xml")


class ALTO(WordFolder):
    """ALTO, as libraries and archives keep it."""

    name = "alto"
    description = "images and ALTO .xml files"
    suffixes = (".xml",)


class DocTR(WordFolder):
    """docTR's exports; what its KIE predictor found is a field."""

    name = "doctr"
    description = "images and docTR's exported .json"
    suffixes = (".json",)


class Textract(WordFolder):
    """Responses of Amazon Textract; keys and values are fields, queries with results are questions."""

    name = "textract"
    description = "images and Textract's .json"
    suffixes = (".json",)
