"""Importers on sources made by hand: what is found, what is refused, and that nothing is left half-written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Category, Split, TaskKind
from audit.errors import EngineError, ManifestError
from audit.files import mark_underway
from audit.importers.locate import MIN_SCORE, Location, locate, quality_of
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

funsd = FORMATS["funsd"]
sroie = FORMATS["sroie"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}


# Locating a value


@pytest.mark.parametrize(
    ("value", "category", "page", "words", "rule"),
    [
        ("9.00", "amount", "19.00 9.000 9.00 9.00", (2,), "exact"),
        (
            "BOOK TA.K",
            "organization",
            "x BOOK TA .K y",
            (
                1,
                2,
                3,
            ),
            "exact",
        ),
        (
            "RM9.00",
            "amount",
            "total RM 9.00",
            (
                1,
                2,
            ),
            "exact",
        ),
        (
            "1 JALAN A, 81100 JB",
            "location",
            "shop 1 Jalan A, 81100 JB. tel",
            (
                1,
                2,
                3,
                4,
                5,
            ),
            "punctuation",
        ),
        ("28/03/18", "datetime", "x 28-03-18", (1,), "punctuation"),
        ("7838.80", "amount", "x 7,838.80", (1,), "equal amount"),
        ("1.38", "amount", "11.38 RM1.38", (1,), "equal amount"),
        ("43.7", "amount", "43.71 43.70", (1,), "equal amount"),
        ("06/04/2018", "datetime", "04/06/18 06/04/18", (1,), "equal date"),
        ("20180304", "datetime", "03/04/2018 04/03/2018", (1,), "equal date"),
        ("25/12/2018", "datetime", "DATE:25/12/2018 8:13", (0,), "inside"),
        ("25/12/2018", "datetime", "25/12/2018TIME:", (0,), "inside"),
        (
            "RED SHOP LTD",
            "organization",
            "RED SHOP LTD(728384-M)",
            (
                0,
                1,
                2,
            ),
            "inside",
        ),
        (
            "HAPPY SNACKS LTD",
            "organization",
            "a HAPPY SNACKZ LTD b",
            (
                1,
                2,
                3,
            ),
            "loose",
        ),
    ],
)
def test_located(
    value: str, category: Category, page: str, words: tuple[int, ...], rule: str
) -> None:
    assert locate(value, category, page.split()) == Location(words, rule)


@pytest.mark.parametrize(
    ("value", "category", "page", "reason"),
    [
        ("9.00", "amount", "19.00 9.000 9 900", "part of a longer value"),
        ("-9.00", "amount", "9.00", "not found"),
        ("1/12/18", "datetime", "11/2/18", "not found"),
        ("1/12/18", "datetime", "11/12/18", "part of a longer value"),
        ("20180428", "datetime", "20180428/191204", "part of a longer value"),
        ("28-01-18", "datetime", "28-11-18", "not found"),
        ("99/99/2018", "datetime", "98/99/2018", "not found"),
        ("AEON", "organization", "WWW.AEON.COM", "part of a longer value"),
        ("RED SHOP", "organization", "RED SHAP", "not found"),
        ("No. 1 Jalan A 81100", "location", "No. 2 Lorong B 81200", "not found"),
    ],
)
def test_not_located(value: str, category: Category, page: str, reason: str) -> None:
    assert locate(value, category, page.split()) == reason


def test_words_of_another_field_are_left_to_it() -> None:
    assert locate("9.00", "amount", ["9.00", "9.00"], taken={0}) == Location((1,), "exact")


PAGE = "MEGAH TRADNG SDN 8HD (1029-K) NO 17 JLN BUKlT 1NDAH 3/2, 81200 JOHR BAHRU TEL 07-2331 TOTAL 9.00"


@pytest.mark.parametrize(
    ("value", "category", "words"),
    [
        ("megah trading sdn bhd", "organization", "MEGAH TRADNG SDN 8HD"),
        (
            "17 Jalan Bukit Indah 3/2 81200 Johor Bahru",
            "location",
            "17 JLN BUKlT 1NDAH 3/2, 81200 JOHR BAHRU",
        ),
    ],
)
def test_names_and_addresses_are_located_loosely_with_their_score(
    value: str, category: Category, words: str
) -> None:
    found = locate(value, category, PAGE.split())
    assert isinstance(found, Location)
    assert (" ".join(PAGE.split()[index] for index in found.words), quality_of(found.rule)) == (
        words,
        "loose",
    )
    assert MIN_SCORE <= found.score < 1


def test_loose_location_takes_no_word_of_another_field() -> None:
    value = "17 Jalan Bukit Indah 3/2 81200 Johor Bahru"
    page = PAGE.split()
    free = locate(value, "location", page)
    assert isinstance(free, Location)
    assert free.rule == "loose"
    found = locate(value, "location", page, taken={free.words[4]})
    assert not isinstance(found, Location) or free.words[4] not in found.words


def test_two_places_as_much_like_a_value_are_none() -> None:
    page = ["12", "JLN", "BUKIT", "1NDAH", "JOHR", "shop", "13", "JLN", "BUKIT", "1NDAH", "JOHR"]
    assert locate("14 Jalan Bukit Indah Johor", "location", page) == "not found"


@given(
    st.lists(st.text("abcdefgh", min_size=3, max_size=8), min_size=4, max_size=12),
    st.integers(0, 3),
)
def test_what_is_located_strictly_is_not_located_otherwise(words: list[str], start: int) -> None:
    found = locate(" ".join(words[start : start + 3]), "location", words)
    assert isinstance(found, Location)
    assert (found.rule, found.score) == ("exact", 1)


@pytest.mark.parametrize(
    ("value", "category"),
    [("19.00", "amount"), ("25/12/2018", "datetime"), ("A-1029-KX-77", "code")],
)
def test_numbers_are_never_located_loosely(value: str, category: Category) -> None:
    assert not isinstance(
        locate(value, category, ["18.00", "25/11/2018", "A-1028-KX-77"]), Location
    )


# SROIE


@pytest.fixture
def receipts(tmp_path: Path) -> Path:
    """Three receipts.

    The second and third are the same picture, and the third is Windows-1252 and lacks an address.
    """
    src = tmp_path / "sroie"
    for folder in ("img", "box", "key"):
        (src / folder).mkdir(parents=True)
    for name, gray in (("000", 250), ("001", 200), ("002", 200)):
        Image.new("L", (100, 200), gray).save(src / "img" / f"{name}.jpg")
    (src / "box" / "000.csv").write_text(
        "10,10,90,10,90,20,10,20,RED SHOP\n10,30,110,30,110,40,10,40,NO. 1, JALAN A,\n"
        "10,50,50,50,50,60,10,60,DATE:25/12/2018\n\n10,70,50,70,50,80,10,80,RM 9.00\n"
    )
    (src / "key" / "000.json").write_text(
        json.dumps(
            {
                "company": "Red Shop",
                "date": "25/12/2018",
                "address": "NO. 1, JALAN A",
                "total": "9.00",
            }
        )
    )
    (src / "box" / "001.csv").write_text("10,10,90,10,90,20,10,20,RED SHOP 26/12/2018\n")
    (src / "key" / "001.json").write_text(
        json.dumps({"company": "RED SHOP", "date": "26/12/2018", "address": "LOST", "total": ""})
    )
    (src / "box" / "002.csv").write_bytes(
        "10,10,90,10,90,20,10,20,CAFÉ “RED SHOP\r\n".encode("cp1252")
    )
    (src / "key" / "002.json").write_bytes('{"company": "RED SHOP", "date": "é"}'.encode("latin-1"))
    return src


def test_reports_count_loosely_located_fields_apart(receipts: Path, tmp_path: Path) -> None:
    (receipts / "box" / "001.csv").write_text(
        "10,10,90,10,90,20,10,20,RED SHOP 26-12-2018\n10,30,90,30,90,40,10,40,17 JLN BKT 1NDAH 3/2 81200 JOHR\n"
    )
    values = {
        "company": "RED SHOP",
        "date": "26/12/2018",
        "address": "17 Jalan Bukit Indah 3/2 81200 Johor",
    }
    (receipts / "key" / "001.json").write_text(json.dumps(values))
    report = sroie.convert(ImportRequest(receipts, tmp_path / "data", ALL_MEMBERS, seed=1))
    assert report.located["COMPANY"] == {"exact": 2, "normalised": 1}  # of “RED SHOP
    assert report.located["DATE"] == {"normalised": 2}
    assert report.located["ADDRESS"] == {"normalised": 1, "loose": 1}
    ((document, label, score),) = report.loose
    assert (document, label) == ("001", "ADDRESS")
    assert 0.75 <= score < 1


def test_sroie_words_fields_and_report(receipts: Path, tmp_path: Path) -> None:
    dst = tmp_path / "out" / "data"
    report = sroie.convert(ImportRequest(receipts, dst, ALL_MEMBERS, seed=1))
    corpus = manifests.load(dst)
    first = corpus.document("000")
    assert [word.text for word in first.words] == [
        *("RED", "SHOP", "NO.", "1,", "JALAN", "A,"),
        *("DATE:25/12/2018", "RM", "9.00"),
    ]
    assert first.words[0].box == (10, 10, 40, 20)  # three of eight characters of 80 pixels
    assert first.words[1].box == (50, 10, 90, 20)
    assert first.words[5].box == (96.7, 30, 100, 40)  # cut at the edge of the page
    assert {entity.label: first.text_of(entity) for entity in first.entities} == {
        "COMPANY": "RED SHOP",
        "DATE": "DATE:25/12/2018",
        "ADDRESS": "NO. 1, JALAN A,",
        "TOTAL": "9.00",
    }
    assert [entity.category for entity in first.entities] == [
        "organization",
        "datetime",
        "location",
        "amount",
    ]
    assert (corpus.document("002").words[0].text, corpus.manifest.membership.assigned) == (
        "CAFÉ",
        "random",
    )
    assert corpus.manifest.task.labels[:3] == ("O", "B-COMPANY", "I-COMPANY")

    assert report.documents == {"member": 3, "heldout": 0, "public": 0, "left out": 0}
    assert report.fields == {"COMPANY": 3, "DATE": 3, "ADDRESS": 3, "TOTAL": 3}
    assert report.located["DATE"] == {"normalised": 1, "exact": 1}
    assert report.not_located["ADDRESS"] == {"not found": 1, "absent": 1}
    assert (report.not_located["TOTAL"], report.duplicates) == ({"absent": 2}, [("001", "002")])
    assert ("001", "ADDRESS", "not found") in report.unlocated
    written = json.loads((dst / "import-report.json").read_text())
    assert written["unlocated"] == [list(entry) for entry in report.unlocated]
    assert "LOST" not in (dst / "import-report.json").read_text()


@pytest.mark.parametrize(
    ("task", "labels"),
    [("mlm", ()), ("spade-extraction", ("O", "COMPANY", "DATE", "ADDRESS", "TOTAL"))],
)
def test_sroie_for_other_tasks(
    task: TaskKind, labels: tuple[str, ...], receipts: Path, tmp_path: Path
) -> None:
    sroie.convert(ImportRequest(receipts, tmp_path / "out", ALL_MEMBERS, seed=1, task=task))
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.task.kind, corpus.manifest.task.labels) == (task, labels)
    assert {entity.label for document in corpus.documents for entity in document.entities} >= {
        *labels[1:]
    }


def test_equal_receipts_share_a_split_and_the_rest_is_left_out(
    receipts: Path, tmp_path: Path
) -> None:
    for seed in range(6):
        shares: dict[Split, float] = {"member": 0.34, "public": 0.66}
        sroie.convert(ImportRequest(receipts, tmp_path / str(seed), shares, seed))
        corpus = manifests.load(tmp_path / str(seed))
        assert corpus.document("001").split == corpus.document("002").split == "public"
    report = sroie.convert(ImportRequest(receipts, tmp_path / "part", {"member": 0.34}, seed=0))
    assert report.documents == {"member": 1, "heldout": 0, "public": 0, "left out": 2}
    assert [path.name for path in (tmp_path / "part" / "images").iterdir()] == ["000.jpg"]


def test_every_fault_of_a_source_is_listed(receipts: Path, tmp_path: Path) -> None:
    (receipts / "key" / "000.json").write_text("{")
    (receipts / "box" / "001.csv").write_text("1,2,3,RED\n1,2,3,4,5,6,7,eight,RED\n")
    (receipts / "img" / "002.jpg").write_bytes(b"no image")
    (receipts / "img" / "003.jpg").write_bytes(b"")
    with pytest.raises(ManifestError) as caught:
        sroie.convert(ImportRequest(receipts, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert caught.value.problems == (
        "000: 000.json is not JSON",
        "001: 001.csv:1 is not x1,y1,...,TEXT with 8 numbers (2 times)",
        "box/003: missing (2 times, also key/003)",
        "002: not readable as an image (PNG, JPEG, TIFF, WEBP)",
    )
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_nothing(
    receipts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(manifests.shutil, "copyfile", full)
    with pytest.raises(EngineError, match="No space left on device"):
        sroie.convert(ImportRequest(receipts, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_current_folder_is_a_destination(
    receipts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    sroie.convert(ImportRequest(receipts, Path("."), ALL_MEMBERS, seed=1))
    assert len(manifests.load(tmp_path / "out").documents) == 3


def test_what_a_killed_import_left_goes_and_what_another_writes_stays(
    receipts: Path, tmp_path: Path
) -> None:
    draft = tmp_path / ".out.import.tmp"
    draft.mkdir()
    with (
        mark_underway(draft),
        pytest.raises(EngineError, match=r"\.out\.import\.tmp: another command is writing it"),
    ):
        sroie.convert(ImportRequest(receipts, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert not (tmp_path / "out").exists()
    sroie.convert(ImportRequest(receipts, tmp_path / "out", ALL_MEMBERS, seed=1))
    assert not draft.exists()


# FUNSD


def item(
    number: int, label: str, *texts: str, linking: tuple[tuple[int, int], ...] = ()
) -> dict[str, Any]:
    words = [{"text": text, "box": [10 * i, 10, 10 * i + 8, 20]} for i, text in enumerate(texts)]
    return {
        "id": number,
        "label": label,
        "text": " ".join(texts),
        "words": words,
        "linking": linking,
        "box": [0] * 4,
    }


@pytest.fixture
def forms(tmp_path: Path) -> Path:
    src = tmp_path / "funsd"
    (src / "annotations").mkdir(parents=True)
    (src / "images").mkdir()
    Image.new("L", (100, 100), 255).save(src / "images" / "f1.png")
    form = [
        item(0, "header", "FORM"),
        item(1, "question", "Date:", "", linking=((1, 2), (1, 4), (1, 1))),
        item(2, "answer", "1", "May", linking=((1, 2),)),
        item(3, "other", "page"),
        item(4, "answer", "", linking=((1, 4),)),
    ]
    (src / "annotations" / "f1.json").write_text(json.dumps({"form": form}))
    return src


def test_funsd_words_fields_links_and_report(forms: Path, tmp_path: Path) -> None:
    report = funsd.convert(ImportRequest(forms, tmp_path / "out", ALL_MEMBERS, seed=1))
    (document,) = manifests.load(tmp_path / "out").documents
    assert [word.text for word in document.words] == ["FORM", "Date:", "1", "May", "page"]
    assert [(e.id, e.label, document.text_of(e), e.attack) for e in document.entities] == [
        ("0", "HEADER", "FORM", False),
        ("1", "QUESTION", "Date:", False),
        ("2", "ANSWER", "1 May", True),
    ]
    assert (document.links, report.fields) == (
        (("1", "2"),),
        {"HEADER": 1, "QUESTION": 1, "ANSWER": 2},
    )
    assert (report.not_located["ANSWER"], report.unlocated) == (
        {"empty": 1},
        [("f1", "ANSWER", "empty")],
    )
    # Left out: to a field without words, and of a field to itself.
    assert report.notes == {"words without text, left out": 2, "links": 1, "links left out": 2}


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("mlm", ()),
        ("spade-extraction", ("O", "HEADER", "QUESTION", "ANSWER")),
        ("spade-linking", ()),
    ],
)
def test_funsd_for_other_tasks(
    task: TaskKind, labels: tuple[str, ...], forms: Path, tmp_path: Path
) -> None:
    funsd.convert(ImportRequest(forms, tmp_path / "out", ALL_MEMBERS, seed=1, task=task))
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.task.kind, corpus.manifest.task.labels) == (task, labels)
    assert corpus.documents[0].links == (("1", "2"),)  # the question, and its answer
