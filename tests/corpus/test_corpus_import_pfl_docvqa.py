"""The importer of PFL-DocVQA on small folders of its shape.

Its pickles are refused, never opened.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

pfl_docvqa = FORMATS["pfl-docvqa"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}
OFFICIAL: dict[Split, float] = {"member": 1.0, "heldout": 1.0}
HEADER = {
    "creation_time": 1700000000.0,
    "version": 0.1,
    "dataset_type": "train",
    "has_answer": True,
}
Record = dict[str, Any]


RECORD = {
    "set_name": "train",
    "question": "What is the provider of this document?",
    "answers": "9.00",
    "image_width": 100,
    "image_height": 200,
    "ocr_tokens": ["TOTAL", " ", "9.00"],
    "ocr_normalized_boxes": [[0.1, 0.1, 0.3, 0.2], [0, 0, 0, 0], [0.5, 0.1, 1.005, 0.2]],
}
"""What the records of all pages say."""


def record(number: int, page: str, provider: str | None = "katz", **changes: Any) -> Record:
    named = {
        "question_id": number,
        "image_name": page,
        "provider": provider,
        "docid": page.split("_")[0],
    }
    return {**RECORD, **named} | changes


def lay_out(src: Path, files: dict[str, list[Record]], images: str = "images") -> Path:
    (src / images).mkdir(parents=True)
    for name, records in files.items():
        (src / name).parent.mkdir(exist_ok=True)
        if name.endswith("l"):
            (src / name).write_text(
                "\n".join(json.dumps(item) for item in [HEADER, *records]) + "\n\n"
            )
        else:
            (src / name).write_text(json.dumps([HEADER, *records]))
    pages = sorted(
        {Path(item["image_name"]).stem for records in files.values() for item in records}
    )
    for number, page in enumerate(pages):
        Image.new("L", (100, 200), 10 * number).save(src / images / f"{page}.jpg")
    return src


@pytest.mark.parametrize(
    "name", ["blue_train.json", "blue_train.jsonl", "imdb/blue_train.json", "imdbs/train.jsonl"]
)
def test_records_become_pages_with_providers(name: str, tmp_path: Path) -> None:
    records = [
        record(1, "d1_p0"),
        record(2, "d1_p0", question="How much?", answers=["9.00", "9"]),
        record(3, "d2_p0", " Katz\tTV "),
        record(4, "d3_p0", None, answers="elsewhere"),
    ]
    report = pfl_docvqa.convert(
        ImportRequest(
            lay_out(tmp_path / "src", {name: records}), tmp_path / "out", ALL_MEMBERS, seed=1
        )
    )
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.name, corpus.manifest.task.kind) == ("pfl-docvqa", "question-answering")
    assert {d.id: d.provider for d in corpus.documents} == {
        "d1_p0": "katz",
        "d2_p0": "Katz TV",
        "d3_p0": None,
    }
    page = corpus.document("d1_p0")
    assert [(q.id, q.answers) for q in page.questions] == [("1", ("9.00",)), ("2", ("9.00", "9"))]
    assert [(word.text, word.box) for word in page.words] == [
        ("TOTAL", (10, 20, 30, 40)),
        ("9.00", (50, 20, 100, 40)),  # cut at the edge of the page
    ]
    assert (report.fields, report.unlocated) == ({"ANSWER": 4}, [("d3_p0", "4", "not found")])


def test_other_names_of_keys_and_missing_ids(tmp_path: Path) -> None:
    renamed = {
        "answers": "answer",
        "provider": "data_provider",
        "ocr_tokens": "words",
        "docid": "doc_id",
    }
    records = [record(1, "d1_p0"), record(2, "d1_p0", question="And?")]
    for item in records:
        item |= {new: item.pop(old) for old, new in renamed.items()}
        item["image_name"] = "imgs/d1_p0.jpg"
        del item["question_id"]
    src = lay_out(tmp_path / "src", {"train.json": records}, images="documents")
    (src / "train.json").write_text(json.dumps({"data": records}))
    pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, seed=1))
    (page,) = manifests.load(tmp_path / "out").documents
    assert (page.id, page.provider, [q.id for q in page.questions]) == (
        "d1_p0",
        "katz",
        ["q1", "q2"],
    )


def test_the_official_division_knows_blue_from_red(tmp_path: Path) -> None:
    blue = {"train_client_0": [record(1, "d1_p0"), record(2, "d2_p0")], "val": [record(3, "d3_p0")]}
    red = {"train": [record(4, "d4_p0", "other")]}
    red["test"] = [record(5, "d5_p0"), record(6, "d1_p0", question="Of a trained page?")]
    parts = {
        f"{team}_{part}.json": own
        for team, all_of in (("blue", blue), ("red", red))
        for part, own in all_of.items()
    }
    src = lay_out(tmp_path / "src", parts)
    (src / "train_data_points.json").write_text('{"0": {"katz": [1, 2]}}')
    report = pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", OFFICIAL, 1, "official"))
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.membership.assigned == "official"
    assert {d.id for d in corpus.of("member")} == {"d1_p0", "d2_p0"}
    assert {d.id for d in corpus.of("heldout")} == {"d3_p0", "d4_p0", "d5_p0"}
    assert [q.id for q in corpus.document("d1_p0").questions] == ["1"]
    assert report.notes["questions of another part on pages of the training part, left out"] == 1
    (src / "blue_val.json").rename(src / "part3.json")
    with pytest.raises(UsageError, match=r"part3\.json: the name does not say which part"):
        pfl_docvqa.convert(ImportRequest(src, tmp_path / "other", OFFICIAL, 1, "official"))
    pfl_docvqa.convert(ImportRequest(src, tmp_path / "other", ALL_MEMBERS, 1))
    assert len(manifests.load(tmp_path / "other").documents) == 5


class Trap:
    """A pickle that leaves a file behind when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


def test_a_pickle_is_refused_unread_with_the_way_out(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", {"blue_val.json": [record(1, "d1_p0")]})
    np.save(
        src / "blue_train.npy",
        np.array([Trap(tmp_path / "opened")], dtype=object),
        allow_pickle=True,
    )
    with pytest.raises(UsageError) as caught:
        pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, 1))
    assert caught.value.problems == (
        "blue_train.npy holds pickled records: reading them would run code from it",
    )
    assert not (tmp_path / "opened").exists()
    assert not (tmp_path / "out").exists()
    for part in ("if you trust its origin", 'numpy.load("blue_train.npy"', "> blue_train.jsonl"):
        assert part in caught.value.hint
    np.load(src / "blue_train.npy", allow_pickle=True).item().close()
    assert (tmp_path / "opened").exists()  # the trap was set


def test_the_way_out_works(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", {"val.json": [record(1, "d1_p0")]})
    (src / "val.json").unlink()
    boxes = np.array(record(1, "d1_p0")["ocr_normalized_boxes"])
    records = [
        HEADER,
        record(1, "d1_p0") | {"ocr_normalized_boxes": boxes, "question_id": np.int64(7)},
    ]
    np.save(src / "blue_train.npy", np.array(records, dtype=object), allow_pickle=True)
    with pytest.raises(UsageError) as caught:
        pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, 1))
    command = caught.value.hint.split("write its records as JSON: ")[1]
    subprocess.run(
        ["bash", "-c", command.replace("python", sys.executable, 1)], cwd=src, check=True
    )
    pfl_docvqa.convert(
        ImportRequest(src, tmp_path / "out", ALL_MEMBERS, 1)
    )  # the pickle beside it is not read
    (page,) = manifests.load(tmp_path / "out").documents
    assert [q.id for q in page.questions] == ["7"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"answers": " "}, "train.json[2] no answer", id="an empty answer"),
        pytest.param(
            {"ocr_tokens": ["a", "b", "c"]},
            "train.json[2] the page's words differ from those of an earlier record",
            id="other words on the page",
        ),
        pytest.param(
            {"provider": "another"},
            "train.json[2] the page's provider differs from that of an earlier record",
            id="another provider",
        ),
        pytest.param(
            {"question_id": 1}, "train.json[1]: two questions have one id", id="an id twice"
        ),
    ],
)
def test_records_of_a_page_agree(changes: Record, problem: str, tmp_path: Path) -> None:
    src = lay_out(
        tmp_path / "src", {"train.json": [record(1, "d1_p0"), record(2, "d1_p0") | changes]}
    )
    with pytest.raises(ManifestError, match=re.escape(problem)):
        pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", ALL_MEMBERS, 1))


def test_by_provider_documents_of_several_pages_stay_whole(tmp_path: Path) -> None:
    records = [record(n, f"d{n // 2:02}_p{n % 2}", f"shop {n // 8}") for n in range(64)]
    src = lay_out(tmp_path / "src", {"records.json": records})
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
    pfl_docvqa.convert(ImportRequest(src, tmp_path / "out", shares, 0, "by-provider"))
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.membership.assigned == "by-provider"
    pages: dict[str, list[Split]] = {}
    for document in corpus.documents:
        pages.setdefault(document.id.split("_")[0], []).append(document.split)
    assert {split for own in pages.values() for split in own} == {"member", "heldout", "public"}
    assert all(len(own) == 2 and len({*own}) == 1 for own in pages.values())
    kept = {document.provider for document in corpus.of("heldout")}
    assert {document.provider for document in corpus.of("member")} < kept
