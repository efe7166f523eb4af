"""Pages of the documents that Docling writes as JSON."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from audit.corpus.documents import Box, Word
from audit.importers.pages import Page, bounds, clean, line_words, shares_of


def docling_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of a Docling document.

    Words of a text of several lines all get its box.
    """
    items = defaultdict[int, list[tuple[str, Mapping[str, Any]]]](list)
    for item in value["texts"]:
        for place in item["prov"][:1]:
            items[place["page_no"]].append((item["text"], place["bbox"]))
    for table in value.get("tables", ()):
        for cell in table["data"]["table_cells"]:
            if cell.get("bbox"):
                items[table["prov"][0]["page_no"]].append((cell["text"], cell["bbox"]))
    for page in value["pages"].values():
        width = float(page["size"]["width"])
        height = float(page["size"]["height"])
        word_page = Page("", shape=(width, height))
        for text, box in items[page["page_no"]]:
            below = height if box.get("coord_origin") == "BOTTOMLEFT" else 0.0
            corners = bounds([(box["l"], abs(below - box["t"])), (box["r"], abs(below - box["b"]))])
            word_page.words += _docling_words(text, corners, (width, height))
        yield word_page


def _docling_words(text: str, corners: Box, size: tuple[float, float]) -> Iterator[Word]:
    """Yield the words of a text with boxes: parts of a line's box, or that of several lines.

    A line's box is divided, that of several lines is the box of each word.
    """
    place = shares_of(corners, size)
    width = corners[2] - corners[0]
    height = corners[3] - corners[1]
    if width > height * len(text) / 4:
        yield from line_words(clean(text), place)
    else:
        yield from (Word(word, place) for word in text.split())
