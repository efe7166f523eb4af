"""Annotated pages like FUNSD's or SROIE's, in other folders and with other labels and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.named import read_labels
from audit.importers.registry import FORMATS

forms = FORMATS["forms"]
ALL: dict[Split, float] = {"member": 1.0}


def lay_out(tmp_path: Path, **files: Any) -> Path:
    """Files by path, "__" for "/" and "_D_" for "."; p.png is the page."""
    src = tmp_path / "src"
    for name, content in files.items():
        path = src / name.replace("__", "/").replace("_D_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    Image.new("L", (500, 400), 250).save(src / "p.png")
    return src


def item(label: str, *words: tuple[str, list[int]], **more: Any) -> dict[str, Any]:
    text = " ".join(text for text, _ in words)
    return {"label": label, "text": text, "words": [{"text": text, "box": box} for text, box in words], **more}


def test_funsd_with_labels_and_boxes_of_ones_own(tmp_path: Path) -> None:
    table = {
        "form": [
            item("invoice_no", ("No.", [0, 0, 100, 20]), ("77", [120, 0, 1000, 20])),
            item("other", ("Thanks", [0, 900, 100, 990])),
        ]
    }
    report = forms.convert(lay_out(tmp_path, labels__p_D_json=table), tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    assert [(one.label, document.text_of(one), one.category) for one in document.entities] == [
        ("invoice_no", "No. 77", "code")
    ]
    assert document.words[1].box == (60, 0, 500, 8)
    assert report.notes == {"boxes in thousandths of the page": 3}
    assert report.located == {"invoice_no": {"exact": 1}}


def test_labels_are_those_of_the_model(tmp_path: Path) -> None:
    """Data with "total" and a model with B-TOTAL mean the same; what the model has no tag for is left out."""
    table = [item("total", ("9.00", [1, 2, 3, 4])), item("Stamp", ("PAID", [5, 6, 7, 8]))]
    src = lay_out(tmp_path, p_D_json=table)
    (tmp_path / "model").mkdir()
    config = {"id2label": {"0": "O", "2": "I-TOTAL", "1": "B-TOTAL", "10": "B-DATE"}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    arguments = ["import", "forms", str(src), str(tmp_path / "out"), "--labels", str(tmp_path / "model")]
    result = CliRunner().invoke(app, [*arguments, "--member", "1", "--heldout", "0", "--public", "0"])
    assert result.exit_code == 0, result.output
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.task.labels == ("O", "B-TOTAL", "I-TOTAL", "B-DATE")
    assert [one.label for one in corpus.documents[0].entities] == ["TOTAL"]
    report = json.loads((tmp_path / "out" / "import-report.json").read_text())
    assert report["not_located"]["Stamp"] == {"not among the model's labels": 1}


@pytest.mark.parametrize("content", [None, "{}", "[", '{"id2label": {"x": "y"}}'])
def test_labels_that_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    if content is not None:
        (tmp_path / "model" / "config.json").write_text(content)
    with pytest.raises(UsageError, match="no labels can be read there"):
        read_labels(str(tmp_path / "model"))


def test_labels_by_name_and_by_line(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("O\n B-A \n\n")
    assert read_labels("O, B-A") == read_labels(str(tmp_path / "labels.txt")) == ("O", "B-A")


def test_items_without_words_are_divided(tmp_path: Path) -> None:
    table = [{"label": "name", "text": "Ann Lee", "bbox": [10, 10, 80, 20]}]
    forms.convert(lay_out(tmp_path, p_D_json=table), tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    assert [(word.text, word.box) for word in document.words] == [("Ann", (10, 10, 40, 20)), ("Lee", (50, 10, 80, 20))]
    assert document.entities[0].category == "person"


def test_columns_in_a_file_for_each_page(tmp_path: Path) -> None:
    table = {"words": ["Ann", "9"], "bboxes": [[1, 2, 3, 4], [5, 6, 400, 390]], "ner_tags": ["S-NAME", "O"]}
    forms.convert(lay_out(tmp_path, p_D_json=table), tmp_path / "out", ALL, 1)
    corpus = manifests.load(tmp_path / "out")
    assert [(one.label, corpus.documents[0].text_of(one)) for one in corpus.documents[0].entities] == [("NAME", "Ann")]
    assert corpus.manifest.task.labels == (), "the model's own labels count where they are no BIO tags"


def test_sroie_in_other_folders_with_other_keys(tmp_path: Path) -> None:
    src = lay_out(
        tmp_path,
        ocr__p_D_txt="10,10,90,10,90,20,10,20,RED SHOP\n10,70,60,80,RM 9.00, paid\n\n",
        entities__p_D_json={"company": "Red Shop", "grand": {"total": "9.00"}, "date": "", "paid": True},
    )
    report = forms.convert(src, tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    assert [(one.label, document.text_of(one)) for one in document.entities] == [
        ("company", "RED SHOP"),
        ("grand.total", "9.00,"),
    ]
    assert document.provider == "Red Shop"
    assert report.fields == {"company": 1, "grand.total": 1}


def test_nothing_but_images(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with pytest.raises(UsageError, match=r"holds neither \.json nor \.txt"):
        forms.convert(lay_out(tmp_path), tmp_path / "out", ALL, 1)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"p_D_txt": "1,2,3,RED"}, "p.png: p.txt:1 is not x1,y1,...,TEXT with 4 or 8 numbers"),
        ({"a__p_D_json": {}, "b__p_D_json": {}}, "p.png: its annotation: several files may be it: a/p.json, b/p.json"),
    ],
)
def test_files_that_belong_to_no_page_or_to_it_twice_are_refused(
    files: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ManifestError) as caught:
        forms.convert(lay_out(tmp_path, **files), tmp_path / "out", ALL, 1)
    assert any(problem in found for found in caught.value.problems), caught.value.problems
