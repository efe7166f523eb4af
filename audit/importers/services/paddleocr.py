"""Pages of PaddleOCR's results: tables of version 3, also within those of pipelines; lists of 2."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.importers.columns import read_box
from audit.importers.pages import Page, clean, line_words
from audit.importers.services.spelling import first_of

_AROUND = ("res", "result", "ocrResults", "layoutParsingResults", "prunedResult", "overall_ocr_res")
"""Keys that stand around the texts of a page, where another program of the family wrote it."""


def paddleocr_pages(value: Any) -> Iterator[Page]:
    """Yield the pages of a result."""
    if isinstance(value, list) and not _tables_in(value):
        yield from _pages_of_lists(value)
        return
    for table in _tables_in(value):
        texts = table["rec_texts"]
        boxes = first_of(table, "rec_polys", "rec_boxes") if texts else []
        yield _page_of(zip(texts, boxes, strict=True))


def is_paddleocr(value: Any) -> bool:
    """Test whether a result is of PaddleOCR, also that of an empty page."""
    if _tables_in(value):
        return True
    if not isinstance(value, list):
        return False
    first = next(filter(None, value), None)
    return not first or _is_line(first) or (isinstance(first, list) and _is_line(first[0]))


def _tables_in(value: Any) -> list[Mapping[str, Any]]:
    """List the tables with texts in a result, whatever stands around them."""
    if isinstance(value, list):
        tables: list[Mapping[str, Any]] = []
        for inner in value:
            if isinstance(inner, Mapping):
                tables += _tables_in(inner)
        return tables
    if not isinstance(value, Mapping):
        return []
    if "rec_texts" in value:
        return [value]
    for key in _AROUND:
        if key in value:
            return _tables_in(value[key])
    return []


def _pages_of_lists(value: Sequence[Any]) -> Iterator[Page]:
    """Yield the pages of lists of lines; null or an empty list is a page without words."""
    lists = [value] if not value or _is_line(value[0]) else value
    for lines in lists:
        yield _page_of((line[1][0], line[0]) for line in lines or ())


def _is_line(value: Any) -> bool:
    """Test whether a value is a line of version 2: box, and text with score."""
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[1], list):
        return False
    return bool(value[1]) and isinstance(value[1][0], str)


def _page_of(lines: Any) -> Page:
    """Make the page of lines, each a text and a box in pixels."""
    page = Page("", unit="pixels")
    for text, box in lines:
        page.words += line_words(clean(text), read_box(box, "box"))
    return page
