"""Folders of PDFs: pages rendered, words and boxes of their own text layer."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError, UsageError
from audit.importers.interface import Importer
from audit.importers.pages import Page, WordList, bounds, ids_of, part_of
from audit.importers.reading import note_opened, spend
from audit.importers.source import Source

NAMED_PDF = ".pdf"
DPI = 150
"""At 150 dots an inch a letter of 10 points is 20 pixels high; an A4 page has 1240 x 1754."""
MAX_SIDE = 10_000
"""Pixels; a page that would be larger is refused."""
MAX_PAGES = 5_000
"""The most pages of one file: a long book has 2,000."""
MAX_CHARACTERS = 100_000
"""The most characters of one page: a densely written page has 5,000."""
_MOST_PIXELS = MAX_PAGES * 2_200_000
"""Of all pages of a file: as many A4 pages have as many."""


class PDFFolder(Importer):
    """One document a page; pages of one file stay in one split."""

    name = "pdf"
    description = "a folder of PDFs"
    marks = (("*.pdf", ""),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of the PDF files of a folder."""
        paths = source.files(NAMED_PDF, hint="give the folder that holds them")
        for number, (path, name) in enumerate(ids_of(paths).items()):
            with source.problems.catch(f"{path}:"):
                for page in pages_of_pdf(source.at(path), name, source.scratch / f"pdf{number}"):
                    page.part = part_of(path)
                    page.provider = source.provider(None, path)
                    page.source = path
                    yield page


def pages_of_pdf(path: Path, name: str, folder: Path) -> list[Page]:
    """Render the pages of a PDF at `DPI`, and read the words of their text layer.

    Args:
        path: the file.
        name: name of the document; pages of several get "-1", "-2", and so on behind it.
        folder: a new folder, for the images.

    Raises:
        UsageError: the library is missing.
        ManifestError: the file is damaged or encrypted, or its pages are too large or too many.
    """
    library = _library()
    folder.mkdir()
    note_opened(path)
    try:
        document = library.PdfDocument(path)
    except library.PdfiumError as error:
        raise ManifestError(f"not readable as a PDF: {error}") from None
    pages: list[Page] = []
    try:
        count = len(document)
        _check_size(document, count)
        for number in range(count):
            page = document[number]
            image = folder / f"{number + 1}.png"
            size = _render(page, image)
            words = WordList(_read_words(library, page, size))
            page_name = f"{name}-{number + 1}" if count > 1 else name
            pages.append(
                Page(page_name, image, words, unit="pixels", source=path.name, place=page_name)
            )
    except library.PdfiumError as error:
        raise ManifestError(f"page {len(pages) + 1}: {error}") from None
    finally:
        document.close()
    return pages


def _check_size(document: Any, count: int) -> None:
    """Refuse a PDF with too many pages, or with pages too large to render.

    A page may be named many times.
    """
    if count > MAX_PAGES:
        raise ManifestError(
            f"{count:,} pages, and {MAX_PAGES:,} are the most: divide it into several files"
        )
    sizes = (document.get_page_size(number) for number in range(count))
    pixels = sum(width * height for width, height in sizes) * (DPI / 72) ** 2
    if pixels > _MOST_PIXELS:
        raise ManifestError("its pages are too large to render: divide it into several files")
    spend("pixels", round(pixels))


def _render(page: Any, image: Path) -> tuple[int, int]:
    """Draw a page into an image file; return the image's width and height in pixels."""
    scale = DPI / 72
    if max(page.get_size()) * scale > MAX_SIDE:
        raise ManifestError(
            f"a page of {page.get_width():g} x {page.get_height():g} points is too large to render"
        )
    picture = page.render(scale=scale).to_pil().convert("RGB")
    picture.save(image)
    return (picture.width, picture.height)


def _read_words(library: Any, page: Any, size: tuple[int, int]) -> Iterator[Word]:
    """Yield the words of the text layer, between white space, in its order."""
    text = page.get_textpage()
    count = text.count_chars()
    if count > MAX_CHARACTERS:
        raise ManifestError(f"a page of {count:,} characters, and {MAX_CHARACTERS:,} are the most")
    letters = ""
    corners: list[tuple[float, float]] = []
    for index in range(count + 1):
        letter = chr(library.raw.FPDFText_GetUnicode(text.raw, index)) if index < count else " "
        if letter.strip() and letter.isprintable():
            letters += letter
            corners += _corners_on_image(library, page, text.get_charbox(index), size)
        elif letters:
            yield Word(letters, bounds(corners))
            letters = ""
            corners = []


def _corners_on_image(
    library: Any, page: Any, box: Box, size: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    """Yield two corners of a character's box on the rendered image.

    They are right whatever the page's rotation and crop.
    """
    for point in (box[:2], box[2:]):
        x = ctypes.c_int()
        y = ctypes.c_int()
        library.raw.FPDF_PageToDevice(
            page.raw, 0, 0, *size, 0, *point, ctypes.byref(x), ctypes.byref(y)
        )
        yield (float(x.value), float(y.value))


def _library() -> Any:
    """Import and return pypdfium2; refuse with how to install it where it is missing."""
    try:
        import pypdfium2
        import pypdfium2.raw
    except ImportError:
        raise UsageError(
            "reading PDFs needs the library pypdfium2", "pip install 'docaudit[pdf]'"
        ) from None
    return pypdfium2
