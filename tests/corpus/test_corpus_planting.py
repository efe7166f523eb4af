"""`audit.corpus.canaries.insertion`: what is drawn, what is written, that it loads again, and what is refused."""

from __future__ import annotations

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
from audit.corpus.documents import Corpus, Entity, ReferencePaths, Task, Word
from audit.corpus.images import open_image
from audit.corpus.images import page_view as plain_sheet
from audit.corpus.summary import summarise
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
    return insert(corpus, out, **{"pattern": "pin", "count": 12, "repeat": 3, "length": 4, "seed": 0, **changes})


def loaded(out: Path) -> tuple[Corpus, CanarySet]:
    corpus = manifests.load(out)
    canaries = load_canaries(corpus)
    assert canaries is not None
    return corpus, canaries


def test_the_lines_of_canaries_are_nothing_that_an_owner_keeps_out_of_the_audit(tmp_path: Path) -> None:
    put_in(canaried.pages(tmp_path / "data"), tmp_path / "out")
    corpus, canaries = loaded(tmp_path / "out")
    lines = [corpus.document(name) for canary in canaries.canaries for name in canary.documents]
    kept_out = [entity for line in lines for entity in line.entities]
    assert kept_out
    assert not any(entity.attack for entity in kept_out)
    assert not withheld(corpus)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_new_data_set_holds_what_the_file_says_and_all_that_was_there(
    kind: str, pattern: str, tmp_path: Path
) -> None:
    before = MAKERS[kind](tmp_path / "data")
    report = put_in(before, tmp_path / "out", pattern=pattern, length=2)
    corpus, canaries = loaded(tmp_path / "out")
    assert canaries == report.canaries
    assert corpus.documents[: len(before.documents)] == before.documents
    added = corpus.documents[len(before.documents) :]
    assert {document.id for document in added} == {name for c in canaries.canaries for name in c.documents}
    assert len(added) == report.n_documents == 3 * report.n_included
    assert 0 < report.n_included < 12
    for canary in canaries.canaries:
        assert canary.included == (canary.copies == 3) == bool(canary.documents)
        assert set(canary.completion) <= set(PATTERNS[pattern].candidates)
        name = PATTERNS[pattern].name_in(canary.prefix)
        holding = {document.id for document in corpus.documents if name in tokens_of(document)}
        assert holding == set(canary.documents)
        for document_id in canary.documents:
            document = corpus.document(document_id)
            page = page_of(corpus, canary, canary.completion)
            assert document == replace(page, id=document_id, image=document.image)
            assert document.split == "member"


@pytest.mark.parametrize(
    ("kind", "names"), [("utterances", True), ("text", True), ("images", True), ("questions", False)]
)
def test_labels_of_taggers_gain_the_canaries_tags_at_the_end(kind: str, names: bool, tmp_path: Path) -> None:
    before = MAKERS[kind](tmp_path / "data")
    report = put_in(before, tmp_path / "out")
    after = manifests.load(tmp_path / "out").manifest
    added = ("B-canary", "I-canary") if names else ()
    assert after.task.labels == (*before.manifest.task.labels, *added)
    assert report.labels == added
    assert (after.task.kind, after.membership) == (before.manifest.task.kind, before.manifest.membership)


def test_fields_that_other_attacks_try_are_those_of_before(tmp_path: Path) -> None:
    before = canaried.pages(tmp_path / "data")
    put_in(before, tmp_path / "out")
    tried = [
        [(d.id, e.id) for d in corpus.documents for e in d.entities if e.attack]
        for corpus in (before, manifests.load(tmp_path / "out"))
    ]
    assert tried[0] == tried[1] != []


def test_an_inserted_page_shows_its_line_and_is_else_the_carriers(tmp_path: Path) -> None:
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
            assert np.array_equal(np.asarray(image_of(corpus, canary, canary.completion)), np.asarray(page))
    assert len({c.carrier for c in canaries.canaries}) == len(corpus.of("member")) - sum(
        c.copies for c in canaries.canaries
    )  # all six members carry before one carries twice


def test_other_questions_are_asked_on_their_own_pages_alone(tmp_path: Path) -> None:
    before = canaried.pages(tmp_path / "data", kind="question-answering")
    put_in(before, tmp_path / "out")
    corpus, canaries = loaded(tmp_path / "out")
    canary = next(canary for canary in canaries.canaries if canary.included)
    document = corpus.document(canary.documents[0])
    (question,) = document.questions
    assert question.answers == (" ".join(canary.completion),)
    assert plain_sheet(corpus, document).words == sheet_of(corpus, canary).words


def test_all_follows_from_the_seed_and_from_nothing_else(tmp_path: Path) -> None:
    corpus = canaried.pages(tmp_path / "data")
    once, again, other = (
        put_in(corpus, tmp_path / name, seed=seed).canaries for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert once == again
    assert manifests.load(tmp_path / "a").sha256 == manifests.load(tmp_path / "b").sha256
    assert [c.prefix for c in once.canaries] != [c.prefix for c in other.canaries]
    assert [c.included for c in once.canaries] != [c.included for c in other.canaries]


def test_coins_are_fair_and_independent_of_what_a_score_can_see(tmp_path: Path) -> None:
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


def test_the_number_of_coins_that_say_yes_is_binomial_and_no_exact_half(tmp_path: Path) -> None:
    corpus = canaried.utterances(tmp_path / "data")
    counts = [put_in(corpus, tmp_path / f"o{seed}", count=20, repeat=1, seed=seed).n_included for seed in range(60)]
    assert len(set(counts)) > 5
    assert abs(np.mean(counts) - 10) < 4 * np.sqrt(5 / 60)
    assert 2 < np.var(counts) < 9  # of the binomial: 5


def test_completions_of_two_canaries_may_be_the_same(tmp_path: Path) -> None:
    canaries = put_in(canaried.utterances(tmp_path / "data"), tmp_path / "out", count=64, length=1).canaries.canaries
    assert len({canary.completion for canary in canaries}) <= 10


def test_names_that_the_data_set_has_are_not_taken(tmp_path: Path) -> None:
    corpus = canaried.utterances(tmp_path / "data")
    taken = put_in(corpus, tmp_path / "first").canaries.canaries[0].prefix[2]
    first = replace(corpus.documents[0], words=(Word(taken.upper() + "!"), Word("ella")))
    manifests.write(tmp_path / "data", corpus.manifest, [first, *corpus.documents[1:]])
    again = put_in(manifests.load(tmp_path / "data"), tmp_path / "second").canaries
    assert taken not in {word for canary in again.canaries for word in canary.prefix}


def test_references_are_left_out_and_told(tmp_path: Path) -> None:
    corpus = canaried.utterances(tmp_path / "data")
    named = replace(corpus.manifest, references=ReferencePaths(pretrained="p", baselines=("b",)))
    report = put_in(replace(corpus, manifest=named), tmp_path / "out")
    assert report.references == ("pretrained", "baselines")
    assert manifests.load(tmp_path / "out").manifest.references == ReferencePaths()


def test_the_cap_is_what_all_right_guesses_of_half_would_show(tmp_path: Path) -> None:
    corpus = canaried.utterances(tmp_path / "data")
    assert put_in(corpus, tmp_path / "a", count=64).cap == pytest.approx(2.32, abs=0.005)
    # Clopper-Pearson: all of five right at 95 %
    assert put_in(corpus, tmp_path / "b", count=10).cap == pytest.approx(np.log(0.05**0.2 / (1 - 0.05**0.2)))
    assert put_in(corpus, tmp_path / "c", count=8).cap is None


def test_images_of_pages_that_are_full_are_passed_over(tmp_path: Path) -> None:
    corpus = canaried.pages(tmp_path / "data")
    for document in corpus.of("member")[1:]:
        assert document.image is not None
        noise = np.random.default_rng(0).integers(0, 256, (260, 200), np.uint8)
        Image.fromarray(noise).save(tmp_path / "data" / document.image)
    put_in(manifests.load(tmp_path / "data"), tmp_path / "out")
    _, canaries = loaded(tmp_path / "out")
    assert {canary.carrier for canary in canaries.canaries} == {corpus.of("member")[0].id}


def test_inspect_counts_canaries_and_says_what_they_mean_for_other_attacks(tmp_path: Path) -> None:
    report = put_in(canaried.pages(tmp_path / "data"), tmp_path / "out")
    summary = summarise(manifests.load(tmp_path / "out"))
    assert summary.canaries is not None
    assert (summary.canaries.canaries, summary.canaries.included) == (12, report.n_included)
    assert (summary.canaries.documents, summary.canaries.pages) == (report.n_documents, report.n_pages)
    assert any("put in with canaries" in warning for warning in summary.warnings)
    assert summarise(manifests.load(tmp_path / "data")).canaries is None


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
    manifests.write(folder, corpus.manifest, [*corpus.documents, replace(corpus.documents[0], id="c00000")])
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


def of_task(kind: str) -> Maker:
    def make(folder: Path) -> Corpus:
        corpus = canaried.pages(folder)
        return replace(corpus, manifest=replace(corpus.manifest, task=Task(kind)))  # type: ignore[arg-type]

    return make


def without_members(folder: Path) -> Corpus:
    corpus = canaried.pages(folder)
    return replace(corpus, documents=corpus.of("heldout"))


REFUSED: dict[str, tuple[Maker, dict[str, Any], type[DocauditError], str]] = {
    "no such pattern": (canaried.utterances, {"pattern": "iban"}, UsageError, "no such pattern"),
    "one canary": (canaried.utterances, {"count": 1}, UsageError, "count 1 is out of range: 2 to"),
    "no repeat": (canaried.utterances, {"repeat": 0}, UsageError, "repeat 0 is out of range: 1 to"),
    "no length": (canaried.utterances, {"length": 0}, UsageError, "length 0 is out of range: 1 to 10"),
    "long": (canaried.utterances, {"length": 11}, UsageError, "length 11 is out of range: 1 to 10"),
    "negative seed": (canaried.utterances, {"seed": -1}, UsageError, "must not be negative"),
    "a second time": (with_canaries, {}, ManifestError, "has canaries already"),
    "a document with a canary's id": (with_canary_id, {}, ManifestError, "has a document c00000 already"),
    "a label of canaries": (with_label, {}, ManifestError, "has canaries already: document t1"),
    "ids that are taken": (with_id, {}, ManifestError, "has a document canary-c0000"),
    "links": (of_task("spade-linking"), {}, ManifestError, "task.kind: the loss of spade-linking"),
    "spade": (of_task("spade-extraction"), {}, ManifestError, "task.kind: the loss of spade-extraction"),
    "no members": (without_members, {}, ManifestError, "no document of split member"),
    "full pages": (full_pages, {}, ManifestError, "no blank place on any member page"),
    "too long for a page": (canaried.pages, {"pattern": "color", "length": 10}, ManifestError, "no blank place"),
    "images without boxes": (without_boxes, {}, ManifestError, "no member document can carry a canary"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    maker, changes, kind, message = REFUSED[case]
    corpus = maker(tmp_path / "data")
    with pytest.raises(kind) as caught:
        put_in(corpus, tmp_path / "new", **changes)
    assert message in caught.value.problems[0]
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    corpus = canaried.utterances(tmp_path / "data")
    with pytest.raises(UsageError, match="is not empty"):
        put_in(corpus, tmp_path / "data")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is not a folder"):
        put_in(corpus, tmp_path / "file")


def test_what_breaks_down_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    corpus = canaried.utterances(tmp_path / "data")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left"):
        put_in(corpus, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


# What a canary file may get wrong: changes to its JSON, or to a document, and the message.
Change = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def _included(file: dict[str, Any]) -> dict[str, Any]:
    return next(canary for canary in file["canaries"] if canary["included"])


def _excluded(file: dict[str, Any]) -> dict[str, Any]:
    return next(canary for canary in file["canaries"] if not canary["included"])


def _holder(file: dict[str, Any], documents: list[dict[str, Any]]) -> dict[str, Any]:
    return next(document for document in documents if document["id"] == _included(file)["documents"][0])


def _on_canary(**changes: Any) -> Change:
    return lambda file, documents: _included(file).update(changes)


def _same_prefix(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    _excluded(file)["prefix"] = _included(file)["prefix"]


def _given_away(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    documents[0]["words"][0]["text"] = _excluded(file)["prefix"][2].upper()


def _asked_away(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    question = {"id": "q", "question": f"Who is {_excluded(file)['prefix'][2]}?", "answers": ["9"]}
    documents[0]["questions"] = [question]


def _another_completion(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    word = _holder(file, documents)["words"][-1]
    word["text"] = "0" if word["text"] != "0" else "1"


def _another_split(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    _holder(file, documents)["split"] = "heldout"


def _lost(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    documents.remove(_holder(file, documents))


def _shared(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    _included(file)["documents"][1] = _included(file)["documents"][0]


def _no_image(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    del _holder(file, documents)["image"]


def _twice(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    file["canaries"][1]["id"] = file["canaries"][0]["id"]


WRONG: dict[str, tuple[Change, str]] = {
    "pattern": (_on_canary(pattern="iban"), "pattern: unknown"),
    "candidates": (
        _on_canary(completion=["1", "2", "x", "4"]),
        "completion: a word is none of the pattern's candidates",
    ),
    "length": (_on_canary(completion=["1", "2"]), "completion: 2 words, and length is 4"),
    "prefix": (_on_canary(prefix=["my", "pin"]), "prefix: not of the pattern's form"),
    "name": (_on_canary(prefix=["pin", "of", "a b", "is"]), "prefix: the canary's own word is not of plain letters"),
    "coin": (_on_canary(included=False), "copies: 3, and included and repeat make it 0"),
    "copies": (_on_canary(copies=2), "copies: 2, and included and repeat make it 3"),
    "documents": (_on_canary(documents=[]), "documents: 0 named, and copies is 3"),
    "carrier": (_on_canary(carrier="nobody"), "carrier: no member document nobody"),
    "held-out carrier": (_on_canary(carrier="h0"), "carrier: no member document h0"),
    "half a place": (_on_canary(box=None), "carrier: give carrier and box, or neither"),
    "box": (_on_canary(box=[0, 0, 900, 10]), "box: not on the page of document"),
    "other box": (_on_canary(box=[0, 0, 90, 10]), "words of document"),
    "same prefix": (_same_prefix, "have the same prefix"),
    "id": (_on_canary(id="m0"), "id: document m0 has it"),
    "twice": (_twice, "canaries: id c00000 occurs 2 times"),
    "given away": (_given_away, "documents that it does not name, one is m0"),
    "asked away": (_asked_away, "documents that it does not name, one is m0"),
    "completion": (_another_completion, "words of document"),
    "split": (_another_split, "split of document"),
    "lost": (_lost, "documents[0]: no document"),
    "shared": (_shared, "is named 2 times"),
    "image": (_no_image, "have not both an image"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    put_in(canaried.pages(folder / "data"), folder / "out")
    return folder / "out"


def changed(written: Path, folder: Path, change: Change) -> Path:
    """A copy, images by link, with this change."""
    folder.mkdir()
    for name in ("images", "canaries"):
        (folder / name).mkdir()
        for image in (written / name).iterdir():
            (folder / name / image.name).hardlink_to(image)
    file = json.loads((written / "canaries.json").read_text())
    documents = [json.loads(line) for line in (written / "documents.jsonl").read_text().splitlines()]
    change(file, documents)
    (folder / "manifest.toml").write_bytes((written / "manifest.toml").read_bytes())
    (folder / "canaries.json").write_text(json.dumps(file))
    (folder / "documents.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    return folder


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_does_not_fit_the_documents_is_refused_without_a_secret(
    case: str, written: Path, tmp_path: Path
) -> None:
    change, message = WRONG[case]
    folder = changed(written, tmp_path / "copy", change)
    with pytest.raises(ManifestError) as caught:
        manifests.load(folder)
    assert any(message in problem for problem in caught.value.problems), caught.value.problems
    canaries = json.loads((written / "canaries.json").read_text())["canaries"]
    said = " ".join(caught.value.problems)
    assert not any(canary["prefix"][2] in said for canary in canaries)


def test_every_problem_is_said_at_once(written: Path, tmp_path: Path) -> None:
    def both(file: dict[str, Any], documents: list[dict[str, Any]]) -> None:
        _another_completion(file, documents)
        _excluded(file)["pattern"] = "iban"
        documents[0]["split"] = "nowhere"

    with pytest.raises(ManifestError) as caught:
        manifests.load(changed(written, tmp_path / "copy", both))
    for message in ("documents.jsonl:1 split", "pattern: unknown", "words of document"):
        assert any(message in problem for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[canaries]\n", "manifest.toml canaries.file: missing"),
        ("[canaries]\nfile = 3\n", "manifest.toml canaries.file: Input should be a valid string"),
        ('[canaries]\nfile = "canaries.json"\nseed = 1\n', "manifest.toml canaries.seed: unknown key"),
        ('[canaries]\nfile = "other.json"\n', "manifest.toml canaries.file: other.json is missing"),
        ('[canaries]\nfile = "../canaries.json"\n', "manifest.toml canaries.file: the path leaves DATA_DIR"),
    ],
)
def test_the_manifests_table_names_one_file(table: str, problem: str, written: Path, tmp_path: Path) -> None:
    folder = changed(written, tmp_path / "copy", lambda file, documents: None)
    text = (folder / "manifest.toml").read_text()
    assert '[canaries]\nfile = "canaries.json"\n' in text
    (folder / "manifest.toml").write_text(text.replace('[canaries]\nfile = "canaries.json"\n', table))
    with pytest.raises(ManifestError) as caught:
        manifests.load(folder)
    assert any(said.startswith(problem) for said in caught.value.problems), caught.value.problems


def test_the_corpus_hash_covers_the_file_and_a_copy_of_its_files_is_the_same(written: Path, tmp_path: Path) -> None:
    before = manifests.load(written)
    seed = changed(written, tmp_path / "copy", lambda file, documents: file.update(seed=5))
    plain = changed(written, tmp_path / "plain", lambda file, documents: None)
    assert manifests.load(seed).sha256 != manifests.load(plain).sha256
    for name, path in manifests.files_of(before).items():
        copy = tmp_path / "same" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    assert manifests.load(tmp_path / "same").sha256 == before.sha256


def test_a_canary_file_that_is_not_utf8_is_refused(written: Path, tmp_path: Path) -> None:
    folder = changed(written, tmp_path / "copy", lambda file, documents: None)
    (folder / "canaries.json").write_bytes(b"{\xff}")
    with pytest.raises(ManifestError, match=r"canaries\.json not UTF-8 at byte 1"):
        manifests.load(folder)
