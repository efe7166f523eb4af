"""Pages of DocLayNet's cells, which lie beside its COCO files: stretches of text with a box."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.importers.pages import Page, clean, line_words, shares_of


def doclaynet_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the page of a file of cells; a box is x, y, width and height on the original page."""
    metadata = value["metadata"]
    shape = (float(metadata["original_width"]), float(metadata["original_height"]))
    page = Page("", shape=shape, unit="shares")
    for cell in value["cells"]:
        x, y, width, height = map(float, cell["bbox"])
        box = shares_of((x, y, x + width, y + height), shape)
        page.words += line_words(clean(cell["text"]), box)
    yield page
