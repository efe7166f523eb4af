"""`audit.corpus.canaries.insertion`: what is drawn, what is written, that it loads again, and what is refused."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import canaried
import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from audit.attacks.fields import withheld
from audit.corpus import manifest as manifests
from audit.corpus.canaries.insertion import InsertReport, insert
from audit.corpus.canaries.pages import image_of, page_of, sheet_of
from audit.corpus.canaries.schema import PATTERNS, CanarySet, load_canaries
from audit.corpus.canaries.validation import tokens_of
from audit.corpus.documents import Corpus, Entity, Task, Word
from audit.corpus.images import open_image
from audit.corpus.images import page_view as plain_sheet
from audit.errors import DocauditError, EngineError, ManifestError, UsageError

Maker = Callable[[Path], Corpus]
MAKERS: dict[str, Maker] = {
    "utterances": canaried.utterances,
    "text": canaried.texts,
    "boxes": lambda folder: canaried.pages(folder, images=False),
    "images": canaried.pages,
    "questions": lambda folder: canaried.pages(folder, kind="question-answering"),
    "masks": lambda folder: canaried.pages(folder, kind="mlm"),
}


def put_in(corpus: Corpus, out: Path, **changes: Any) -> InsertReport:
    return insert(
        corpus,
        out,
        **{"pattern": "pin", "count": 12, "repeat": 3, "length": 4, "seed": 0, **changes},
    )


def loaded(out: Path) -> tuple[Corpus, CanarySet]:
    corpus = manifests.load(out)
    canaries = load_canaries(corpus)
    assert canaries is not None
    return corpus, canaries


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [*((kind, "pin") for kind in MAKERS), *(("boxes", pattern) for pattern in PATTERNS)],
)
def test_the_new_data_set_holds_what_the_file_says_and_all_that_was_there(kind, pattern, tmp_path):
    before = MAKERS[kind](tmp_path / "data")
    report = put_in(before, tmp_path / "out", pattern=pattern, length=2)
    corpus, canaries = loaded(tmp_path / "out")
    assert (canaries, corpus.documents[: len(before.documents)]) == (
        report.canaries,
        before.documents,
    )
    added = corpus.documents[len(before.documents) :]
    assert {document.id for document in added} == {
        name for c in canaries.canaries for name in c.documents
    }
    assert len(added) == report.counts.documents == 3 * report.counts.included
    assert 0 < report.counts.included < 12
    for canary in canaries.canaries:
        assert canary.included == (canary.copies == 3) == bool(canary.documents)
        assert set(canary.completion) <= set(PATTERNS[pattern].candidates)
        name = PATTERNS[pattern].name_in(canary.prefix)
        holding = {document.id for document in corpus.documents if name in tokens_of(document)}
        assert holding == set(canary.documents)
        for document_id in canary.documents:
            document = corpus.document(document_id)
            page = page_of(corpus, canary, canary.completion)
            assert (document, document.split) == (
                replace(page, id=document_id, image=document.image),
                "member",
            )


@pytest.mark.parametrize(
    ("kind", "names"),
    [("utterances", True), ("text", True), ("images", True), ("questions", False)],
)
def test_labels_of_taggers_gain_the_canaries_tags_at_the_end(kind, names, tmp_path):
    before = MAKERS[kind](tmp_path / "data")
    report = put_in(before, tmp_path / "out")
    after = manifests.load(tmp_path / "out").manifest
    added = ("B-canary", "I-canary") if names else ()
    assert (after.task.labels, report.labels) == ((*before.manifest.task.labels, *added), added)
    assert (after.task.kind, after.membership) == (
        before.manifest.task.kind,
        before.manifest.membership,
    )


def test_fields_that_other_attacks_try_are_those_of_before(tmp_path):
    before = canaried.pages(tmp_path / "data")
    put_in(before, tmp_path / "out")
    tried = [
        [(d.id, e.id) for d in corpus.documents for e in d.entities if e.attack]
        for corpus in (before, manifests.load(tmp_path / "out"))
    ]
    assert tried[0] == tried[1] != []
    corpus, canaries = loaded(tmp_path / "out")
    lines = [corpus.document(name) for canary in canaries.canaries for name in canary.documents]
    assert not any(entity.attack for line in lines for entity in line.entities)
    assert not withheld(corpus)


def test_an_inserted_page_shows_its_line_and_is_else_the_carriers(tmp_path):
    put_in(canaried.pages(tmp_path / "data"), tmp_path / "out", count=16)
    corpus, canaries = loaded(tmp_path / "out")
    for canary in canaries.canaries:
        assert canary.carrier is not None
        assert canary.box is not None
        x0, y0, x1, y1 = map(int, canary.box)
        before = np.asarray(open_image(corpus, corpus.document(canary.carrier)))
        for document_id in canary.documents:
            page = open_image(corpus, corpus.document(document_id))
            changed = (np.asarray(page) != before).any(axis=2)
            assert changed[y0:y1, x0:x1].sum() == changed.sum() > 0
            assert np.array_equal(
                np.asarray(image_of(corpus, canary, canary.completion)), np.asarray(page)
            )
    assert len({c.carrier for c in canaries.canaries}) == len(corpus.of("member")) - sum(
        c.copies for c in canaries.canaries
    )  # all six members carry before one carries twice


def test_other_questions_are_asked_on_their_own_pages_alone(tmp_path):
    before = canaried.pages(tmp_path / "data", kind="question-answering")
    put_in(before, tmp_path / "out")
    corpus, canaries = loaded(tmp_path / "out")
    canary = next(canary for canary in canaries.canaries if canary.included)
    document = corpus.document(canary.documents[0])
    (question,) = document.questions
    assert question.answers == (" ".join(canary.completion),)
    assert plain_sheet(corpus, document).words == sheet_of(corpus, canary).words


def test_all_follows_from_the_seed_and_from_nothing_else(tmp_path):
    corpus = canaried.pages(tmp_path / "data")
    once, again, other = (
        put_in(corpus, tmp_path / name, seed=seed).canaries
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert (once, manifests.load(tmp_path / "a").sha256) == (
        again,
        manifests.load(tmp_path / "b").sha256,
    )
    assert [c.prefix for c in once.canaries] != [c.prefix for c in other.canaries]
    assert [c.included for c in once.canaries] != [c.included for c in other.canaries]


def test_coins_are_fair_and_independent_of_what_a_score_can_see(tmp_path):
    """One seed in each run, as an owner has it: coins of many canaries, and against their completions and names."""
    corpus = canaried.utterances(tmp_path / "data")
    canaries = put_in(corpus, tmp_path / "out", count=4000, repeat=1).canaries.canaries
    coins = np.array([canary.included for canary in canaries])
    assert binomtest(int(coins.sum()), coins.size).pvalue > 1e-3
    runs = int(np.sum(coins[1:] == coins[:-1]))
    assert binomtest(runs, coins.size - 1).pvalue > 1e-3
    first = np.array([int(canary.completion[0]) for canary in canaries])
    name = np.array([ord(canary.prefix[2][0]) for canary in canaries])
    for seen in (first >= 5, name % 2 == 0):
        assert binomtest(int(np.sum(coins[seen])), int(seen.sum())).pvalue > 1e-3
    assert abs(np.corrcoef(first, coins)[0, 1]) < 0.06
    assert len({canary.prefix for canary in canaries}) == 4000
    drawn = [
        put_in(corpus, tmp_path / f"o{seed}", count=20, repeat=1, seed=seed).counts.included
        for seed in range(20)
    ]
    assert len({*drawn}) > 3  # binomial, and no exact half


def test_names_that_the_data_set_has_are_not_taken(tmp_path):
    corpus = canaried.utterances(tmp_path / "data")
    taken = put_in(corpus, tmp_path / "first").canaries.canaries[0].prefix[2]
    first = replace(corpus.documents[0], words=(Word(taken.upper() + "!"), Word("ella")))
    manifests.write(tmp_path / "data", corpus.manifest, [first, *corpus.documents[1:]])
    again = put_in(manifests.load(tmp_path / "data"), tmp_path / "second").canaries
    assert taken not in {word for canary in again.canaries for word in canary.prefix}


def test_the_cap_is_what_all_right_guesses_of_half_would_show(tmp_path):
    corpus = canaried.utterances(tmp_path / "data")
    assert put_in(corpus, tmp_path / "a", count=64).cap == pytest.approx(2.32, abs=0.005)
    # Clopper-Pearson: all of five right at 95 %
    assert put_in(corpus, tmp_path / "b", count=10).cap == pytest.approx(
        np.log(0.05**0.2 / (1 - 0.05**0.2))
    )
    assert put_in(corpus, tmp_path / "c", count=8).cap is None


def test_images_of_pages_that_are_full_are_passed_over(tmp_path):
    corpus = canaried.pages(tmp_path / "data")
    for document in corpus.of("member")[1:]:
        assert document.image is not None
        noise = np.random.default_rng(0).integers(0, 256, (260, 200), np.uint8)
        Image.fromarray(noise).save(tmp_path / "data" / document.image)
    put_in(manifests.load(tmp_path / "data"), tmp_path / "out")
    _, canaries = loaded(tmp_path / "out")
    assert {canary.carrier for canary in canaries.canaries} == {corpus.of("member")[0].id}


def full_pages(folder: Path) -> Corpus:
    corpus = canaried.pages(folder)
    for document in corpus.documents:
        assert document.image is not None
        noise = np.random.default_rng(0).integers(0, 256, (260, 200), np.uint8)
        Image.fromarray(noise).save(folder / document.image)
    return manifests.load(folder)


def without_boxes(folder: Path) -> Corpus:
    corpus = canaried.pages(folder)
    bare = [replace(d, words=tuple(Word(word.text) for word in d.words)) for d in corpus.documents]
    manifests.write(folder, corpus.manifest, bare)
    return manifests.load(folder)


def with_label(folder: Path) -> Corpus:
    corpus = canaried.texts(folder)
    marked = replace(corpus.documents[0], entities=(Entity("e1", "canary", "code", (3,)),))
    manifests.write(folder, replace(corpus.manifest, task=Task("token-classification")), [marked])
    return manifests.load(folder)


def with_canary_id(folder: Path) -> Corpus:
    corpus = canaried.utterances(folder)
    manifests.write(
        folder, corpus.manifest, [*corpus.documents, replace(corpus.documents[0], id="c00000")]
    )
    return manifests.load(folder)


def with_id(folder: Path) -> Corpus:
    corpus = canaried.utterances(folder)
    names = [f"canary-c{number:05}-00000" for number in range(12)]
    more = [replace(corpus.documents[0], id=name) for name in names]
    manifests.write(folder, corpus.manifest, [*corpus.documents, *more])
    return manifests.load(folder)


def with_canaries(folder: Path) -> Corpus:
    put_in(canaried.pages(folder / "data"), folder / "out")
    return manifests.load(folder / "out")


def linking(folder: Path) -> Corpus:
    corpus = canaried.pages(folder)
    return replace(corpus, manifest=replace(corpus.manifest, task=Task("spade-linking")))


def without_members(folder: Path) -> Corpus:
    corpus = canaried.pages(folder)
    return replace(corpus, documents=corpus.of("heldout"))


TAKEN = "canaries[0] id: empty, or the id of a document"
REFUSED: dict[str, tuple[Maker, dict[str, Any], type[DocauditError], str]] = {
    "no such pattern": (canaried.utterances, {"pattern": "iban"}, UsageError, "no such pattern"),
    "one canary": (canaried.utterances, {"count": 1}, UsageError, "count 1 is out of range: 2 to"),
    "negative seed": (canaried.utterances, {"seed": -1}, UsageError, "must not be negative"),
    "a second time": (with_canaries, {}, ManifestError, "has canaries already"),
    "a label of canaries": (with_label, {}, ManifestError, "has canaries already: document t1"),
    "a document with a canary's id": (with_canary_id, {}, ManifestError, TAKEN),
    "ids that are taken": (with_id, {}, ManifestError, "documents.jsonl:"),
    "links": (linking, {}, ManifestError, "task.kind: the loss of spade-linking"),
    "no members": (without_members, {}, ManifestError, "no document of split member"),
    "full pages": (full_pages, {}, ManifestError, "no blank place on any member page"),
    "too long for a page": (
        canaried.pages,
        {"pattern": "color", "length": 10},
        ManifestError,
        "no blank place",
    ),
    "images without boxes": (
        without_boxes,
        {},
        ManifestError,
        "no member document can carry a canary",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(case, tmp_path):
    maker, changes, kind, message = REFUSED[case]
    corpus = maker(tmp_path / "data")
    with pytest.raises(kind) as caught:
        put_in(corpus, tmp_path / "new", **changes)
    assert message in caught.value.problems[0]
    assert (caught.value.exit_code, [path.name for path in tmp_path.iterdir()]) == (2, ["data"])


def test_what_breaks_down_half_way_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    corpus = canaried.utterances(tmp_path / "data")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left"):
        put_in(corpus, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


CANARY = "canary"
CONTROL = "control"
HOLDER = "holder"
FIRST = "first"
"""An included canary, one that its coin left out, a document that holds the first, and the first
document."""
FAULTS = json.loads(Path(__file__).with_name("canary_faults.json").read_text())
"""Whose fields are changed, to what, and the problem that is named."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    put_in(canaried.pages(folder / "data"), folder / "out")
    return folder / "out"


def changed(written: Path, folder: Path, whom: str = "file", **changes: Any) -> Path:
    """A copy, images by link, with a change of the canary file, of one of its canaries, or of a document."""
    folder.mkdir()
    for name in ("images", "canaries"):
        (folder / name).mkdir()
        for image in (written / name).iterdir():
            (folder / name / image.name).hardlink_to(image)
    file = json.loads((written / "canaries.json").read_text())
    documents = [
        json.loads(line) for line in (written / "documents.jsonl").read_text().splitlines()
    ]
    included = next(canary for canary in file["canaries"] if canary["included"])
    control = next(canary for canary in file["canaries"] if not canary["included"])
    holder = next(document for document in documents if document["id"] == included["documents"][0])
    known = {"PREFIX": included["prefix"], "ID": included["id"]}
    for key, value in changes.items():
        value = known.get(value, value) if isinstance(value, str) else value
        if "SECRET" in (text := json.dumps(value)):
            value = json.loads(text.replace("SECRET", control["prefix"][2].upper()))
        {"file": file, CANARY: included, CONTROL: control, HOLDER: holder, FIRST: documents[0]}[
            whom
        ][key] = value
    (folder / "manifest.toml").write_bytes((written / "manifest.toml").read_bytes())
    (folder / "canaries.json").write_text(json.dumps(file))
    (folder / "documents.jsonl").write_text(
        "".join(json.dumps(document) + "\n" for document in documents)
    )
    return folder


@pytest.mark.parametrize(("whom", "change", "message"), FAULTS)
def test_a_file_that_does_not_fit_the_documents_is_refused_without_a_secret(
    whom, change, message, written, tmp_path
):
    with pytest.raises(ManifestError) as caught:
        manifests.load(changed(written, tmp_path / "copy", whom, **change))
    assert any(message in problem for problem in caught.value.problems), caught.value.problems
    canaries = json.loads((written / "canaries.json").read_text())["canaries"]
    said = " ".join(caught.value.problems)
    assert not any(canary["prefix"][2] in said for canary in canaries)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[canaries]\n", "manifest.toml canaries.file: missing"),
        ('[canaries]\nfile = "other.json"\n', "manifest.toml canaries.file: other.json is missing"),
        (
            '[canaries]\nfile = "../canaries.json"\n',
            "manifest.toml canaries.file: the path leaves DATA_DIR",
        ),
    ],
)
def test_the_manifests_table_names_one_file(table, problem, written, tmp_path):
    folder = changed(written, tmp_path / "copy")
    text = (folder / "manifest.toml").read_text()
    assert '[canaries]\nfile = "canaries.json"\n' in text
    (folder / "manifest.toml").write_text(
        text.replace('[canaries]\nfile = "canaries.json"\n', table)
    )
    with pytest.raises(ManifestError) as caught:
        manifests.load(folder)
    assert any(said.startswith(problem) for said in caught.value.problems), caught.value.problems


def test_the_corpus_hash_covers_the_file_and_a_copy_of_its_files_is_the_same(written, tmp_path):
    before = manifests.load(written)
    seed = changed(written, tmp_path / "copy", seed=5)
    plain = changed(written, tmp_path / "plain")
    assert manifests.load(seed).sha256 != manifests.load(plain).sha256
    for name in (
        manifests.FILE_NAME,
        before.manifest.documents,
        before.manifest.canaries.file,
        *before.hashes,
    ):
        copy = tmp_path / "same" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((written / name).read_bytes())
    assert manifests.load(tmp_path / "same").sha256 == before.sha256
