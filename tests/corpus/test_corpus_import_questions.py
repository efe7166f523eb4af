"""SROIE's keys as questions: phrasings, answers, and what is linked."""

import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Split
from audit.corpus.folding import fold
from audit.corpus.summary import summarise
from audit.importers.formats.sroie import FIELDS, PHRASINGS, phrasings_for
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

sroie = FORMATS["sroie"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}


@pytest.fixture
def receipts(tmp_path: Path) -> Path:
    """Two receipts: one with every key on the page in spellings of its own, one with a lost address and no total."""
    src = tmp_path / "sroie"
    for folder in ("img", "box", "key"):
        (src / folder).mkdir(parents=True)
    lines = (
        ("RED SHOP LTD", "NO. 1, JALAN A.", "DATE:25/12/2018", "7,838.80"),
        ("BLUE SHOP LTD", "26/12/18"),
    )
    keys: tuple[dict[str, str], ...] = (
        {
            "company": "Red Shop Ltd",
            "date": "25/12/2018",
            "address": "NO 1 JALAN A",
            "total": "7838.80",
        },
        {"company": "BLUE SHOP LTD", "date": "26/12/2018", "address": "LOST STREET 5", "total": ""},
    )
    for number, (page, values) in enumerate(zip(lines, keys, strict=True)):
        name = f"{number:03}"
        Image.new("L", (100, 200), 200 + number).save(src / "img" / f"{name}.jpg")
        rows = [
            f"10,{20 * i},90,{20 * i},90,{20 * i + 9},10,{20 * i + 9},{line}"
            for i, line in enumerate(page)
        ]
        (src / "box" / f"{name}.csv").write_text("\n".join(rows))
        (src / "key" / f"{name}.json").write_text(json.dumps(values))
    return src


def imported(src: Path, dst: Path, seed: int = 1) -> Corpus:
    sroie.convert(ImportRequest(src, dst, ALL_MEMBERS, seed, task="question-answering"))
    return manifests.load(dst)


def test_every_value_is_asked_for_and_linked_where_it_was_found(
    receipts: Path, tmp_path: Path
) -> None:
    corpus = imported(receipts, tmp_path / "out")
    assert (corpus.manifest.task.kind, corpus.manifest.task.labels) == ("question-answering", ())
    first, second = (document.questions for document in corpus.documents)
    assert [(q.id, q.entity, q.category, q.answers) for q in first] == [
        ("company", "company", None, ("Red Shop Ltd", "RED SHOP LTD")),
        ("date", "date", None, ("25/12/2018",)),  # "DATE:25/12/2018" holds the value and is not it
        ("address", "address", None, ("NO 1 JALAN A", "NO. 1, JALAN A.")),
        ("total", "total", None, ("7838.80", "7,838.80")),
    ]
    assert [(q.id, q.entity, q.category, q.answers) for q in second] == [
        ("company", "company", None, ("BLUE SHOP LTD",)),
        ("date", "date", None, ("26/12/2018", "26/12/18")),
        ("address", None, "location", ("LOST STREET 5",)),
    ]
    for question in (*first, *second):
        phrasings = PHRASINGS[question.id]
        assert question.question in phrasings
        assert [p for p in phrasings if p != question.question] == list(question.paraphrases)
    assert corpus.documents[0].provider == "Red Shop Ltd"
    assert (
        summarise(corpus).counts["answers among the page's words"]["member"] == 5
    )  # a date with its label, and the lost street, do not


def test_keys_have_five_phrasings_or_more_and_no_two_are_alike() -> None:
    assert set(PHRASINGS) == set(FIELDS)
    assert all(len(phrasings) >= 5 for phrasings in PHRASINGS.values())
    every = [fold(phrasing) for phrasings in PHRASINGS.values() for phrasing in phrasings]
    assert len(set(every)) == len(every)
    assert all(phrasing.endswith("?") for phrasings in PHRASINGS.values() for phrasing in phrasings)


def test_the_phrasing_follows_from_seed_document_and_key_alone(
    receipts: Path, tmp_path: Path
) -> None:
    first = imported(receipts, tmp_path / "a")
    assert first.sha256 == imported(receipts, tmp_path / "b").sha256
    (receipts / "key" / "001.json").write_text(json.dumps({"date": "26/12/2018"}))
    assert imported(receipts, tmp_path / "c").document("000") == first.document("000")
    others = [
        imported(receipts, tmp_path / str(seed), seed).document("000").questions
        for seed in range(2, 6)
    ]
    assert any(questions != first.document("000").questions for questions in others)


def test_every_phrasing_is_somebodys_question() -> None:
    drawn = Counter(phrasings_for(f"{n}", "total", seed=3)[0] for n in range(600))
    assert set(drawn) == set(PHRASINGS["total"])
    # Binomial(600, 1/6): 100, standard deviation 9.1; five of them either way.
    assert all(54 < count < 146 for count in drawn.values())
