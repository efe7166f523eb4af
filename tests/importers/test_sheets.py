"""One result for the pages of a PDF or TIFF beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from service_results import import_folder, texts_of

from audit.errors import ManifestError
from audit.workflows.init import guess_format


def word(name: str, text: str, page: int) -> dict[str, Any]:
    """Return a word of Textract's on a page."""
    box = {"Left": 0.1, "Top": 0.1, "Width": 0.2, "Height": 0.1}
    block = {"BlockType": "WORD", "Id": name, "Text": text, "Page": page}
    return {**block, "Geometry": {"BoundingBox": box}}


TEXTRACT = {"Blocks": [word("1", "Total", 1), word("2", "4.20", 2)]}
DOCLING = {
    "schema_name": "DoclingDocument",
    "texts": [
        {
            "text": "Total 4.20",
            "prov": [
                {"page_no": 1, "bbox": {"l": 9, "t": 9, "r": 99, "b": 29}, "charspan": [0, 5]},
                {"page_no": 2, "bbox": {"l": 9, "t": 9, "r": 99, "b": 29}, "charspan": [6, 10]},
            ],
        }
    ],
    "pages": {
        "1": {"page_no": 1, "size": {"width": 600, "height": 400}},
        "2": {"page_no": 2, "size": {"width": 600, "height": 400}},
    },
}
HOCR = """<html><body>
<div class='ocr_page' title='bbox 0 0 600 400'>
<span class='ocrx_word' title='bbox 9 9 99 29'>Total</span></div>
<div class='ocr_page' title='bbox 0 0 600 400'>
<span class='ocrx_word' title='bbox 9 9 99 29'>4.20</span></div>
</body></html>"""


def write_pages(path: Path) -> None:
    """Write a PDF or TIFF of two different pages of 600 x 400."""
    first = Image.new("L", (600, 400), 255)
    second = Image.new("L", (600, 400), 200)
    path.parent.mkdir(exist_ok=True)
    first.save(path, save_all=True, append_images=[second])


@pytest.mark.parametrize("ending", ["pdf", "tiff", "tif"])
@pytest.mark.parametrize(
    ("format", "name", "content"),
    [
        ("textract", "a.json", json.dumps(TEXTRACT)),
        ("docling", "a.json", json.dumps(DOCLING)),
        ("hocr", "a.hocr", HOCR),
    ],
    ids=["textract", "docling", "hocr"],
)
def test_each_page_of_a_document_has_its_words(
    ending: str, format: str, name: str, content: str, tmp_path: Path
) -> None:
    folder = tmp_path / "src"
    write_pages(folder / f"a.{ending}")
    (folder / name).write_text(content)
    documents, _ = import_folder(format, folder)
    assert sorted(documents) == ["a-1", "a-2"]
    assert texts_of(documents["a-1"]) == ["Total"]
    assert texts_of(documents["a-2"]) == ["4.20"]
    assert documents["a-1"].split == documents["a-2"].split
    assert guess_format(folder) == format


@pytest.mark.parametrize("ending", ["pdf", "tiff"])
def test_a_result_of_another_number_of_pages_is_refused(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write_pages(folder / f"a.{ending}")
    (folder / "a.json").write_text(json.dumps({"Blocks": [word("1", "Total", 1)]}))
    with pytest.raises(ManifestError, match=r"a\.json: 1 pages for a document of 2"):
        import_folder("textract", folder)


def test_a_pdf_without_a_result_is_left_out_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write_pages(folder / "a.pdf")
    write_pages(folder / "b.pdf")
    (folder / "a.json").write_text(json.dumps(TEXTRACT))
    documents, report = import_folder("textract", folder)
    assert sorted(documents) == ["a-1", "a-2"]
    assert report.notes["PDFs without a word file, left out"] == 1


@pytest.mark.parametrize("name", ["a", "a-1", "a_0"])
def test_a_pdf_whose_page_lies_beside_it_is_not_read_again(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write_pages(folder / "a.pdf")
    Image.new("L", (600, 400), 255).save(folder / f"{name}.png")
    (folder / f"{name}.json").write_text(json.dumps({"Blocks": [word("1", "Total", 1)]}))
    documents, _ = import_folder("textract", folder)
    assert sorted(documents) == [name]


@pytest.mark.parametrize("ending", ["pdf", "tiff"])
@pytest.mark.parametrize(
    ("first", "second"), [("a-1", "a-2"), ("a_1", "a_2"), ("a_0_res", "a_1_res")]
)
def test_a_file_a_page_is_read_as_well(
    first: str, second: str, ending: str, tmp_path: Path
) -> None:
    folder = tmp_path / "src"
    write_pages(folder / f"a.{ending}")
    box = [9, 9, 99, 29]
    for name, text in ((first, "Total"), (second, "4.20")):
        value = {"rec_texts": [text], "rec_boxes": [box]}
        (folder / f"{name}.json").write_text(json.dumps(value))
    documents, _ = import_folder("paddleocr", folder)
    assert texts_of(documents["a-1"]) == ["Total"]
    assert texts_of(documents["a-2"]) == ["4.20"]


def test_a_page_without_its_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write_pages(folder / "a.pdf")
    value = {"rec_texts": ["Total"], "rec_boxes": [[9, 9, 99, 29]]}
    (folder / "a-1.json").write_text(json.dumps(value))
    with pytest.raises(ManifestError, match="a-2: its word file is missing"):
        import_folder("paddleocr", folder)


def test_a_tiff_without_a_result_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write_pages(folder / "a.tiff")
    write_pages(folder / "b.tiff")
    (folder / "a.json").write_text(json.dumps(TEXTRACT))
    with pytest.raises(ManifestError, match="b-1: its word file is missing"):
        import_folder("textract", folder)


def test_pages_of_one_document_stay_in_one_split(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    for name in "abcdefgh":
        write_pages(folder / f"{name}.tiff")
        blocks = [word("1", f"Total {name}", 1), word("2", f"4.20 {name}", 2)]
        (folder / f"{name}.json").write_text(json.dumps({"Blocks": blocks}))
    documents, _ = import_folder("textract", folder, shares={"member": 0.5, "heldout": 0.5})
    for name in "abcdefgh":
        assert documents[f"{name}-1"].split == documents[f"{name}-2"].split
