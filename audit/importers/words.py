"""Words of a page, from the file that an OCR program wrote beside its image, or read by Tesseract.

Files: hOCR, ALTO, PAGE, Tesseract's table, and JSON of the programs in `services.toml`; boxes
become shares of the page where its size is known.
"""

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from PIL.Image import Image

from audit.corpus.documents import Word
from audit.corpus.removal.tesseract import run_tesseract
from audit.errors import ManifestError, UsageError
from audit.importers.alto import alto_pages
from audit.importers.files import TEXTS, form_of, table_rows
from audit.importers.hocr import read_hocr
from audit.importers.markup import read_markup
from audit.importers.page_xml import page_xml_pages
from audit.importers.pages import Page, clean, clip, shares_of
from audit.importers.services.programs import read_result, read_service
from audit.importers.xml_elements import parse_xml

SUFFIXES = (".hocr", ".html", ".htm", ".xml", ".tsv", ".json")
BESIDE_JSON = (".hocr", ".tsv", ".xml")
"""Word files beside images whose annotations are .json."""
SECONDS = 300.0
"""How long the reading of one page may take; a page of a scanner takes one to ten seconds."""

OpenPage = Callable[[], Image]
"""Opens the image of a page, RGB."""


def fill(page: Page, path: Path) -> None:
    """Add the words, fields and questions of a word file to a page.

    Raises:
        ManifestError: the file has another form, or is not of one page.
    """
    fill_all([page], path)


def fill_all(pages: Sequence[Page], path: Path, format: str = "") -> None:
    """Add the words, fields and questions of a word file to the pages of a document, in order.

    Args:
        pages: pages of the document.
        path: the word file.
        format: format that the owner named, if it is one of word files.

    Raises:
        ManifestError: the file has another form, or another number of pages.
    """
    word_pages = read_pages(path, format)
    if len(word_pages) != len(pages):
        raise ManifestError(_another_number(len(word_pages), len(pages)))
    for page, word_page in zip(pages, word_pages, strict=True):
        page.words = word_page.words
        page.unit = word_page.unit or "shares"
        page.shape = word_page.shape
        page.fields += word_page.fields
        page.questions += word_page.questions
        page.notes.update(word_page.notes)


def _another_number(n_read: int, n_pages: int) -> str:
    """Return the refusal of a word file with another number of pages than there are."""
    if n_pages > 1:
        return f"{n_read} pages for a document of {n_pages}"
    if n_read > 1:
        return f"{n_read} pages for one image: put the PDF or TIFF beside it, or save a file a page"
    return f"{n_read} pages for one image"


def read_pages(path: Path, format: str = "") -> list[Page]:
    """Read every page of a word file; of JSON, count those that another program wrote.

    Raises:
        ManifestError: the file has another form.
    """
    ending = path.suffix.lower()
    if ending == ".tsv":
        return read_tesseract(path)
    if ending == ".json":
        return read_service(read_result(path), format)
    text = read_markup(path)
    is_xml = ending == ".xml" and "ocr_page" not in text
    return read_xml(text) if is_xml else read_hocr(text)


def read_tesseract(path: Path) -> list[Page]:
    """Read every page of Tesseract's table: a tab-separated row a word, of level 5.

    Raises:
        ManifestError: a column is missing, a number is none, or words come before their page.
    """
    pages: list[Page] = []
    shape = (0.0, 0.0)
    for place, row in table_rows(path, "line", "\t"):
        with form_of("Tesseract's table"):
            left, top, width, height = (
                float(row[name]) for name in ("left", "top", "width", "height")
            )
            if row["level"] == "1":
                shape = (width, height)
                pages.append(Page("", shape=shape))
            elif row["level"] == "5" and not pages:
                raise ManifestError(f"{place}: a word before the first page")
            elif row["level"] == "5":
                box = shares_of((left, top, left + width, top + height), shape)
                pages[-1].words.append(Word(row["text"], box))
    return pages


def read_xml(text: str) -> list[Page]:
    """Read every page of an ALTO or a PAGE file.

    Raises:
        ManifestError: it is no XML, declares entities, has no page, or a page or word lacks a
            number.
    """
    root = parse_xml(text)
    first = root.find(".//{*}Page")
    if first is None:
        raise ManifestError("no element Page: neither ALTO nor PAGE")
    if first.get("imageWidth") is not None:
        return list(page_xml_pages(root))
    return list(alto_pages(root))


@dataclass(frozen=True)
class PageReader:
    """Reads the words of whole pages with Tesseract.

    Attributes:
        language: language as Tesseract names it, several joined by "+" ("deu+eng").
        command: the program's name.
        workers: processes at a time; each keeps to one thread.
    """

    language: str = "eng"
    command: str = "tesseract"
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))

    def check(self) -> None:
        """Check that the program is there and knows the language.

        Raises:
            UsageError: it is not, or does not.
        """
        if shutil.which(self.command) is None:
            hint = (
                "install it (apt install tesseract-ocr, brew install tesseract), "
                "or bring the words of another OCR"
            )
            raise UsageError("Tesseract is not installed", hint)
        listing = subprocess.run(
            [self.command, "--list-langs"], capture_output=True, text=True, timeout=60, check=False
        )
        languages = listing.stdout.split()
        unknown = [name for name in self.language.split("+") if name not in languages]
        if unknown:
            hint = TEXTS["language"].format(language=unknown[0])
            raise UsageError(f"Tesseract has no data for the language {unknown[0]!r}", hint)

    def read(
        self, pages: Iterable[tuple[str, OpenPage]]
    ) -> Iterator[tuple[str, tuple[Word, ...] | None]]:
        """Read pages, in order; images are opened in this thread, a few at a time.

        Args:
            pages: names, and what opens each image.

        Yields:
            Each name with its words in Tesseract's reading order, boxes in pixels; none where
            nothing was read, None where the program failed or ran out of time.
        """
        remaining = iter(pages)
        with ThreadPoolExecutor(self.workers) as pool:
            while batch := list(islice(remaining, 2 * self.workers)):
                readings = [
                    (name, pool.submit(self._read_page, open_page())) for name, open_page in batch
                ]
                for name, words in readings:
                    yield name, words.result()

    def _read_page(self, page: Image) -> tuple[Word, ...] | None:
        """Run Tesseract on a page, and return its words; None where it fails."""
        file = io.BytesIO()
        page.convert("L").save(file, "PNG", compress_level=1)
        arguments = ["-l", self.language, "tsv"]
        table = run_tesseract(self.command, arguments, file.getvalue(), SECONDS)
        return None if table is None else tuple(_table_words(table, page.size))


def _table_words(table: str, size: tuple[int, int]) -> Iterator[Word]:
    """Yield the words of Tesseract's table, without blank ones.

    Boxes are cut at the page's edge.
    """
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = clean(row["text"] or "")
        if row["level"] == "5" and text:
            left, top, width, height = (
                int(row[name]) for name in ("left", "top", "width", "height")
            )
            yield Word(text, clip((left, top, left + width, top + height), size))
