"""Elements of XML files of a source: parsed without entities, their names and numbers."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from audit.errors import ManifestError

_DECLARED = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)


def parse_xml(text: str) -> Element:
    """Parse the text of an XML file, whose declared encoding no longer counts.

    Raises:
        ManifestError: it is no XML, or declares a document type or entities.
    """
    if _DECLARED.search(text):
        raise ManifestError(
            "it declares a document type or entities, which ALTO and PAGE do not need: not read"
        )
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ManifestError(f"not XML at line {error.position[0]}") from None


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def numbers_of(element: Element, *keys: str) -> list[float]:
    """Return these attributes of an element as numbers; refuse what is no number."""
    try:
        return [float(element.get(key, "")) for key in keys]
    except ValueError:
        reason = f"{local_name(element)}: one of {', '.join(keys)} is no number"
        raise ManifestError(reason) from None
