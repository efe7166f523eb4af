"""Pages of Azure's results: Document Intelligence, Form Recognizer, Read; REST, SDKs, labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.corpus.documents import Box, Word
from audit.importers.columns import read_box
from audit.importers.pages import (
    LINES,
    Field,
    Page,
    clean,
    line_words,
    shares_of,
    words_inside,
)
from audit.importers.services.spelling import first_of, member, optional

_PAGES = ("pages", "readResults", "recognitionResults")
_BOXES = ("polygon", "boundingBox", "boundingPolygon")


def azure_pages(value: Any) -> Iterator[Page]:
    """Yield the pages of a result, with what it understood of them as fields."""
    result = _result_of(value)
    pages: dict[int, Page] = {}
    for number, page_value in enumerate(_list_of_pages(result), start=1):
        pages[_number_of(page_value, number)] = _read_page(page_value)
    for region in _regions_of(result):
        page = pages.get(region.page)
        if page is not None:
            box = None if region.box is None else shares_of(region.box, page.shape or (1, 1))
            page.fields.append(Field(region.label, box=box, value=region.text))
    yield from pages.values()


@dataclass(frozen=True)
class _Region:
    """A text that a result understood, with its label, and its place in the unit of its page."""

    label: str
    text: str
    page: int
    box: Box | None


def _result_of(value: Any) -> Mapping[str, Any]:
    """Return the result proper: of an analysis, or of a list of pages or forms."""
    if isinstance(value, list):
        pages: list[Any] = []
        for form in value:
            pages += optional(form, "pages", [form])
        return {"pages": pages}
    result: Mapping[str, Any] = optional(value, "analyzeResult", value)
    image = optional(result, "readResult")
    if image is None:
        return result
    size = optional(result, "metadata", {})
    lines: list[Any] = []
    for block in optional(image, "blocks", ()):
        lines += optional(block, "lines", ())
    return {"pages": optional(image, "pages", [{"lines": lines, **size}])}


def _list_of_pages(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the pages of a result, under any of their names."""
    pages: Sequence[Mapping[str, Any]] = first_of(result, *_PAGES)
    return pages


def _number_of(page: Mapping[str, Any], number: int) -> int:
    """Return the number that a page has in its file; `number` where it has none."""
    try:
        return int(first_of(page, "pageNumber", "page"))
    except KeyError:
        return number


def _read_page(value: Mapping[str, Any]) -> Page:
    """Read the words of a page; of lines without words, parts of the line."""
    shape = (float(member(value, "width")), float(member(value, "height")))
    page = Page("", shape=shape, unit="shares")
    if optional(value, "words") is not None:
        page.words = list(_words_of(member(value, "words"), shape))
        return page
    for line in optional(value, "lines", ()):
        words = optional(line, "words")
        page.notes[LINES] += words is None
        page.words += _words_of([line] if words is None else words, shape)
    return page


def _words_of(elements: Iterable[Any], shape: tuple[float, float]) -> Iterator[Word]:
    """Yield the words of elements, each of which has a text and a box."""
    for element in elements:
        text = first_of(element, "content", "text")
        yield from line_words(clean(text), shares_of(_box_of(element), shape))


def _box_of(element: Mapping[str, Any]) -> Box:
    """Return the box of an element, in the unit of its page."""
    return read_box(first_of(element, *_BOXES), "polygon")


def _regions_of(result: Mapping[str, Any]) -> Iterator[_Region]:
    """Yield the keys and values that a result names, and the fields of its documents."""
    for pair in optional(result, "keyValuePairs", ()):
        for label in ("key", "value"):
            yield from _region_of(label, optional(pair, label))
    for key in ("documents", "documentResults"):
        for document in optional(result, key, ()):
            yield from _leaves(optional(document, "fields", {}))


def _leaves(fields: Mapping[str, Any]) -> Iterator[_Region]:
    """Yield the fields of a document without parts, and the parts of the others."""
    for label, field in fields.items():
        if field is None:
            continue
        kind = optional(field, "type", optional(field, "valueType", ""))
        if kind in ("array", "list"):
            for item in first_of(field, "valueArray", "value"):
                yield from _leaves({label: item})
        elif kind in ("object", "dictionary"):
            yield from _leaves(first_of(field, "valueObject", "value"))
        else:
            yield from _region_of(label, field)


def _region_of(label: str, element: Mapping[str, Any] | None) -> Iterator[_Region]:
    """Yield the region of an element, if it has a text."""
    if element is None:
        return
    text = optional(element, "content", optional(element, "text"))
    if not isinstance(text, str) or not clean(text):
        return
    regions = optional(element, "boundingRegions", ())
    place = regions[0] if regions else element
    has_box = any(optional(place, name) is not None for name in _BOXES)
    yield _Region(label, text, _number_of(place, 1), _box_of(place) if has_box else None)


@dataclass(frozen=True)
class _Labelled:
    """The words of a label on a page: their texts, and their boxes in shares of the page."""

    texts: list[str]
    boxes: list[Box]


def add_labels(pages: Sequence[Page], value: Mapping[str, Any]) -> None:
    """Add the labels of a labelled project (.labels.json) as fields to the pages of a document.

    Args:
        pages: pages of the document, in order.
        value: the JSON of the labels.
    """
    for label in member(value, "labels"):
        for number, labelled in _labelled_of(label).items():
            if 0 < number <= len(pages):
                _add_labelled(pages[number - 1], member(label, "label"), labelled)


def _labelled_of(label: Mapping[str, Any]) -> dict[int, _Labelled]:
    """Return what a label marks on each page, by number."""
    marked: dict[int, _Labelled] = {}
    for value in optional(label, "value", ()):
        labelled = marked.setdefault(int(optional(value, "page", 1)), _Labelled([], []))
        labelled.texts.append(clean(optional(value, "text", "")))
        for box in optional(value, "boundingBoxes", ()):
            labelled.boxes.append(read_box(box, "boundingBoxes"))
    return marked


def _add_labelled(page: Page, label: str, labelled: _Labelled) -> None:
    """Add a label to a page: of the words in its boxes, else of its text; none for a picture."""
    numbers: list[int] = []
    if page.unit == "shares":
        for box in labelled.boxes:
            numbers += words_inside(page.words, box)
    words = tuple(dict.fromkeys(numbers))
    texts = filter(None, labelled.texts)
    text = " ".join(texts) or " ".join(page.words[number].text for number in words)
    if text:
        page.fields.append(Field(label, words, value=text))
