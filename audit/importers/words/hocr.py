"""hOCR: HTML whose elements of class ocrx_word have their box in the title ("bbox 24 61 149 90")."""

from __future__ import annotations

import html
import re

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftWord
from audit.importers.words.reading import ReadPage, shared

_TOKEN = re.compile(
    r"""<!--(?s:.*?)(?:-->|\Z)|<[!?][^<>]*+>|<(/?)([a-zA-Z][^\s/<>]*+)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>"""
)
"""Comments, declarations and tags; `HTMLParser` takes quadratic time over those that do not end. What is tried in vain
ends at the next "<"."""
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s=/"'<>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>]++))""")
_BOX = re.compile(r"\bbbox\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)")
_WORDS = frozenset({"ocrx_word", "ocr_word"})
_EMPTY = frozenset({"br", "img", "meta", "link", "hr", "input", "wbr"})


def read(text: str) -> tuple[ReadPage, ...]:
    """Read every page of an hOCR file, in time that grows as its length does.

    Raises:
        ManifestError: it has no page, or a page or word without a box.
    """
    reader = _Reader(text)
    start = 0
    for token in _TOKEN.finditer(text):
        reader.add_text(text[start : token.start()])
        reader.add_tag(token)
        start = token.end()
    if not reader.pages:
        raise ManifestError("no element of class ocr_page: not hOCR")
    return tuple(
        ReadPage(tuple(DraftWord(word, shared(box, shape)) for word, box in words), shape)
        for shape, words in reader.pages
    )


class _Reader:
    """Collects words with their boxes, page by page."""

    def __init__(self, text: str) -> None:
        self.pages: list[tuple[tuple[float, float], list[tuple[str, tuple[float, ...]]]]] = []
        self._whole = text
        self._origin = (0.0, 0.0)
        self._word: tuple[float, ...] | None = None
        self._texts: list[str] = []
        self._depth = 0

    def add_text(self, text: str) -> None:
        """Take the text between two tags."""
        if self._word is not None:
            self._texts.append(_unescaped(text))

    def add_tag(self, token: re.Match[str]) -> None:
        """Take a tag; comments and declarations have no name."""
        closing, name, attributes = token.groups()
        if name is None:
            return
        if not closing:
            self._begin(name.lower(), attributes, token.start())
        if closing or attributes.endswith("/"):
            self._end(name.lower())

    def _begin(self, tag: str, attributes: str, place: int) -> None:
        if self._word is not None:
            self._depth += tag not in _EMPTY
            return
        found = {name.lower(): max(values) for name, *values in _ATTRIBUTE.findall(attributes)}
        classes = {*found.get("class", "").split()}
        if "ocr_page" in classes:
            x0, y0, x1, y1 = self._box(found, place)
            self._origin = (x0, y0)
            self.pages.append(((x1 - x0, y1 - y0), []))
        elif classes & _WORDS:
            if not self.pages:
                raise ManifestError("a word before the first page")
            self._word, self._texts, self._depth = self._box(found, place), [], 1

    def _end(self, tag: str) -> None:
        if self._word is None or tag in _EMPTY:
            return
        self._depth -= 1
        if self._depth == 0:
            x0, y0, x1, y1 = self._word
            left, top = self._origin
            box = (x0 - left, y0 - top, x1 - left, y1 - top)
            self.pages[-1][1].append((" ".join("".join(self._texts).split()), box))
            self._word = None

    def _box(self, attributes: dict[str, str], place: int) -> tuple[float, ...]:
        found = _BOX.search(_unescaped(attributes.get("title", "")))
        try:
            if found is not None:
                return tuple(float(number) for number in found.groups())
            reason = "no bbox in the title"
        except ValueError:
            reason = "the bbox is not of numbers"
        raise ManifestError(f"line {self._whole.count(chr(10), 0, place) + 1}: {reason}")


def _unescaped(text: str) -> str:
    """Replace the references to characters in a text.

    Raises:
        ManifestError: one has thousands of digits.
    """
    try:
        return html.unescape(text)
    except ValueError:
        raise ManifestError("a reference to a character that there is not") from None
