"""ALTO (versions 2 to 4): XML whose String elements have CONTENT, HPOS, VPOS, WIDTH and HEIGHT."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftWord
from audit.importers.words.reading import ReadPage, shared

_DECLARED = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)


def read(text: str) -> tuple[ReadPage, ...]:
    """Read every page of an ALTO file.

    Raises:
        ManifestError: it is no XML, names no encoding that there is, declares entities, has no page, or a page or word
            lacks a number.
    """
    if _DECLARED.search(text):
        raise ManifestError("it declares a document type or entities, which ALTO does not need: not read")
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise ManifestError(f"not XML at line {error.position[0]}") from None
    except (LookupError, ValueError):  # of an encoding that nobody knows, or that is none of bytes
        raise ManifestError("not XML: it names an encoding that there is not") from None
    pages = [element for element in root.iter() if _name(element) == "Page"]
    if not pages:
        raise ManifestError("no element Page: not ALTO")
    return tuple(_page(page) for page in pages)


def _page(page: ElementTree.Element) -> ReadPage:
    shape = (_number(page, "WIDTH"), _number(page, "HEIGHT"))
    return ReadPage(tuple(_words(page, shape)), shape)


def _words(page: ElementTree.Element, shape: tuple[float, float]) -> Iterator[DraftWord]:
    for element in page.iter():
        if _name(element) == "String":
            x, y = _number(element, "HPOS"), _number(element, "VPOS")
            box = (x, y, x + _number(element, "WIDTH"), y + _number(element, "HEIGHT"))
            yield DraftWord(element.get("CONTENT", ""), shared(box, shape))


def _name(element: ElementTree.Element) -> str:
    """The element's name without its namespace, which differs between versions."""
    return str(element.tag).rpartition("}")[2]


def _number(element: ElementTree.Element, key: str) -> float:
    try:
        return float(element.get(key, ""))
    except ValueError:
        raise ManifestError(f"{_name(element)} {element.get('ID', '')}: {key} is no number") from None
