"""hOCR: HTML whose elements of class ocrx_word have their box in the title ("bbox 24 61 149 90")."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from audit.corpus.importers.gathering.drafts import DraftWord
from audit.corpus.importers.words.reading import ReadPage, shared
from audit.errors import ManifestError

_BOX = re.compile(r"\bbbox\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)")
_WORDS = frozenset({"ocrx_word", "ocr_word"})
_EMPTY = frozenset({"br", "img", "meta", "link", "hr", "input", "wbr"})


def read(text: str) -> tuple[ReadPage, ...]:
    """Read every page of an hOCR file.

    Raises:
        ManifestError: it has no page, or a page or word without a box.
    """
    parser = _Parser()
    parser.feed(text)
    parser.close()
    if not parser.pages:
        raise ManifestError("no element of class ocr_page: not hOCR")
    return tuple(
        ReadPage(tuple(DraftWord(word, shared(box, shape)) for word, box in words), shape)
        for shape, words in parser.pages
    )


class _Parser(HTMLParser):
    """Collects words with their boxes, page by page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pages: list[tuple[tuple[float, float], list[tuple[str, tuple[float, ...]]]]] = []
        self._origin = (0.0, 0.0)
        self._word: tuple[float, ...] | None = None
        self._texts: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        if self._word is not None:
            self._depth += tag not in _EMPTY
            return
        named = {name: value or "" for name, value in attrs}
        classes = {*named.get("class", "").split()}
        if "ocr_page" in classes:
            x0, y0, x1, y1 = self._box(named)
            self._origin = (x0, y0)
            self.pages.append(((x1 - x0, y1 - y0), []))
        elif classes & _WORDS:
            if not self.pages:
                raise ManifestError("a word before the first page")
            self._word, self._texts, self._depth = self._box(named), [], 1

    def handle_data(self, data: str) -> None:
        """See `HTMLParser`."""
        if self._word is not None:
            self._texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        """See `HTMLParser`."""
        if self._word is None or tag in _EMPTY:
            return
        self._depth -= 1
        if self._depth == 0:
            x0, y0, x1, y1 = self._word
            left, top = self._origin
            box = (x0 - left, y0 - top, x1 - left, y1 - top)
            self.pages[-1][1].append((" ".join("".join(self._texts).split()), box))
            self._word = None

    def _box(self, named: dict[str, str]) -> tuple[float, ...]:
        found = _BOX.search(named.get("title", ""))
        if found is None:
            raise ManifestError(f"line {self.getpos()[0]}: no bbox in the title")
        try:
            return tuple(float(number) for number in found.groups())
        except ValueError:
            raise ManifestError(f"line {self.getpos()[0]}: the bbox is not of numbers") from None
