"""TAB's official files: what one annotator would mask is redacted, and dev and test were not trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS

tab = FORMATS["tab"]
ALL: dict[Split, float] = {"member": 1.0}
TEXT = "Mr Ann Lee wrote on 2 May 1999."


def mention(start: int, end: int, kind: str = "PERSON", masked: str = "DIRECT") -> dict[str, Any]:
    return {
        "entity_type": kind,
        "entity_mention_id": f"m{start}",
        "start_offset": start,
        "end_offset": end,
        "span_text": TEXT[start:end],
        "edit_type": "correct",
        "identifier_type": masked,
        "entity_id": "e1",
        "confidential_status": "NOT_CONFIDENTIAL",
    }


def case(name: str, *mentions: dict[str, Any], part: str = "train", **more: Any) -> dict[str, Any]:
    return {
        "annotations": {"annotator1": {"entity_mentions": [*mentions]}, "annotator2": {"entity_mentions": []}},
        "quality_checked": False,
        "doc_id": name,
        "text": f"{TEXT} {name}",
        "meta": {"year": 1999},
        "dataset_type": part,
        "task": "Task: annotate the document",
        **more,
    }


def lay_out(tmp_path: Path, **parts: Any) -> Path:
    src = tmp_path / "src"
    src.mkdir(exist_ok=True)
    for part, cases in parts.items():
        (src / f"echr_{part}.json").write_text(json.dumps(cases), encoding="utf-8")
    return src


def test_masked_mentions_and_parts(tmp_path: Path) -> None:
    name, date = mention(3, 10), mention(20, 30, "DATETIME", "QUASI")
    kept = mention(0, 2, "MISC", "NO_MASK")
    src = lay_out(
        tmp_path,
        train=[case("001-1", name, date, kept), case("001-2", name)],
        dev=[case("001-3", name, part="dev")],
        test=[case("001-4", date, part="test")],
    )
    report = tab.convert(src, tmp_path / "out", {"member": 1.0, "heldout": 1.0}, 1, "official")
    corpus = manifests.load(tmp_path / "out")
    assert {document.id: document.split for document in corpus.documents} == {
        "001-1": "member",
        "001-2": "member",
        "001-3": "heldout",
        "001-4": "heldout",
    }
    first = corpus.document("001-1")
    assert [(one.label, first.text_of(one)) for one in first.entities] == [
        ("PERSON", "Ann Lee"),
        ("DATETIME", "2 May 1999"),
    ]
    assert {label: count for label, count in report.fields.items() if count} == {"PERSON": 3, "DATETIME": 2}
    assert corpus.manifest.redaction is not None


def test_an_entry_for_each_annotator_and_the_checked_one_counts(tmp_path: Path) -> None:
    def entry(annotator: str, checked: bool, *mentions: Any) -> dict[str, Any]:
        return {
            "doc_id": "001-1",
            "annotator_id": annotator,
            "entity_mentions": [*mentions],
            "quality_checked": checked,
            "text": TEXT,
        }

    src = lay_out(tmp_path, train=[entry("a", False), entry("b", True, mention(3, 10))])
    tab.convert(src, tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    assert [document.text_of(one) for one in document.entities] == ["Ann Lee"]


@pytest.mark.parametrize(
    ("cases", "problem"),
    [
        ({"cases": []}, "echr_train.json : Input should be a valid list"),
        ([{"doc_id": "1"}], "echr_train.json 0.text: Field required"),
        ([{"doc_id": "1", "text": "x"}], "1: no entity_mentions"),
        ([case("1", mention(3, 99))], "1 mention 0: 3 to 99 are no characters of a text of 33"),
        ([case("1", mention(3, 10, "ALIEN"))], "1.0.2: Input should be 'PERSON'"),
        ([case("1", mention(3, 10)), case("1", text="other")], "echr_train.json 1: another text or part"),
    ],
)
def test_faults_are_named(cases: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        tab.convert(lay_out(tmp_path, train=cases), tmp_path / "out", ALL, 1)
    assert any(problem in found for found in caught.value.problems), caught.value.problems


def test_one_part_is_no_division(tmp_path: Path) -> None:
    src = lay_out(tmp_path, train=[case("1", mention(3, 10))])
    with pytest.raises(UsageError, match="has one part only"):
        tab.convert(src, tmp_path / "out", ALL, 1, "official")
