"""Pages of hOCR, read from its tags one after the other, in time that grows as its length does."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.pages import Page, shares_of

_TOKEN = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<[!?][^<>]*+>|"
    r"""<(/?)([a-zA-Z][^\s/<>]*+)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>"""
)
"""Comments, declarations and tags, in linear time: `HTMLParser` takes quadratic time over those
that do not end."""
_ATTRIBUTE = re.compile(
    r"""(?<![^\s"'/])([^\s=/"'<>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>]++))"""
)
_BBOX = re.compile(r"\bbbox\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)")
_EMPTY = frozenset({"br", "img", "meta", "link", "hr", "input", "wbr"})


def read_hocr(text: str) -> list[Page]:
    """Read every page of an hOCR file, in time that grows as its length does.

    Boxes become shares of the page.

    Raises:
        ManifestError: it has no page, or a page or word without a box.
    """
    reader = _HocrReader()
    for element in _elements_of(text):
        reader.take(element)
    if not reader.pages:
        raise ManifestError("no element of class ocr_page: not hOCR")
    return reader.pages


class _Element(NamedTuple):
    """A tag of hOCR that opens or closes an element.

    Attributes:
        is_closing: whether it closes the element.
        attributes: the text of its attributes.
        text_before: the text between the tag before and this one.
        text: the whole file.
        start: place where the tag begins in it.
    """

    is_closing: bool
    attributes: str
    text_before: str
    text: str
    start: int

    def classes_and_title(self) -> tuple[set[str], str]:
        """Return the tag's classes and title; empty for a closing tag."""
        if self.is_closing:
            return set(), ""
        values = {name.lower(): max(texts) for name, *texts in _ATTRIBUTE.findall(self.attributes)}
        return {*values.get("class", "").split()}, values.get("title", "")

    def box(self, title: str) -> Box:
        """Return the box (bbox) that a title attribute states.

        Raises:
            ManifestError: it has none.
        """
        match = _BBOX.search(_unescape(title))
        reason = "no bbox in the title"
        if match is not None:
            try:
                left, top, right, bottom = map(float, match.groups())
            except ValueError:
                reason = "the bbox is not of numbers"
            else:
                return (left, top, right, bottom)
        line = self.text.count("\n", 0, self.start) + 1
        raise ManifestError(f"line {line}: {reason}")


def _elements_of(text: str) -> Iterator[_Element]:
    """Yield the tags of elements that can hold text, in the order of the file.

    Comments and declarations are no text, and an empty element divides none.
    """
    end = 0
    texts: list[str] = []
    for token in _TOKEN.finditer(text):
        texts.append(text[end : token.start()])
        end = token.end()
        slash, name, attributes = token.groups()
        if name is None or name.lower() in _EMPTY or attributes.endswith("/"):
            continue
        yield _Element(bool(slash), attributes, "".join(texts), text, token.start())
        texts.clear()


class _HocrReader:
    """Makes the pages of hOCR from its tags, one after the other.

    Attributes:
        pages: the pages so far.
    """

    def __init__(self) -> None:
        """Start before the first tag: no page yet, and outside of any word."""
        self.pages: list[Page] = []
        self._page_box: Box = (0.0, 0.0, 0.0, 0.0)
        self._word_box: Box | None = None
        self._texts: list[str] = []
        self._depth = 0

    def take(self, element: _Element) -> None:
        """Take the next tag: within a word go on with it, else begin a page or a word.

        Raises:
            ManifestError: a page or word has no box, or a word has no page.
        """
        if self._word_box is not None:
            self._go_on(element, self._word_box)
            return
        classes, title = element.classes_and_title()
        if "ocr_page" in classes:
            self._page_box = element.box(title)
            self.pages.append(Page("", shape=self._shape))
        elif classes & {"ocrx_word", "ocr_word"}:
            if not self.pages:
                raise ManifestError("a word before the first page")
            self._word_box = element.box(title)
            self._texts = []
            self._depth = 1

    @property
    def _shape(self) -> tuple[float, float]:
        """Return the width and height of the current page."""
        left, top, right, bottom = self._page_box
        return (right - left, bottom - top)

    def _go_on(self, element: _Element, box: Box) -> None:
        """Take a tag within a word: collect its text, and add the word where its tag closes."""
        self._texts.append(element.text_before)
        self._depth += -1 if element.is_closing else 1
        if self._depth > 0:
            return
        left, top, _, _ = self._page_box
        text = " ".join(_unescape("".join(self._texts)).split())
        on_page = (box[0] - left, box[1] - top, box[2] - left, box[3] - top)
        self.pages[-1].words.append(Word(text, shares_of(on_page, self._shape)))
        self._word_box = None


def _unescape(text: str) -> str:
    """Replace the references to characters in a text.

    Raises:
        ManifestError: one has thousands of digits.
    """
    try:
        return html.unescape(text)
    except ValueError:
        raise ManifestError("a reference to a character that there is not") from None
