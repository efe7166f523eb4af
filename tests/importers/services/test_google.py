"""Google's documents and responses, in both spellings of their keys."""

from pathlib import Path
from typing import Any

import pytest
from service_results import (
    boxes_of,
    corners,
    fields_of,
    import_folder,
    import_result,
    points,
    texts_of,
    write_result,
)

TOTAL = points(corners(0.1, 0.1, 0.2, 0.2))
AMOUNT = points(corners(0.3, 0.1, 0.4, 0.2))
BOXES = [(60, 40, 120, 80), (180, 40, 240, 80)]
TEXT = "Total 4.20\n"
DIMENSION = {"width": 600.0, "height": 400.0}


def layout(start: int, end: int, shares: Any) -> dict[str, Any]:
    """Return the layout of a part of the text."""
    segments = [{"startIndex": str(start), "endIndex": str(end)}]
    return {
        "textAnchor": {"textSegments": segments},
        "boundingPoly": {"normalizedVertices": shares},
    }


def snake_layout(start: int, end: int, shares: Any) -> dict[str, Any]:
    """Return the layout of a part of the text as the SDK for Python saves it."""
    segments = [{"start_index": str(start), "end_index": str(end)}]
    return {
        "text_anchor": {"text_segments": segments},
        "bounding_poly": {"normalized_vertices": shares},
    }


TOKENS = [{"layout": layout(0, 6, TOTAL)}, {"layout": layout(6, 11, AMOUNT)}]
SNAKE_TOKENS = [{"layout": snake_layout(0, 6, TOTAL)}, {"layout": snake_layout(6, 11, AMOUNT)}]
PIXELS = {"vertices": [{"x": 60, "y": 40}, {"x": 120, "y": 80}], "normalizedVertices": []}
PAGE = {"pageNumber": 1, "dimension": DIMENSION, "tokens": TOKENS}
FORMS = {
    "camel case": {"text": TEXT, "pages": [PAGE]},
    "snake case": {
        "text": TEXT,
        "pages": [{"page_number": 1, "dimension": DIMENSION, "tokens": SNAKE_TOKENS}],
    },
    "no dimension": {"text": TEXT, "pages": [{"layout": layout(0, 11, TOTAL), "tokens": TOKENS}]},
    "the answer": {"document": {"text": TEXT, "pages": [PAGE]}},
    "lines": {"text": TEXT, "pages": [{"dimension": DIMENSION, "lines": TOKENS}]},
    "paragraphs": {"text": TEXT, "pages": [{"dimension": DIMENSION, "paragraphs": TOKENS}]},
    "blocks": {"text": TEXT, "pages": [{"dimension": DIMENSION, "blocks": TOKENS}]},
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS.keys())
def test_each_form_of_a_document_is_read(value: Any, tmp_path: Path) -> None:
    document = import_result("document-ai", value, tmp_path)
    assert texts_of(document) == ["Total", "4.20"]
    assert boxes_of(document) == BOXES


def test_pixels_are_read_where_there_are_no_shares(tmp_path: Path) -> None:
    token = {"layout": {**layout(0, 6, []), "boundingPoly": PIXELS}}
    value = {"text": TEXT, "pages": [{"dimension": DIMENSION, "tokens": [token]}]}
    assert boxes_of(import_result("document-ai", value, tmp_path)) == BOXES[:1]


def test_parts_coarser_than_tokens_are_counted(tmp_path: Path) -> None:
    folder = write_result(tmp_path / "src", FORMS["lines"])
    _, report = import_folder("document-ai", folder)
    assert sum(count for note, count in report.notes.items() if "lines without words" in note) == 2


def test_form_fields_are_keys_and_values(tmp_path: Path) -> None:
    field = {"fieldName": layout(0, 6, TOTAL), "fieldValue": layout(6, 11, AMOUNT)}
    value = {"text": TEXT, "pages": [{**PAGE, "formFields": [field]}]}
    document = import_result("document-ai", value, tmp_path, "token-classification")
    assert fields_of(document) == [("key", "Total"), ("value", "4.20")]


ENTITY = {
    "type": "total_amount",
    "mentionText": "4.20",
    "pageAnchor": {"pageRefs": [{"boundingPoly": {"normalizedVertices": AMOUNT}}]},
}


@pytest.mark.parametrize(
    "entity",
    [ENTITY, {"type": "line_item", "mentionText": "Total 4.20", "properties": [ENTITY]}],
    ids=["entity", "property"],
)
def test_entities_are_fields(entity: Any, tmp_path: Path) -> None:
    value = {"text": TEXT, "pages": [PAGE], "entities": [entity]}
    document = import_result("document-ai", value, tmp_path, "token-classification")
    assert fields_of(document) == [("total_amount", "4.20")]


def vision_word(text: str, outline: Any) -> dict[str, Any]:
    """Return a word of Vision."""
    first = text[:2]
    last = text[2:]
    return {"boundingBox": outline, "symbols": [{"text": first}, {"text": last}]}


def vision_page(*words: dict[str, Any]) -> dict[str, Any]:
    """Return a page of Vision with words."""
    return {"width": 600, "height": 400, "blocks": [{"paragraphs": [{"words": [*words]}]}]}


@pytest.mark.parametrize("key", ["", "responses"], ids=["response", "responses"])
def test_vision_is_read(key: str, tmp_path: Path) -> None:
    pixels = {"vertices": [{"x": 180, "y": 40}, {"x": 240, "y": 80}]}
    page = vision_page(
        vision_word("Total", {"normalizedVertices": TOTAL}), vision_word("4.20", pixels)
    )
    response = {"textAnnotations": [], "fullTextAnnotation": {"pages": [page], "text": TEXT}}
    value: Any = response
    if key:
        value = {key: [response]}
    document = import_result("document-ai", value, tmp_path)
    assert texts_of(document) == ["Total", "4.20"]
    assert boxes_of(document) == BOXES
