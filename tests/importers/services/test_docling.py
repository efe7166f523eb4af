"""Docling's documents: texts in several places, keys and values."""

from pathlib import Path
from typing import Any

import pytest
from service_results import (
    boxes_of,
    fields_of,
    import_folder,
    import_result,
    texts_of,
    write_result,
)


def place(left: float, top: float, right: float, bottom: float, *span: int) -> dict[str, Any]:
    """Return a place on the first page."""
    box = {"l": left, "t": top, "r": right, "b": bottom, "coord_origin": "TOPLEFT"}
    return {"page_no": 1, "bbox": box, "charspan": [*span]}


def document(**more: Any) -> dict[str, Any]:
    """Return a document of a page of 600 x 400."""
    pages = {"1": {"page_no": 1, "size": {"width": 600, "height": 400}}}
    return {"schema_name": "DoclingDocument", "texts": [], "tables": [], "pages": pages, **more}


def text(content: str, *places: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a text in its places."""
    return {"self_ref": "#/texts/0", "label": "text", "text": content, "prov": places, **more}


LEFT = (50, 50, 250, 80)
RIGHT = (350, 50, 550, 80)


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 9), (10, 20)), ((0, 10), (10, 20)), ((0, 9), (9, 20)), ((0, 7), (7, 20))],
    ids=["behind the space", "with the space", "at the space", "within a word"],
)
def test_each_part_of_a_text_is_in_its_own_place(
    first: tuple[int, int], second: tuple[int, int], tmp_path: Path
) -> None:
    item = text("left part right part", place(*LEFT, *first), place(*RIGHT, *second))
    page = import_result("docling", document(texts=[item]), tmp_path)
    assert texts_of(page) == ["left", "part", "right", "part"]
    for box in boxes_of(page)[:2]:
        assert box[2] <= 250
    for box in boxes_of(page)[2:]:
        assert box[0] >= 350


def test_places_that_are_not_told_apart_are_counted(tmp_path: Path) -> None:
    item = text("left part", place(*LEFT, 0, 0), place(*RIGHT, 0, 0))
    documents, report = import_folder(
        "docling", write_result(tmp_path / "src", document(texts=[item]))
    )
    for box in boxes_of(documents["a"]):
        assert box[2] <= 250
    assert sum("without a division" in note for note in report.notes) == 1


CELLS = [
    {"label": "key", "cell_id": 0, "text": "Total", "prov": place(50, 50, 120, 80, 0, 0)},
    {"label": "value", "cell_id": 1, "text": "4.20", "prov": place(200, 50, 260, 80, 0, 0)},
    {"label": "checkbox", "cell_id": 2, "text": "x", "prov": place(300, 50, 310, 60, 0, 0)},
]


@pytest.mark.parametrize("kind", ["key_value_items", "form_items"])
def test_keys_and_values_are_words_and_fields(kind: str, tmp_path: Path) -> None:
    items = [{"label": "key_value_region", "graph": {"cells": CELLS, "links": []}}]
    page = import_result("docling", document(**{kind: items}), tmp_path, "token-classification")
    assert texts_of(page) == ["Total", "4.20", "x"]
    assert fields_of(page) == [("key", "Total"), ("value", "4.20")]


@pytest.mark.parametrize("refers", [True, False], ids=["by reference", "by place"])
def test_a_cell_that_is_a_text_of_the_document_has_its_words(refers: bool, tmp_path: Path) -> None:
    cell = {**CELLS[1]}
    if refers:
        cell |= {"item_ref": {"$ref": "#/texts/0"}, "prov": None}
    value = document(
        texts=[text("4.20", place(200, 50, 260, 80, 0, 4))],
        key_value_items=[{"graph": {"cells": [cell], "links": []}}],
    )
    page = import_result("docling", value, tmp_path, "token-classification")
    assert texts_of(page) == ["4.20"]
    assert fields_of(page) == [("value", "4.20")]


def test_texts_of_a_form_are_fields(tmp_path: Path) -> None:
    items = [
        text("Date:", place(50, 50, 120, 80, 0, 0), label="field_key"),
        text("02 May", place(200, 50, 260, 80, 0, 0), label="field_value"),
    ]
    page = import_result("docling", document(texts=items), tmp_path, "token-classification")
    assert fields_of(page) == [("key", "Date:"), ("value", "02 May")]


def test_texts_and_cells_without_a_place_are_counted(tmp_path: Path) -> None:
    box = {"l": 50, "t": 50, "r": 120, "b": 80, "coord_origin": "TOPLEFT"}
    cells = [{"text": "Total", "bbox": box}, {"text": "4.20"}, {"text": ""}]
    table = {"prov": [place(50, 50, 300, 80)], "data": {"table_cells": cells}}
    documents, report = import_folder(
        "docling", write_result(tmp_path / "src", document(tables=[table], texts=[text("x")]))
    )
    assert texts_of(documents["a"]) == ["Total"]
    assert report.notes["texts and cells without a place, left out"] == 2
