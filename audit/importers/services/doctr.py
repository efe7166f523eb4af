"""Pages of docTR's exports, with the predictions of its KIE predictor as fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.corpus.documents import Box, Word
from audit.importers.columns import read_box
from audit.importers.pages import Field, Page, clean, line_words


def doctr_pages(value: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the pages of an export: of a document, or of one page."""
    for page in value.get("pages", [value]):
        yield _read_page(page)


def _read_page(value: Mapping[str, Any]) -> Page:
    """Read a page; one with predictions may lack blocks."""
    height, width = value["dimensions"]
    page = Page("", shape=(float(width), float(height)), unit="shares")
    predictions = value.get("predictions", {})
    if "blocks" in value or not predictions:
        for block in value["blocks"]:
            page.words += _words_of_block(block)
    for label, values in predictions.items():
        for prediction in values:
            _add_prediction(page, label, prediction)
    return page


def _words_of_block(block: Mapping[str, Any]) -> Iterator[Word]:
    """Yield the words of a block, line by line."""
    for line in block["lines"]:
        for word in line["words"]:
            yield from line_words(clean(word["value"]), _box_of(word))


def _add_prediction(page: Page, label: str, prediction: Mapping[str, Any]) -> None:
    """Add a predicted field with its words."""
    first = len(page.words)
    text = prediction["value"]
    page.words += line_words(clean(text), _box_of(prediction))
    page.fields.append(Field(label, tuple(range(first, len(page.words))), value=text))


def _box_of(value: Mapping[str, Any]) -> Box:
    """Return the box of a word or prediction, in shares of the page."""
    return read_box(value["geometry"], "geometry")
