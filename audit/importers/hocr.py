"""hOCR: HTML whose elements of class ocrx_word have their box in the title ("bbox 24 61 149 90")."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from audit.corpus.documents import Word
from audit.errors import ManifestError
from audit.importers.boxes import shares_of
from audit.importers.pages import Page

_TOKEN = re.compile(
    r"""<!--(?s:.*?)(?:-->|\Z)|<[!?][^<>]*+>|<(/?)([a-zA-Z][^\s/<>]*+)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>"""
)
"""Comments, declarations and tags; `HTMLParser` takes quadratic time over those that do not end. What is tried in vain
ends at the next "<"."""
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s=/"'<>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>]++))""")
_BOX = re.compile(r"\bbbox\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)\s+(-?[\d.]+)")
_EMPTY = frozenset({"br", "img", "meta", "link", "hr", "input", "wbr"})


def read_hocr(text: str) -> list[Page]:
    """Read every page of an hOCR file, in time that grows as its length does; boxes become shares of the page.

    Raises:
        ManifestError: it has no page, or a page or word without a box.
    """
    pages: list[Page] = []
    words: list[Word] = []
    left, top, right, bottom = 0.0, 0.0, 0.0, 0.0
    box: tuple[float, ...] | None = None
    texts: list[str] = []
    depth = end = 0
    for token in _TOKEN.finditer(text):
        if box is not None:
            texts.append(text[end : token.start()])
        end = token.end()
        closing, name, attributes = token.groups()
        if name is None or name.lower() in _EMPTY or attributes.endswith("/"):
            continue
        if box is not None:
            depth += -1 if closing else 1
            if depth == 0:
                value = " ".join(_unescaped("".join(texts)).split())
                place = (box[0] - left, box[1] - top, box[2] - left, box[3] - top)
                words.append(Word(value, shares_of(place, (right - left, bottom - top))))
                box = None
            continue
        found = {name.lower(): max(values) for name, *values in _ATTRIBUTE.findall(attributes)}
        classes = {*found.get("class", "").split()} if not closing else set()
        if "ocr_page" in classes:
            left, top, right, bottom = _box(found, text, token.start())
            words = []
            pages.append(Page("", words=words, shape=(right - left, bottom - top)))
        elif classes & {"ocrx_word", "ocr_word"}:
            if not pages:
                raise ManifestError("a word before the first page")
            box, texts, depth = _box(found, text, token.start()), [], 1
    if not pages:
        raise ManifestError("no element of class ocr_page: not hOCR")
    return pages


def _box(attributes: Mapping[str, str], text: str, place: int) -> tuple[float, ...]:
    found = _BOX.search(_unescaped(attributes.get("title", "")))
    reason = "no bbox in the title"
    if found is not None:
        try:
            return tuple(float(number) for number in found.groups())
        except ValueError:
            reason = "the bbox is not of numbers"
    raise ManifestError(f"line {text.count(chr(10), 0, place) + 1}: {reason}")


def _unescaped(text: str) -> str:
    """Replace the references to characters in a text.

    Raises:
        ManifestError: one has thousands of digits.
    """
    try:
        return html.unescape(text)
    except ValueError:
        raise ManifestError("a reference to a character that there is not") from None
