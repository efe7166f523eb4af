"""Textract's responses about expenses and identity cards, and keys as other SDKs spell them."""

import json
import re
from collections.abc import Callable
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


def geometry(left: float, top: float, width: float = 0.1, height: float = 0.05) -> dict[str, Any]:
    """Return the geometry of a block."""
    box = {"Left": left, "Top": top, "Width": width, "Height": height}
    return {"BoundingBox": box, "Polygon": []}


def word(name: str, text: str, left: float, page: int = 1) -> dict[str, Any]:
    """Return the block of a word in the first line."""
    block = {"BlockType": "WORD", "Id": name, "Text": text, "Geometry": geometry(left, 0.1)}
    return {**block, "Page": page}


def field(kind: str, text: str, place: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Return a field of an expense."""
    value: dict[str, Any] = {"Text": text}
    if place is not None:
        value["Geometry"] = place
    return {"Type": {"Text": kind}, "ValueDetection": value, **more}


SUMMARY = [
    field("TOTAL", "4.20", geometry(0.4, 0.1), PageNumber=1),
    field("VENDOR_NAME", "Gardenia", None, PageNumber=1),
    field("CITY", "", None, PageNumber=1),
]
ROW = {
    "LineItemExpenseFields": [
        field("ITEM", "Rose", geometry(0.1, 0.5), LabelDetection={"Text": "Item"}),
        field("EXPENSE_ROW", "Rose", geometry(0.1, 0.5)),
    ]
}
EXPENSE = {
    "ExpenseIndex": 1,
    "SummaryFields": SUMMARY,
    "LineItemGroups": [{"LineItems": [ROW]}],
    "Blocks": [
        word("1", "Gardenia", 0.1),
        word("2", "4.20", 0.4),
        {**word("3", "Rose", 0.1), "Geometry": geometry(0.1, 0.5)},
        {"BlockType": "LINE", "Id": "4", "Text": "Gardenia 4.20"},
    ],
}
IDENTITY = {
    "DocumentIndex": 1,
    "IdentityDocumentFields": [
        {"Type": {"Text": "FIRST_NAME"}, "ValueDetection": {"Text": "Zoe", "Confidence": 99.0}},
        {"Type": {"Text": "SUFFIX"}, "ValueDetection": {"Text": ""}},
    ],
    "Blocks": [word("1", "NAME", 0.1), word("2", "ZOE", 0.4)],
}


def test_fields_of_an_expense_are_those_of_its_blocks(tmp_path: Path) -> None:
    response = {"DocumentMetadata": {"Pages": 1}, "ExpenseDocuments": [EXPENSE]}
    document = import_result("textract", response, tmp_path, "token-classification")
    assert texts_of(document) == ["Gardenia", "4.20", "Rose"]
    assert fields_of(document) == [("TOTAL", "4.20"), ("VENDOR_NAME", "Gardenia"), ("ITEM", "Rose")]


def test_an_expense_without_blocks_has_the_words_of_its_fields(tmp_path: Path) -> None:
    expense = {**EXPENSE, "Blocks": []}
    response = {"ExpenseDocuments": [expense]}
    documents, report = import_folder("textract", write_result(tmp_path / "src", response))
    assert texts_of(documents["a"]) == ["4.20", "Rose"]
    assert boxes_of(documents["a"])[0] == (240, 40, 300, 60)
    assert report.notes["pages whose words are those of fields alone"] == 1


@pytest.mark.parametrize(
    "response", [{"IdentityDocuments": [IDENTITY]}, IDENTITY], ids=["response", "document"]
)
def test_fields_of_an_identity_card_are_located_among_its_words(
    response: Any, tmp_path: Path
) -> None:
    document = import_result("textract", response, tmp_path, "token-classification")
    assert texts_of(document) == ["NAME", "ZOE"]
    assert fields_of(document) == [("FIRST_NAME", "ZOE")]


def test_a_list_of_responses_may_begin_with_an_empty_one(tmp_path: Path) -> None:
    responses = [{"Blocks": []}, {"Blocks": [word("1", "Total", 0.1)]}]
    assert texts_of(import_result("textract", responses, tmp_path)) == ["Total"]


def camel(key: str) -> str:
    """Return a key in camel case."""
    return key[0].lower() + key[1:]


def snake(key: str) -> str:
    """Return a key in snake case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()


def respelled(value: Any, spelling: Callable[[str], str]) -> Any:
    """Return JSON with its keys in another spelling."""
    text = re.sub(r'"(\w+)":', lambda match: f'"{spelling(match[1])}":', json.dumps(value))
    return json.loads(text)


@pytest.mark.parametrize("spelling", [camel, snake])
def test_keys_may_be_spelled_as_other_sdks_do(
    spelling: Callable[[str], str], tmp_path: Path
) -> None:
    blocks = [
        word("1", "Total", 0.1),
        word("2", "4.20", 0.4),
        {
            "BlockType": "KEY_VALUE_SET",
            "Id": "3",
            "EntityTypes": ["KEY"],
            "Relationships": [{"Type": "CHILD", "Ids": ["1"]}, {"Type": "VALUE", "Ids": ["4"]}],
        },
        {
            "BlockType": "KEY_VALUE_SET",
            "Id": "4",
            "EntityTypes": ["VALUE"],
            "Relationships": [{"Type": "CHILD", "Ids": ["2"]}],
        },
    ]
    response = respelled({"Blocks": blocks}, spelling)
    document = import_result("textract", response, tmp_path, "token-classification")
    assert texts_of(document) == ["Total", "4.20"]
    assert fields_of(document) == [("key", "Total"), ("value", "4.20")]
