"""Pages of hOCR, read from its tags one after the other, in time that grows as its length does.

Text belongs to the innermost word, line or region around it. That of a line or region counts only
where nothing in it has text: then its box is divided, or is that of each word.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.pages import (
    ALTERNATIVES,
    LEFT_OUT,
    LINES,
    REGIONS,
    Page,
    block_words,
    clean,
    line_words,
    shares_of,
)

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
_CLOSED_BY_THE_NEXT = frozenset({"p", "li", "td", "th", "tr", "dt", "dd", "option"})
"""Elements of HTML that need no closing tag before another one of their name."""
_INLINE = frozenset(
    {"a", "b", "bdo", "del", "em", "font", "i", "ins", "small", "span", "strong", "sub", "sup", "u"}
)
"""Elements that divide no words, as they begin no line of their own."""
_REGION, _LINE_OF_ITS_OWN, _LINE, _WORD = range(4)
"""Levels of elements with a box, of which each may be in one of the same level or before."""
_LEVELS = {
    **dict.fromkeys(("ocr_carea", "ocr_column", "ocr_par", "ocrx_block", "ocr_float"), _REGION),
    **dict.fromkeys(
        ("ocr_header", "ocr_footer", "ocr_caption", "ocr_textfloat", "ocr_pageno"),
        _LINE_OF_ITS_OWN,
    ),
    **dict.fromkeys(("ocr_line", "ocrx_line"), _LINE),
    **dict.fromkeys(("ocrx_word", "ocr_word"), _WORD),
}


def read_hocr(text: str) -> list[Page]:
    """Read every page of an hOCR file, in time that grows as its length does.

    Boxes become shares of the page, or stay pixels where the page states no box.

    Raises:
        ManifestError: it has no page, or a word without a box.
    """
    reader = _HocrReader()
    for tag in _tags_of(text):
        reader.take(tag)
    reader.end()
    if not reader.pages:
        raise ManifestError("no element of class ocr_page: not hOCR")
    return reader.pages


class _Tag(NamedTuple):
    """A tag of hOCR that opens or closes an element.

    Attributes:
        name: name of the element, in lower case.
        is_closing: whether it closes the element.
        attributes: the text of its attributes.
        text_before: the text between the tag before and this one.
        text: the whole file.
        start: place where the tag begins in it.
    """

    name: str
    is_closing: bool
    attributes: str
    text_before: str
    text: str
    start: int

    def classes_and_title(self) -> tuple[set[str], str]:
        """Return the tag's classes and title."""
        values = {name.lower(): max(texts) for name, *texts in _ATTRIBUTE.findall(self.attributes)}
        return {*values.get("class", "").split()}, values.get("title", "")

    def box(self, title: str) -> Box | None:
        """Return the box (bbox) that a title attribute states; None without one.

        Raises:
            ManifestError: it is not of numbers.
        """
        match = _BBOX.search(_unescape(title))
        if match is None:
            return None
        try:
            left, top, right, bottom = map(float, match.groups())
        except ValueError:
            raise self.fault("the bbox is not of numbers") from None
        return (left, top, right, bottom)

    def fault(self, reason: str) -> ManifestError:
        """Return the error of this tag, with the line that it is in."""
        line = self.text.count("\n", 0, self.start) + 1
        return ManifestError(f"line {line}: {reason}")


def _tags_of(text: str) -> Iterator[_Tag]:
    """Yield the tags of elements that can hold text, in the order of the file.

    Comments and declarations are no text. A line ends at an element that says so, not at a newline.
    """
    end = 0
    texts: list[str] = []
    for token in _TOKEN.finditer(text):
        texts.append(text[end : token.start()].replace("\n", " ").replace("\r", " "))
        end = token.end()
        slash, name, attributes = token.groups()
        if name is None:
            continue
        if name.lower() == "br":
            texts.append("\n")
        if name.lower() in _EMPTY or attributes.endswith("/"):
            continue
        yield _Tag(name.lower(), bool(slash), attributes, "".join(texts), text, token.start())
        texts.clear()


@dataclass
class _Holder:
    """An open element that holds text of a page: a word, line or region, or the page itself.

    Attributes:
        level: its level; None: the page.
        box: its box; None: a page's.
        depth: how many elements are open around it.
        texts: the texts in it that are in no holder within it.
        has_words: whether holders in it gave the page words.
    """

    level: int | None
    box: Box | None
    depth: int
    texts: list[str] = field(default_factory=list)
    has_words: bool = False


class _HocrReader:
    """Makes the pages of hOCR from its tags, one after the other.

    Attributes:
        pages: the pages so far.
    """

    def __init__(self) -> None:
        """Start before the first tag: no page yet, and outside of any element."""
        self.pages: list[Page] = []
        self._corner = (0.0, 0.0)
        self._open: list[str] = []
        self._n_open = Counter[str]()
        self._holders: list[_Holder] = []
        self._alternative: int | None = None

    def take(self, tag: _Tag) -> None:
        """Take the next tag, and the text before it.

        Raises:
            ManifestError: a word has no box, or no page.
        """
        self._add_text(tag.text_before)
        if tag.name not in _INLINE:
            self._add_text("\n")
        if tag.is_closing:
            self._close(tag.name)
            return
        if self._open and self._open[-1] == tag.name and tag.name in _CLOSED_BY_THE_NEXT:
            self._close(tag.name)
        self._begin(tag)
        self._open.append(tag.name)
        self._n_open[tag.name] += 1

    def end(self) -> None:
        """End all elements that the file left open."""
        while self._open:
            self._close(self._open[-1])

    def _add_text(self, text: str) -> None:
        """Add a text to the innermost holder, unless it is an alternative."""
        if self._holders and self._alternative is None:
            self._holders[-1].texts.append(text)

    @property
    def _level(self) -> int | None:
        """Return the level of the innermost holder; None in a page alone, or in none."""
        return self._holders[-1].level if self._holders else None

    def _begin(self, tag: _Tag) -> None:
        """Begin what a tag opens: a page, a holder of text, an alternative text, or nothing."""
        if self._alternative is not None:
            return
        if tag.name == "del":
            self._begin_alternative(tag)
        elif self._level != _WORD:
            classes, title = tag.classes_and_title()
            if "ocr_page" in classes:
                self._begin_page(tag.box(title))
            elif not classes.isdisjoint(_LEVELS):
                level = max(_LEVELS.get(name, _REGION) for name in classes)
                self._begin_holder(tag, level, tag.box(title))

    def _begin_alternative(self, tag: _Tag) -> None:
        """Begin a text that hOCR does not prefer, if the tag says so; it is not read."""
        classes, _ = tag.classes_and_title()
        if "alt" in classes and self._holders:
            self._alternative = len(self._open)
            self.pages[-1].notes[ALTERNATIVES] += 1

    def _begin_page(self, box: Box | None) -> None:
        """Begin a page with this box; without one that has an area its boxes are pixels."""
        while self._holders:
            self._finish(self._holders.pop())
        if box is None or box[2] <= box[0] or box[3] <= box[1]:
            self._corner = (0.0, 0.0)
            self.pages.append(Page("", unit="pixels"))
        else:
            self._corner = box[:2]
            shape = (box[2] - box[0], box[3] - box[1])
            self.pages.append(Page("", shape=shape, unit="shares"))
        self._holders.append(_Holder(None, None, len(self._open)))

    def _begin_holder(self, tag: _Tag, level: int, box: Box | None) -> None:
        """Begin an element that holds text, unless it is in one of a finer level."""
        if level == _WORD and not self.pages:
            raise ManifestError("a word before the first page")
        if level == _WORD and box is None:
            raise tag.fault("no bbox in the title")
        is_in_finer = self._level is not None and self._level > level
        if box is None or not self.pages or is_in_finer:
            return
        self._holders.append(_Holder(level, box, len(self._open)))

    def _close(self, name: str) -> None:
        """Close the innermost open element of a name, and all in it; nothing where none is open."""
        if not self._n_open[name]:
            return
        while True:
            closed = self._open.pop()
            self._n_open[closed] -= 1
            depth = len(self._open)
            if self._alternative is not None and self._alternative >= depth:
                self._alternative = None
            if self._holders and self._holders[-1].depth >= depth:
                self._finish(self._holders.pop())
            if closed == name:
                return

    def _finish(self, holder: _Holder) -> None:
        """Add the words of a holder that is closed to the page; tell the one around it."""
        page = self.pages[-1]
        lines = [" ".join(line.split()) for line in _unescape("".join(holder.texts)).split("\n")]
        text = "\n".join(filter(None, map(clean, lines)))
        has_text = bool(text)
        if holder.has_words and has_text:
            page.notes[LEFT_OUT] += 1
        elif has_text or holder.level == _WORD:
            self._add_words(page, holder, text)
        if self._holders:
            self._holders[-1].has_words |= has_text or holder.has_words

    def _add_words(self, page: Page, holder: _Holder, text: str) -> None:
        """Add the text of a holder to the page, as words of the holder's level."""
        one_line = " ".join(text.split())
        if holder.box is None:
            page.words += (Word(word) for word in text.split())
            return
        left, top = self._corner
        x0, y0, x1, y1 = holder.box
        box = (x0 - left, y0 - top, x1 - left, y1 - top)
        if page.shape is not None:
            box = shares_of(box, page.shape)
        if holder.level == _WORD:
            page.words.append(Word(one_line, box))
        elif holder.level == _LINE:
            page.words += line_words(one_line, box)
            page.notes[LINES] += 1
        else:
            page.words += block_words(text, box, page.shape or (1.0, 1.0))
            page.notes[REGIONS] += 1


def _unescape(text: str) -> str:
    """Replace the references to characters in a text.

    Raises:
        ManifestError: one has thousands of digits.
    """
    try:
        return html.unescape(text)
    except ValueError:
        raise ManifestError("a reference to a character that there is not") from None
