"""The word file of an image: beside it, or anywhere in the source under its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftPage, DraftWord
from audit.importers.gathering.files import relative_files, table_text
from audit.importers.ocr_json import read_words
from audit.importers.source_files import page_size, parse_json, read_text
from audit.importers.words import alto, doctr, hocr, tesseract, textract
from audit.importers.words.reading import ReadPage, only_page, shared

SUFFIXES = (".hocr", ".html", ".htm", ".xml", ".tsv", ".json")
_TEXTS: Mapping[str, Callable[[str], tuple[ReadPage, ...]]] = {
    ".hocr": hocr.read,
    ".html": hocr.read,
    ".htm": hocr.read,
    ".tsv": tesseract.read,
}


class WordFiles:
    """Word files of a source, by the image that each belongs to.

    Args:
        src: the folder.
        suffixes: of the files that are word files.
    """

    def __init__(self, src: Path, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self._src = src
        self.paths = relative_files(src, suffixes)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            for name in {PurePosixPath(path).stem, PurePosixPath(PurePosixPath(path).stem).stem}:
                self._by_stem[name].append(path)

    def find(self, image: str) -> str | None:
        """The word file of an image: of its name with another ending, or with one more, in its folder before others.

        Args:
            image: path within the source.

        Raises:
            ManifestError: several files may be it.
        """
        path = PurePosixPath(image)
        found = self._by_stem.get(path.name) or self._by_stem.get(path.stem, [])
        beside = [one for one in found if PurePosixPath(one).parent == path.parent]
        exact = [one for one in beside or found if PurePosixPath(one).stem in (path.stem, path.name)]
        chosen = exact or beside or found
        if len(chosen) > 1:
            raise ManifestError(f"several word files: {', '.join(chosen)}")
        return chosen[0] if chosen else None

    def fill(self, page: DraftPage, image: str) -> bool:
        """Give a page the words of its file; False where there is none.

        Raises:
            ManifestError: the file has another form, or is of several pages.
        """
        path = self.find(image)
        if path is None:
            return False
        try:
            read = read_page(self._src / path, page.image)
        except ManifestError as error:
            raise ManifestError([f"{path}: {problem}" for problem in error.problems]) from None
        page.words, page.unit, page.shape = read.words, "shares", read.shape
        page.fields += read.fields
        page.questions += read.questions
        return True


def read_page(path: Path, image: Path | None) -> ReadPage:
    """Read the one page of a word file, whichever program wrote it.

    Raises:
        ManifestError: it is of none, or of several pages.
    """
    text = table_text(path) if path.suffix.lower() == ".tsv" else read_text(path)
    reader = _TEXTS.get(path.suffix.lower())
    if reader is not None:
        return only_page(reader(text))
    if path.suffix.lower() == ".xml":
        return only_page(hocr.read(text) if "ocr_page" in text else alto.read(text))
    value = parse_json(text, "not JSON")
    if _is_textract(value):
        return only_page(textract.read(value))
    if isinstance(value, dict) and ("recognitionResults" in value or "WORD" in value):
        return _by_service(path, image)
    return only_page(doctr.read(value))


def _is_textract(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "Blocks" in first


def _by_service(path: Path, image: Path | None) -> ReadPage:
    """Microsoft Read, or the words of Textract alone, which are read in pixels of the image."""
    if image is None:
        raise ManifestError("no image to scale the words to")
    size = page_size(image)
    words = read_words(path, size)
    return ReadPage(tuple(DraftWord(word.text, word.box and shared(word.box, size)) for word in words), size)
