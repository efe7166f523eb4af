"""JSON of EasyOCR, PaddleOCR and docTR in the forms that their users save."""

import json
from pathlib import Path
from typing import Any

import pytest
from service_results import (
    boxes_of,
    corners,
    import_folder,
    import_result,
    texts_of,
    write_result,
)

from audit.errors import ManifestError

NAME = corners(50, 50, 130, 80)
TOTAL = corners(200, 50, 280, 80)
BOXES = [(50, 50, 130, 80), (200, 50, 280, 80)]
WORDS = ["Gardenia", "4.20"]
DICTS = [
    {"boxes": NAME, "text": "Gardenia", "confident": 0.9},
    {"boxes": TOTAL, "text": "4.20", "confident": 0.9},
]
TABLE = {"rec_texts": WORDS, "rec_polys": [NAME, TOTAL]}
EASYOCR = {
    "a list": [[NAME, "Gardenia", 0.93], [TOTAL, "4.20", 0.9]],
    "paragraphs": [[NAME, "Gardenia"], [TOTAL, "4.20"]],
    "dicts": DICTS,
    "texts of JSON": [json.dumps(DICTS[0]), json.dumps(DICTS[1])],
    "a batch of one page": [[[NAME, "Gardenia", 0.93], [TOTAL, "4.20", 0.9]]],
    "rapidocr": [{"box": NAME, "txt": "Gardenia", "score": 0.9}, {"box": TOTAL, "txt": "4.20"}],
}
PADDLEOCR = {
    "a table": TABLE,
    "boxes without polygons": {"rec_texts": WORDS, "rec_boxes": BOXES},
    "a table of res": {"res": TABLE},
    "a list of res": [{"res": TABLE}],
    "a list of tables": [TABLE],
    "a pipeline": {"parsing_res_list": [], "overall_ocr_res": TABLE},
    "a server": {"result": {"ocrResults": [{"prunedResult": TABLE}]}},
    "a list of lines": [[NAME, ["Gardenia", 0.93]], [TOTAL, ["4.20", 0.9]]],
    "a list of pages": [[[NAME, ["Gardenia", 0.93]], [TOTAL, ["4.20", 0.9]]]],
}


@pytest.mark.parametrize("value", EASYOCR.values(), ids=EASYOCR.keys())
def test_each_form_of_easyocr_is_read(value: Any, tmp_path: Path) -> None:
    document = import_result("paddleocr", value, tmp_path)
    assert texts_of(document) == WORDS
    assert boxes_of(document) == BOXES


@pytest.mark.parametrize("value", PADDLEOCR.values(), ids=PADDLEOCR.keys())
def test_each_form_of_paddleocr_is_read(value: Any, tmp_path: Path) -> None:
    document = import_result("paddleocr", value, tmp_path)
    assert texts_of(document) == WORDS
    assert boxes_of(document) == BOXES


@pytest.mark.parametrize(
    "value",
    [[None], [[]], [], {"rec_texts": [], "rec_polys": [], "rec_boxes": []}, {"rec_texts": []}],
    ids=["null", "no lines", "no pages", "no texts", "no boxes"],
)
def test_a_page_without_words_is_a_page(value: Any, tmp_path: Path) -> None:
    write_result(tmp_path / "src", EASYOCR["a list"], "b")
    documents, _ = import_folder("paddleocr", write_result(tmp_path / "src", value))
    assert texts_of(documents["a"]) == []
    assert texts_of(documents["b"]) == WORDS


DOCTR_PAGE = {
    "page_idx": 0,
    "dimensions": [400, 600],
    "blocks": [
        {
            "lines": [
                {
                    "words": [
                        {"value": "Gardenia", "geometry": [[0.1, 0.1], [0.2, 0.2]]},
                        {"value": "4.20", "geometry": [[0.3, 0.1], [0.4, 0.2]]},
                    ]
                }
            ]
        }
    ],
}


@pytest.mark.parametrize("value", [DOCTR_PAGE, {"pages": [DOCTR_PAGE]}], ids=["page", "document"])
def test_doctr_is_read(value: Any, tmp_path: Path) -> None:
    document = import_result("doctr", value, tmp_path)
    assert texts_of(document) == WORDS
    assert boxes_of(document) == [(60, 40, 120, 80), (180, 40, 240, 80)]


@pytest.mark.parametrize(
    ("value", "described"),
    [
        ({"pages": {"a": 1}, "secret": 2}, "its keys are pages, 1 more"),
        ({"secret": 2}, "its keys are 1 of names that docaudit does not know"),
        ([{"bbox": [1, 2, 3, 4], "text": "secret"}], "a list, whose first keys are bbox, text"),
        (["secret", "4.20"], "a list, which begins with a text"),
        ("secret", "a text"),
        ({}, "its keys are none"),
    ],
    ids=["keys", "unknown keys", "tables", "texts", "text", "nothing"],
)
@pytest.mark.parametrize("format", ["doctr", "azure"])
def test_json_of_no_known_program_is_called_unknown(
    format: str, value: Any, described: str, tmp_path: Path
) -> None:
    with pytest.raises(ManifestError) as caught:
        import_result(format, value, tmp_path)
    assert f"a.json: JSON of no known OCR program: {described}; known are" in str(caught.value)
    assert "Amazon Textract, Docling, Azure, Google Document AI" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"JobStatus": "FAILED"}, "Amazon Textract's job has no result"),
        ({"Results": [{"Page": 1, "Extractions": []}]}, "lending analysis has no words"),
        ({"status": "running", "createdDateTime": ""}, "Azure's analysis has no result"),
        ({"documentLayout": {"blocks": []}, "text": ""}, "layout has no places of words"),
        ({"labels": [], "labelingState": 2}, "labels of a project, and no words"),
        ({"apiVersion": "2024", "pages": [{"words": []}]}, "not Azure's result (no 'width')"),
        ({"rec_texts": ["secret"]}, "not PaddleOCR's result (no 'rec_polys')"),
        ([[NAME, "secret", 1], 7], "not EasyOCR's list (TypeError)"),
    ],
    ids=["job", "lending", "running", "layout", "labels", "no size", "no boxes", "no line"],
)
def test_what_cannot_be_read_is_refused_by_its_program(
    value: Any, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ManifestError) as caught:
        import_result("doctr", value, tmp_path)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_json_on_each_line_is_a_list(tmp_path: Path) -> None:
    folder = write_result(tmp_path / "src", None)
    (folder / "a.json").write_text(f"{json.dumps(DICTS[0])}\n{json.dumps(DICTS[1])}\n")
    documents, _ = import_folder("easyocr", folder)
    assert texts_of(documents["a"]) == WORDS
