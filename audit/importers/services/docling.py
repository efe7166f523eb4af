"""Pages of the documents that Docling writes as JSON: texts, tables, keys and values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.corpus.documents import Box
from audit.importers.pages import Field, Page, block_words, bounds, clean, shares_of, words_inside

UNDIVIDED = "texts in several places without a division: their words have the first"
NOWHERE = "texts and cells without a place, left out"
"""Counts of texts for the report."""
_LABELS = {"key": "key", "value": "value", "field_key": "key", "field_value": "value"}
"""Labels of the fields that cells of a graph, and texts, are."""


def docling_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of a document; keys and values are fields."""
    reader = _DoclingReader(value["pages"])
    for item in value["texts"]:
        reader.add_text(item)
    for table in value.get("tables", ()):
        reader.add_table(table)
    for kind in ("key_value_items", "form_items"):
        for item in value.get(kind, ()):
            for cell in item["graph"]["cells"]:
                reader.add_cell(cell)
    yield from reader.pages.values()


class _DoclingReader:
    """Places the texts of a document on its pages.

    Attributes:
        pages: the pages, by number.
    """

    def __init__(self, pages: Mapping[str, Any]) -> None:
        """Start with pages without words."""
        self.pages: dict[int, Page] = {}
        self._texts: dict[str, list[tuple[Page, tuple[int, ...]]]] = {}
        for page in pages.values():
            shape = (float(page["size"]["width"]), float(page["size"]["height"]))
            self.pages[page["page_no"]] = Page("", shape=shape, unit="shares")

    def add_text(self, item: Mapping[str, Any]) -> None:
        """Add a text, each part of it in its place; the text of a form is a field too."""
        if not item["prov"] and item["text"].strip():
            for page in list(self.pages.values())[:1]:
                page.notes[NOWHERE] += 1
        parts: list[tuple[Page, tuple[int, ...]]] = []
        for text, place in self._parts_of(item):
            page = self.pages[place["page_no"]]
            numbers = _add_words(page, text, _box_on(page, place["bbox"]))
            parts.append((page, numbers))
            _add_field(page, item.get("label", ""), numbers, text)
        self._texts[item.get("self_ref", "")] = parts

    def add_table(self, table: Mapping[str, Any]) -> None:
        """Add the cells of a table that have a box."""
        places = table["prov"]
        if not places:
            return
        page = self.pages[places[0]["page_no"]]
        for cell in table["data"]["table_cells"]:
            if cell.get("bbox"):
                _add_words(page, cell["text"], _box_on(page, cell["bbox"]))
            elif cell["text"].strip():
                page.notes[NOWHERE] += 1

    def add_cell(self, cell: Mapping[str, Any]) -> None:
        """Add a cell of keys and values as a field, of the words of a text if it names one."""
        reference = (cell.get("item_ref") or {}).get("$ref", "")
        parts = list(self._texts.get(reference, ()))
        place = cell.get("prov")
        if place and not parts:
            page = self.pages[place["page_no"]]
            box = _box_on(page, place["bbox"])
            numbers = _words_there(page, cell["text"], box)
            parts.append((page, numbers or _add_words(page, cell["text"], box)))
        for page, numbers in parts:
            _add_field(page, cell["label"], numbers, cell["text"])

    def _parts_of(self, item: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the parts of a text, each with its place, by the characters that places name."""
        text = item["text"]
        places = item["prov"]
        starts = [place.get("charspan", (0, 0))[0] for place in places]
        if len(places) > 1 and not _divide(text, starts):
            self.pages[places[0]["page_no"]].notes[UNDIVIDED] += 1
            places = places[:1]
        cuts = [_next_word(text, start) for start in starts[1 : len(places)]]
        for number, place in enumerate(places):
            start = cuts[number - 1] if number else 0
            end = cuts[number] if number < len(cuts) else len(text)
            yield text[start:end], place


def _divide(text: str, starts: Sequence[int]) -> bool:
    """Test whether the first characters of places divide a text."""
    return list(starts) == sorted({*starts}) and starts[0] >= 0 and starts[-1] < len(text)


def _next_word(text: str, start: int) -> int:
    """Return where the next word begins, at a place within a word or at its end."""
    if start == 0 or text[start - 1].isspace():
        return start
    match = re.compile(r"\s").search(text, start)
    return match.end() if match else len(text)


def _box_on(page: Page, box: Mapping[str, Any]) -> Box:
    """Return a box in shares of its page, whichever corner its numbers count from."""
    width, height = page.shape or (1.0, 1.0)
    below = height if box.get("coord_origin") == "BOTTOMLEFT" else 0.0
    corners = bounds([(box["l"], abs(below - box["t"])), (box["r"], abs(below - box["b"]))])
    return shares_of(corners, (width, height))


def _add_words(page: Page, text: str, box: Box) -> tuple[int, ...]:
    """Add the words of a text to a page; return their indices."""
    first = len(page.words)
    page.words += block_words(text, box, page.shape or (1.0, 1.0))
    return tuple(range(first, len(page.words)))


def _words_there(page: Page, text: str, box: Box) -> tuple[int, ...]:
    """Return the indices of the words in a box, if they are this text; else none."""
    numbers = words_inside(page.words, box)
    texts = [page.words[number].text for number in numbers]
    return tuple(numbers) if texts == text.split() else ()


def _add_field(page: Page, label: str, numbers: tuple[int, ...], text: str) -> None:
    """Add a key or value with its words to a page; nothing for other labels."""
    if label in _LABELS and numbers:
        page.fields.append(Field(_LABELS[label], numbers, value=clean(text)))
