"""Several files beside one page: which has its words, which has labels, and what is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from service_results import SIZE, corners, fields_of, import_folder, texts_of

from audit.errors import ManifestError
from audit.workflows.init import guess_format

CHOSEN = "pages with several word files, of which one was read"
TEXTRACT = {
    "Blocks": [
        {
            "BlockType": "WORD",
            "Id": "1",
            "Text": "Textract",
            "Geometry": {"BoundingBox": {"Left": 0.1, "Top": 0.1, "Width": 0.2, "Height": 0.1}},
        }
    ]
}
WORDS = [
    {"text": "Total", "boundingBox": [50, 50, 120, 50, 120, 80, 50, 80]},
    {"text": "4.20", "boundingBox": [200, 50, 260, 50, 260, 80, 200, 80]},
]
AZURE = {
    "analyzeResult": {
        "readResults": [
            {"page": 1, "width": 600, "height": 400, "unit": "pixel", "lines": [{"words": WORDS}]}
        ]
    }
}
PLACE = [0.33, 0.12, 0.44, 0.12, 0.44, 0.2, 0.33, 0.2]
LABELS = {
    "document": "a.png",
    "labels": [
        {"label": "TOTAL", "value": [{"page": 1, "text": "4.20", "boundingBoxes": [PLACE]}]},
        {
            "label": "Logo",
            "labelType": "region",
            "value": [{"page": 1, "text": "", "boundingBoxes": [[0.9, 0.9, 1, 0.9, 1, 1, 0.9, 1]]}],
        },
    ],
}
OTHER = {"shapes": [], "imagePath": "a.png"}


def lay_out(folder: Path, **files: Any) -> Path:
    """Write a page and JSON files beside it; "_" stands for "." in names, but for PaddleOCR's."""
    folder.mkdir()
    Image.new("L", SIZE, 255).save(folder / "a.png")
    for name, value in files.items():
        file = name if name == "a_res" else name.replace("_", ".")
        (folder / f"{file}.json").write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("format", "text"), [("azure", "Total"), ("textract", "Textract")], ids=["azure", "textract"]
)
def test_the_file_of_the_named_format_is_read_and_counted(
    format: str, text: str, tmp_path: Path
) -> None:
    folder = lay_out(tmp_path / "src", a_textract=TEXTRACT, a_azure=AZURE)
    documents, report = import_folder(format, folder)
    assert texts_of(documents["a"])[0] == text
    assert report.notes[CHOSEN] == 1


def test_a_file_of_no_known_program_is_left_out_and_counted(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "src", a_shapes=OTHER, a_azure=AZURE)
    documents, report = import_folder("azure", folder)
    assert texts_of(documents["a"]) == ["Total", "4.20"]
    assert report.notes[CHOSEN] == 1


def test_two_files_of_the_named_format_are_refused(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "src", a_first=AZURE, a_second=AZURE)
    with pytest.raises(ManifestError, match="several files may be it"):
        import_folder("azure", folder)


@pytest.mark.parametrize("name", ["a_png_ocr", "a_ocr", "a"])
def test_labels_beside_the_words_are_fields(name: str, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "src", a_png_labels=LABELS, **{name: AZURE})
    documents, report = import_folder("azure", folder, "token-classification")
    assert texts_of(documents["a"]) == ["Total", "4.20"]
    assert fields_of(documents["a"]) == [("TOTAL", "4.20")]
    assert report.notes[CHOSEN] == 0


def test_labels_of_several_words_are_one_field(tmp_path: Path) -> None:
    values = [
        {
            "page": 1,
            "text": "Total",
            "boundingBoxes": [[0.08, 0.12, 0.2, 0.12, 0.2, 0.2, 0.08, 0.2]],
        },
        {"page": 1, "text": "4.20", "boundingBoxes": [PLACE]},
    ]
    labels = {"labels": [{"label": "LINE", "value": values}], "labelingState": 2}
    folder = lay_out(tmp_path / "src", a_png_labels=labels, a_png_ocr=AZURE)
    documents, _ = import_folder("azure", folder, "token-classification")
    assert fields_of(documents["a"]) == [("LINE", "Total 4.20")]


def test_labels_alone_are_refused_with_what_lacks(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "src", a_png_labels=LABELS)
    with pytest.raises(ManifestError, match=r"put its \.ocr\.json beside it"):
        import_folder("azure", folder)


NAME = corners(50, 50, 130, 80)


@pytest.mark.parametrize(
    ("format", "value"),
    [
        ("easyocr", [[NAME, "Gardenia", 0.9]]),
        ("easyocr", [{"boxes": NAME, "text": "Gardenia", "confident": 0.9}]),
        ("easyocr", [json.dumps({"boxes": NAME, "text": "Gardenia", "confident": 0.9})]),
        ("paddleocr", [[NAME, ["Gardenia", 0.9]]]),
        ("paddleocr", [[[NAME, ["Gardenia", 0.9]]]]),
        ("paddleocr", [None]),
        ("azure", AZURE),
        ("azure", {"api_version": "2023-07-31", "model_id": "prebuilt-read", "pages": []}),
        ("textract", TEXTRACT),
        ("textract", {"DocumentMetadata": {"Pages": 1}, "ExpenseDocuments": []}),
    ],
    ids=str,
)
def test_init_recognises_the_program(format: str, value: Any, tmp_path: Path) -> None:
    assert guess_format(lay_out(tmp_path / "src", a=value)) == format


def test_a_file_of_another_program_than_the_named_is_read_and_counted(tmp_path: Path) -> None:
    documents, report = import_folder("paddleocr", lay_out(tmp_path / "src", a=AZURE))
    assert texts_of(documents["a"]) == ["Total", "4.20"]
    assert report.notes["pages read as Azure's result, not as paddleocr"] == 1


def test_a_file_of_paddleocrs_own_name_is_its_pages(tmp_path: Path) -> None:
    value = {"rec_texts": ["Gardenia"], "rec_polys": [NAME]}
    documents, _ = import_folder("paddleocr", lay_out(tmp_path / "src", a_res=value))
    assert texts_of(documents["a"]) == ["Gardenia"]
