"""Label Studio, COCO, tables and PDFs: values found where they were put, exact counts, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from PIL import Image
from weasyprint import HTML

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Split
from audit.importers.registry import FORMATS
from audit.importers.source import Options as SourceOptions

ALL: dict[Split, float] = {"member": 1.0}
TSV = """level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t600\t200\t-1\t
5\t1\t1\t1\t1\t1\t24\t61\t125\t29\t96.6\tInvoice
5\t1\t1\t1\t1\t2\t161\t59\t76\t31\t95.7\ttotal
5\t1\t1\t1\t1\t3\t249\t60\t74\t30\t95.7\t9.00
"""


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "images").mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (600, 200), (number, 9, 9)).save(folder / "images" / f"p{number}.png")
    (folder / "images" / "p0.tsv").write_text(TSV)
    return folder


def load(tmp_path: Path) -> Corpus:
    return manifests.load(tmp_path / "out")


def fields_of(corpus: Corpus, name: str) -> list[tuple[str, str]]:
    document = corpus.document(name)
    return [(one.label, document.text_of(one)) for one in document.entities]


# Label Studio


def region(identifier: str, x: float, y: float, width: float, height: float, **more: Any) -> dict[str, Any]:
    kind, value = next(iter(more.items()))
    return {
        "original_width": 600,
        "original_height": 200,
        "image_rotation": 0,
        "value": {
            "x": x,
            "y": y,
            "width": width,
            "height": height,
            "rotation": 0,
            **({} if kind == "rectangle" else {kind if kind != "textarea" else "text": value}),
        },
        "id": identifier,
        "from_name": "label",
        "to_name": "image",
        "type": kind,
        "origin": "manual",
    }


def task(number: int, image: str, *result: Any, **more: Any) -> dict[str, Any]:
    annotation = {"id": number, "completed_by": 1, "result": [*result], "was_cancelled": False}
    return {"id": number, "data": {"image": image, **more}, "annotations": [annotation], "predictions": []}


def test_label_studios_regions(src: Path, tmp_path: Path) -> None:
    choice = {"value": {"choices": ["invoice"]}, "id": "c", "type": "choices", "from_name": "k", "to_name": "image"}
    tasks = [
        task(
            1,
            "/data/local-files/?d=images/p0.png",
            region("a", 40, 25, 20, 25, rectanglelabels=["Total"]),
            choice,
            issuer="Shop",
        ),
        task(
            2,
            "/data/upload/1/0a1b2c3d-p1.png",
            region("b", 0, 0, 50, 10, rectangle=None),
            region("b", 0, 0, 50, 10, labels=["Name"]),
            region("b", 0, 0, 50, 10, textarea=["Ann Lee"]),
            region("d", 0, 50, 50, 10, rectangle=None),
            region("d", 0, 50, 50, 10, textarea=["printed"]),
            {"from_id": "b", "to_id": "d", "type": "relation", "direction": "right"},
        ),
    ]
    (src / "export.json").write_text(json.dumps(tasks))
    source = FORMATS["label-studio"]
    report = source.convert(src, tmp_path / "out", ALL, 1, options=SourceOptions(provider="issuer"))
    corpus = load(tmp_path)
    assert corpus.manifest.task.kind == "token-classification"
    assert fields_of(corpus, "p0") == [("Total", "9.00")]
    assert (corpus.document("p0").label, corpus.document("p0").provider) == ("invoice", "Shop")
    assert fields_of(corpus, "p1") == [("Name", "Ann Lee")]
    assert [(word.text, word.box) for word in corpus.document("p1").words][1:] == [
        ("Lee", (171.4, 0, 300, 20)),
        ("printed", (0, 100, 300, 120)),
    ]
    assert report.located == {"Name": {"exact": 1}, "Total": {"exact": 1}}
    assert report.documents == {"member": 2, "heldout": 0, "public": 0, "left out": 0}


def test_label_studios_spans_of_texts(tmp_path: Path) -> None:
    result = {"value": {"start": 6, "end": 9, "text": "Ann", "labels": ["PER"]}, "id": "x", "type": "labels"}
    (tmp_path / "src").mkdir()
    made = {"id": 7, "data": {"text": "Hello Ann, bye"}, "annotations": [{"result": [result]}]}
    (tmp_path / "src" / "export.json").write_text(json.dumps([made]))
    FORMATS["label-studio"].convert(tmp_path / "src", tmp_path / "out", ALL, 1)
    corpus = load(tmp_path)
    assert fields_of(corpus, "task-7") == [("PER", "Ann")]
    assert [word.text for word in corpus.documents[0].words] == ["Hello", "Ann", ",", "bye"]


# COCO


def coco(src: Path, images: list[Any], annotations: list[Any], name: str = "instances_train.json") -> None:
    categories = [{"id": 3, "name": "total", "supercategory": "field"}]
    table = {"info": {}, "licenses": [], "images": images, "annotations": annotations, "categories": categories}
    (src / name).write_text(json.dumps(table))


def test_cocos_boxes_take_the_words_inside_them(src: Path, tmp_path: Path) -> None:
    half = {"id": 1, "file_name": "p0.png", "width": 300, "height": 100}
    other = {"id": 2, "file_name": "images/p1.png", "width": 600, "height": 200}
    marks = [
        {
            "id": 1,
            "image_id": 1,
            "category_id": 3,
            "bbox": [120, 25, 50, 25],
            "area": 9,
            "iscrowd": 0,
            "segmentation": [],
        },
        {"id": 2, "image_id": 1, "category_id": 3, "bbox": [0, 90, 5, 5], "area": 9, "iscrowd": 0, "segmentation": []},
        {"id": 3, "image_id": 2, "category_id": 3, "bbox": [0, 90, 5, 5], "area": 9, "iscrowd": 0, "segmentation": []},
    ]
    coco(src, [half, other], marks)
    report = FORMATS["coco"].convert(src, tmp_path / "out", ALL, 1)
    assert fields_of(load(tmp_path), "p0") == [("total", "9.00")]
    assert report.not_located == {"total": {"no word inside the region": 1, "no words on the page": 1}}
    assert any("tesseract PAGE.png PAGE hocr" in sentence for sentence in report.warnings)


# Tables


def test_a_table_of_keys_and_values(src: Path, tmp_path: Path) -> None:
    rows = [
        {"file": "p0.png", "key": "total", "value": "9.00", "split": "train", "provider": "Shop"},
        {"file": "p0.png", "key": "date", "value": "1 May", "split": "train", "provider": "Shop"},
        {"file": "images/p1.png", "key": "total", "value": "5.00", "split": "test", "provider": "Bank"},
    ]
    pandas.DataFrame(rows).to_csv(src / "values.csv", index=False)
    shares: dict[Split, float] = {"member": 1.0, "heldout": 1.0}
    report = FORMATS["csv"].convert(src, tmp_path / "out", shares, 1, "official")
    corpus = load(tmp_path)
    assert fields_of(corpus, "p0") == [("total", "9.00")]
    assert {document.id: (document.split, document.provider) for document in corpus.documents} == {
        "p0": ("member", "Shop"),
        "p1": ("heldout", "Bank"),
    }
    assert report.fields == {"date": 1, "total": 2}
    assert report.located["total"] == {"exact": 1}
    assert report.not_located == {"date": {"not found": 1}, "total": {"no words on the page": 1}}


def test_a_column_for_each_field_asked_for(src: Path, tmp_path: Path) -> None:
    (src / "values.csv").write_text("file;invoiceTotal;date\np0.png;9.00;1 May\np1.png;;2 May\n", encoding="utf-8")
    report = FORMATS["csv"].convert(src, tmp_path / "out", ALL, 1, task="question-answering")
    corpus = load(tmp_path)
    assert [(one.id, one.question, one.answers, one.entity) for one in corpus.document("p0").questions] == [
        ("invoiceTotal", "What is the invoice total?", ("9.00",), "e1"),
        ("date", "What is the date?", ("1 May",), None),
    ]
    assert any("1 of 2 pages have no words" in sentence and "docaudit ocr" in sentence for sentence in report.warnings)


def test_a_table_about_pdfs(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    HTML(string="<p>Hello</p><p style='break-before: page'>Total due 9.75 today</p>").write_pdf(folder / "a.pdf")
    (folder / "values.csv").write_text("file,key,value\na.pdf,total,9.75\n")
    FORMATS["csv"].convert(folder, tmp_path / "out", ALL, 1)
    assert fields_of(load(tmp_path), "a-2") == [("total", "9.75")]


# PDFs


def test_pdfs_are_rendered_with_the_words_of_their_text_layer(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "train"
    folder.mkdir(parents=True)
    style = (
        "<style>@page {size: 400pt 200pt; margin: 0} p {position: absolute; left: 200pt; top: 100pt; margin: 0}</style>"
    )
    HTML(string=f"{style}<p>Total 9.00</p>").write_pdf(folder / "one.pdf")
    HTML(string="<p>first</p><p style='break-before: page'>second</p>").write_pdf(folder / "two.pdf")
    report = FORMATS["pdf"].convert(tmp_path / "src", tmp_path / "out", ALL, 1)
    corpus = load(tmp_path)
    assert [document.id for document in corpus.documents] == ["one", "two-1", "two-2"]
    one = corpus.document("one")
    assert one.size == (834, 417)
    assert [word.text for word in one.words] == ["Total", "9.00"]
    x0, y0, x1, y1 = one.words[0].box or (0, 0, 0, 0)
    assert abs(x0 - 417) < 4
    assert 208 <= y0 < y1 <= 250
    assert x0 < x1 <= (one.words[1].box or (0,))[0]
    assert corpus.manifest.task.kind == "mlm"
    assert report.documents["member"] == 3


def test_pages_of_one_pdf_stay_together(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    for name in "abcdef":
        HTML(string=f"<p>{name}1</p><p style='break-before: page'>{name}2</p>").write_pdf(folder / f"{name}.pdf")
    FORMATS["pdf"].convert(folder, tmp_path / "out", {"member": 0.5, "heldout": 0.5}, 1)
    corpus = load(tmp_path)
    assert all(corpus.document(f"{name}-1").split == corpus.document(f"{name}-2").split for name in "abcdef")
