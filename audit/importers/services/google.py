"""Pages of Google's results: documents of Document AI, and responses of Vision."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box
from audit.importers.columns import read_box
from audit.importers.pages import (
    LINES,
    REGIONS,
    Field,
    Page,
    block_words,
    clean,
    line_words,
    shares_of,
)
from audit.importers.reading import joined
from audit.importers.services.spelling import member, optional

_LEVELS = ("tokens", "lines", "paragraphs", "blocks")
"""Parts of a page, the finest first."""
_NOTES = {"lines": LINES, "paragraphs": REGIONS, "blocks": REGIONS}


def document_ai_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of a document, with its form fields and entities as fields."""
    document = optional(value, "document", value)
    pages = [_read_page(page, document) for page in member(document, "pages")]
    for entity in _leaves(optional(document, "entities", ())):
        _add_entity(pages, entity)
    yield from pages


def _read_page(value: Mapping[str, Any], document: Mapping[str, Any]) -> Page:
    """Read a page: its tokens, or the next finest parts that it has; and its form fields."""
    dimension = optional(value, "dimension")
    shape = None
    if dimension is not None:
        shape = (float(member(dimension, "width")), float(member(dimension, "height")))
    page = Page("", shape=shape, unit="shares")
    for level in _LEVELS:
        elements = optional(value, level, ())
        if elements:
            _add_elements(page, level, elements, document)
            break
    for field in optional(value, "formFields", ()):
        for label, key in (("key", "fieldName"), ("value", "fieldValue")):
            layout = optional(field, key)
            if layout is not None:
                _add_field(page, label, _text_of(layout, document), layout)
    return page


def _add_elements(
    page: Page, level: str, elements: Sequence[Mapping[str, Any]], document: Mapping[str, Any]
) -> None:
    """Add the words of the elements of a level to a page; count what is coarser than tokens."""
    for element in elements:
        layout = member(element, "layout")
        text = _text_of(layout, document)
        box = _box_of(layout, page.shape)
        if level in _NOTES:
            page.notes[_NOTES[level]] += 1
        if level in ("tokens", "lines"):
            page.words += line_words(clean(text), box)
        else:
            page.words += block_words(text, box, page.shape or (1, 1))


def _text_of(layout: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the text of a layout: its places in the document's text, joined."""
    anchor = optional(layout, "textAnchor", {})
    text = member(document, "text")
    return joined(
        text[int(optional(place, "startIndex", 0)) : int(member(place, "endIndex"))]
        for place in optional(anchor, "textSegments", ())
    )


def _box_of(layout: Mapping[str, Any], shape: tuple[float, float] | None) -> Box:
    """Return the box of a layout, in shares of its page; from its pixels where it has no shares."""
    outline = member(layout, "boundingPoly")
    corners = optional(outline, "normalizedVertices")
    if corners or shape is None:
        return read_box(member(outline, "normalizedVertices"), "normalizedVertices")
    return shares_of(read_box(member(outline, "vertices"), "vertices"), shape)


def _add_field(page: Page, label: str, text: str, layout: Mapping[str, Any]) -> None:
    """Add a field with a text to a page, with its region where it has one."""
    if clean(text):
        has_box = optional(layout, "boundingPoly") is not None
        box = _box_of(layout, page.shape) if has_box else None
        page.fields.append(Field(label, box=box, value=clean(text)))


def _leaves(entities: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the entities without parts, and the parts of the others."""
    for entity in entities:
        parts = optional(entity, "properties", ())
        if parts:
            yield from _leaves(parts)
        else:
            yield entity


def _add_entity(pages: Sequence[Page], entity: Mapping[str, Any]) -> None:
    """Add an entity as a field to the page that it names, else to the first."""
    places = optional(optional(entity, "pageAnchor", {}), "pageRefs", ())
    place = places[0] if places else {}
    number = int(optional(place, "page", 0))
    text = optional(entity, "mentionText", "")
    if 0 <= number < len(pages):
        _add_field(pages[number], str(member(entity, "type")), text, place)


def vision_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of responses of Vision, or of one response."""
    for response in optional(value, "responses", [value]):
        annotation = optional(response, "fullTextAnnotation")
        if annotation is None:
            yield Page("", unit="pixels")
            continue
        for page in member(annotation, "pages"):
            yield _read_vision_page(page)


def _read_vision_page(value: Mapping[str, Any]) -> Page:
    """Read the words of a page of Vision, each of which is a list of symbols."""
    shape = (float(member(value, "width")), float(member(value, "height")))
    page = Page("", shape=shape, unit="shares")
    for block in optional(value, "blocks", ()):
        for paragraph in optional(block, "paragraphs", ()):
            for word in optional(paragraph, "words", ()):
                symbols = optional(word, "symbols", ())
                text = "".join(str(member(symbol, "text")) for symbol in symbols)
                outline = {"boundingPoly": member(word, "boundingBox")}
                page.words += line_words(clean(text), _box_of(outline, shape))
    return page
