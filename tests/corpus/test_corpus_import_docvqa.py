"""The importer of DocVQA on small folders of its shape: what is read, what is refused, and how pages are divided."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

docvqa = FORMATS["docvqa"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}
OFFICIAL: dict[Split, float] = {"member": 0.5, "heldout": 1.0}
Entry = dict[str, Any]


def entry(number: int, page: str, question: str = "What is the total?", *answers: str) -> Entry:
    """One record as DocVQA writes it."""
    document, place = page.split("_")[:2]
    named = {
        "image": f"documents/{page}.png",
        "docId": 1,
        "ucsf_document_id": document,
        "ucsf_document_page_no": place,
    }
    asked = {"questionId": number, "question": question, "answers": list(answers or ("9.00",))}
    return {**asked, **named, "question_types": ["table/list"], "data_split": "train"}


def ocr_of(*lines: str, width: float = 200, height: float = 400, unit: str = "pixel") -> Entry:
    """Microsoft Read's result: a line of words each 40 wide and 10 high, at intervals of 50 and 20."""

    def word(text: str, row: int, column: int) -> Entry:
        x = 50 * column
        y = 20 * row
        return {
            "boundingBox": [x, y, x + 40, y, x + 40, y + 10, x, y + 10],
            "text": text,
            "confidence": "Low",
        }

    read = []
    for row, line in enumerate(lines):
        words = [word(text, row, column) for column, text in enumerate(line.split(" "))]
        read.append({"boundingBox": [0, 0, 1, 0, 1, 1, 0, 1], "text": line, "words": words})
    page = {
        "page": 1,
        "clockwiseOrientation": 359.9,
        "width": width,
        "height": height,
        "unit": unit,
        "lines": read,
    }
    return {"status": "Succeeded", "recognitionResults": [page]}


def lay_out(
    src: Path,
    train: list[Entry],
    validation: list[Entry],
    *,
    images: str = "spdocvqa_images",
    ocr: str = "spdocvqa_ocr",
    files: tuple[str, str] = ("train_v1.0_withQT.json", "val_v1.0_withQT.json"),
) -> Path:
    """A folder of DocVQA's shape.

    Every page that is asked about has its own picture and the words "TOTAL 9.00".
    """
    pages = sorted({Path(record["image"]).stem for record in (*train, *validation)})
    for folder in (images, ocr):
        (src / folder).mkdir(parents=True)
    for name, records in zip(files, (train, validation), strict=True):
        if records:
            (src / name).parent.mkdir(exist_ok=True)
            content = {"dataset_name": "SP-DocVQA", "dataset_version": "1.0", "data": records}
            (src / name).write_text(json.dumps(content))
    for number, page in enumerate(pages):
        Image.new("L", (100, 200), 10 * number).save(src / images / f"{page}.png")
        (src / ocr / f"{page}.json").write_text(json.dumps(ocr_of("TOTAL 9.00")))
    return src


@pytest.fixture
def source(tmp_path: Path) -> Path:
    train = [
        entry(337, "xnbl0037_1"),
        entry(338, "xnbl0037_1", " Who is it for? ", "A. Person", "A. Person ", "Person"),
        entry(339, "xnbl0037_2"),
        entry(340, "ffbf0227_1", "What is it called?", "not on the page"),
    ]
    return lay_out(tmp_path / "src", train, [entry(900, "pybv0228_81"), entry(901, "snbx0223_4")])


def test_questions_words_and_report(source: Path, tmp_path: Path) -> None:
    ocr = ocr_of("TOTAL 9.00", "A. Person", " ", width=200, height=400)
    (source / "spdocvqa_ocr" / "xnbl0037_1.json").write_text(json.dumps(ocr))
    report = docvqa.convert(ImportRequest(source, tmp_path / "out", ALL_MEMBERS, seed=1))
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.name, corpus.manifest.task.kind) == ("docvqa", "question-answering")
    assert corpus.manifest.membership.assigned == "random"
    assert [d.id for d in corpus.documents] == sorted(
        ["ffbf0227_1", "pybv0228_81", "snbx0223_4", "xnbl0037_1", "xnbl0037_2"]
    )
    page = corpus.document("xnbl0037_1")
    assert (page.size, page.image, page.provider) == ((100, 200), "images/xnbl0037_1.png", None)
    assert [word.text for word in page.words] == ["TOTAL", "9.00", "A.", "Person"]
    assert page.words[1].box == (25, 0, 45, 5)  # the OCR saw a page of twice the size
    assert [(q.id, q.question, q.answers) for q in page.questions] == [
        ("337", "What is the total?", ("9.00",)),
        ("338", "Who is it for?", ("A. Person", "Person")),
    ]
    assert report.documents == {"member": 5, "heldout": 0, "public": 0, "left out": 0}
    assert (report.fields, report.located) == ({"ANSWER": 6}, {"ANSWER": {"exact": 5}})
    assert report.not_located == {"ANSWER": {"not found": 1}}
    assert report.unlocated == [("ffbf0227_1", "340", "not found")]
    assert "not on the page" not in (tmp_path / "out" / "import-report.json").read_text()


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param({"images": "documents", "ocr": "ocr_results"}, id="documents and ocr_results"),
        pytest.param(
            {"images": "train/documents", "ocr": "train/ocr_results"}, id="a folder for each split"
        ),
        pytest.param(
            {"files": ["train/train_v1.0.json", "val/val_v1.0.json"]},
            id="a file in the folder of its split",
        ),
        pytest.param(
            {"files": ["spdocvqa_qas/train_v1.0_withQT.json", "spdocvqa_qas/val_v1.0_withQT.json"]},
            id="a folder of questions with their types",
        ),
        pytest.param(
            {"files": ["train_v1.0.json", "val_v1.0.json"]}, id="files without question types"
        ),
    ],
)
def test_layouts_that_are_about(layout: dict[str, Any], tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", [entry(1, "a_1")], [entry(2, "b_1")], **layout)
    docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert [d.id for d in manifests.load(tmp_path / "out").documents] == ["a_1", "b_1"]


def test_folders_by_part_are_read_together_and_question_types_win(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", [entry(1, "a_1")], [entry(2, "b_1")])
    for folder, kind in (("spdocvqa_images", "documents"), ("spdocvqa_ocr", "ocr_results")):
        for part, page in (("train", "a_1"), ("val", "b_1")):
            (src / part / kind).mkdir(parents=True)
            (file,) = (src / folder).glob(f"{page}.*")
            file.rename(src / part / kind / file.name)
        (src / folder).rmdir()
    (src / "train_v1.0.json").write_text("not read")
    docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert len(manifests.load(tmp_path / "out").documents) == 2
    (src / "val" / "documents" / "a_1.png").write_bytes(
        (src / "train" / "documents" / "a_1.png").read_bytes()
    )
    with pytest.raises(
        ManifestError, match=r"val/documents/a_1\.png: another file of this name is there"
    ):
        docvqa.convert(ImportRequest(src, tmp_path / "again", ALL_MEMBERS, seed=1))


def test_pages_of_one_document_and_equal_images_share_a_split(source: Path, tmp_path: Path) -> None:
    images = source / "spdocvqa_images"
    (images / "snbx0223_4.png").write_bytes((images / "ffbf0227_1.png").read_bytes())
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
    for seed in range(8):
        report = docvqa.convert(ImportRequest(source, tmp_path / str(seed), shares, seed))
        split = {
            document.id: document.split
            for document in manifests.load(tmp_path / str(seed)).documents
        }
        assert (split["xnbl0037_1"], split["snbx0223_4"]) == (
            split["xnbl0037_2"],
            split["ffbf0227_1"],
        )
        assert report.duplicates == [("ffbf0227_1", "snbx0223_4")]


def test_the_official_division_keeps_to_the_parts(source: Path, tmp_path: Path) -> None:
    for seed in range(8):
        docvqa.convert(ImportRequest(source, tmp_path / str(seed), OFFICIAL, seed, "official"))
        corpus = manifests.load(tmp_path / str(seed))
        split = {document.id: document.split for document in corpus.documents}
        assert corpus.manifest.membership.assigned == "official"
        assert split["pybv0228_81"] == split["snbx0223_4"] == "heldout"
        assert {split.get("xnbl0037_1"), split.get("ffbf0227_1")} == {"member", None}
        assert split.get("xnbl0037_1") == split.get("xnbl0037_2")


def test_what_was_trained_on_is_never_held_out(source: Path, tmp_path: Path) -> None:
    images = source / "spdocvqa_images"
    (images / "snbx0223_4.png").write_bytes((images / "ffbf0227_1.png").read_bytes())
    content = json.loads((source / "val_v1.0_withQT.json").read_text())
    content["data"].append(entry(902, "xnbl0037_1", "Asked of the validation part?"))
    (source / "val_v1.0_withQT.json").write_text(json.dumps(content))
    everything: dict[Split, float] = {"member": 1.0, "heldout": 1.0}
    report = docvqa.convert(ImportRequest(source, tmp_path / "out", everything, 1, "official"))
    corpus = manifests.load(tmp_path / "out")
    assert {d.id for d in corpus.of("heldout")} == {"pybv0228_81"}
    assert [q.id for q in corpus.document("xnbl0037_1").questions] == ["337", "338"]
    assert (report.documents["left out"], list(report.notes.values())) == (1, [1, 1])
    docvqa.convert(ImportRequest(source, tmp_path / "drawn", ALL_MEMBERS, 1))
    questions = manifests.load(tmp_path / "drawn").document("xnbl0037_1").questions
    assert [q.id for q in questions] == ["337", "338", "902"]


def test_two_files_of_questions_are_refused(source: Path, tmp_path: Path) -> None:
    (source / "train_v2.json").write_text("{}")
    (source / "train_v1.0_withQT.json").rename(source / "train_v1.json")
    with pytest.raises(
        UsageError, match=r"several files of questions: train_v1\.json, train_v2\.json"
    ):
        docvqa.convert(ImportRequest(source, tmp_path / "out", ALL_MEMBERS, 1))
