"""`audit.corpus.manifest`: what is read is what was written, and everything wrong is said at once, with its place."""

import copy
import hashlib
import json
import os
import string
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PIL import Image

from audit.corpus import documents as docs
from audit.corpus import manifest as manifests
from audit.errors import EngineError, ManifestError

LayOut = Callable[..., Path]
Table = dict[str, Any]


def problems(folder: Path) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        manifests.load(folder)
    return caught.value.problems


def test_a_sound_data_set_is_read(lay_out, settings, receipt):
    receipt["words"][2]["box"] = [25, 50, 102, 201]  # two pixels over the edge
    receipt["questions"][0]["answers"] = ["word " * 400, "not on the page"]
    corpus = manifests.load(lay_out(settings, receipt, b"", b"  "))
    assert len(corpus.documents) == 1
    document = corpus.document("r1")
    assert document.text_of(document.entities[0]) == "RM 9.00"
    assert ([entity.attack for entity in document.entities], document.links) == (
        [True, False],
        (("e1", "e2"),),
    )
    assert document.words[0].box == (5.0, 5.0, 60.0, 20.0)
    assert corpus.manifest.task.labels == ("O", "B-TOTAL", "I-TOTAL", "B-NAME")


def _set(path: str, value: Any) -> Callable[[Table, Table], None]:
    """Sets settings.X or receipt.X, where X is keys and indices joined by dots.

    The value "(removed)" removes it.
    """

    def change(settings: Table, receipt: Table) -> None:
        place: Any = {"settings": settings, "receipt": receipt}
        *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
        for key in keys:
            place = place[key]
        if value == "(removed)":
            del place[last]
        else:
            place[last] = value

    return change


FAULTS = json.loads(
    Path(__file__)
    .with_name("manifest_faults.json")
    .read_text()
    .replace("(5,001 digits)", "9" * 5001)
)
"""By the kind of the task: what is changed, its value, and the problem that is named."""
FAULTS["token-classification"] += [
    [
        "receipt.words.0.box",
        [5, 5, float("nan"), 20],
        "documents.jsonl:1 words[0].box: corners out of order",
    ],
    [
        "receipt.words.0.box",
        [5, 5, float("inf"), 20],
        "documents.jsonl:1 words[0].box: outside the page",
    ],
]
LABELS = {
    "token-classification": ["O", "B-TOTAL", "I-TOTAL", "B-NAME"],
    "spade-extraction": ["O", "TOTAL", "NAME"],
}


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        pytest.param(kind, *row, id=f"{kind} {row[0]}={row[1]!r}"[:60])
        for kind, rows in FAULTS.items()
        for row in rows
    ],
)
def test_each_problem_is_named_with_its_place(
    kind, path, value, expected, lay_out, settings, receipt
):
    settings["task"] = {"kind": kind, "labels": LABELS.get(kind, [])}
    _set(path, value)(settings, receipt)
    found = problems(lay_out(settings, receipt))
    assert any(expected in problem for problem in found), found
    assert all(problem.isprintable() for problem in found)


def test_a_question_answering_data_set_needs_questions_on_pages(lay_out, settings, receipt):
    settings["task"] = {"kind": "question-answering"}
    settings["recipe"] = {"prompt": "Question: {question}\nAnswer:", "system": "Read.\nBe short."}
    corpus = manifests.load(lay_out(settings, receipt))
    assert corpus.manifest.recipe.prompt == "Question: {question}\nAnswer:"
    assert corpus.manifest.recipe.system == "Read.\nBe short."
    questions = receipt.pop("questions")
    other = {"id": "r2", "split": "heldout", "questions": questions[:1]}
    del other["questions"][0]["entity"]
    assert problems(lay_out(settings, receipt, other)) == (
        "documents.jsonl:2 questions: asked on a page with neither words nor image",
        "documents.jsonl: no document of split member has questions, and task.kind is question-answering",
    )
    settings["task"] = {"kind": "mlm"}
    manifests.load(lay_out(settings, receipt, other))


def test_a_data_set_for_classification_needs_the_class_of_every_page(lay_out, settings, receipt):
    settings["task"] = {"kind": "document-classification", "labels": ["invoice", "letter"]}
    place = "documents.jsonl:1"
    assert problems(lay_out(settings, receipt)) == (
        f"{place} label: missing, and task.kind is document-classification",
    )
    receipt["label"] = "memo"
    assert problems(lay_out(settings, receipt)) == (
        f"{place} label: memo not among task.labels of the manifest",
    )
    receipt["label"] = "invoice"
    (document,) = manifests.load(lay_out(settings, receipt)).documents
    assert document.label == "invoice"


def test_the_output_of_a_parsing_model_may_have_lines_but_no_other_control_characters(
    lay_out, settings, receipt
):
    settings["task"] = {"kind": "parsing"}
    receipt["questions"] = [{"id": "t", "question": "total", "answers": ["9.00"]}]
    receipt["output"] = '{\n\t"total": "9.00"\n}'
    (document,) = manifests.load(lay_out(settings, receipt)).documents
    assert document.output == receipt["output"]
    receipt["output"] = "total\x00"
    (problem,) = problems(lay_out(settings, receipt))
    assert problem.endswith("output: holds a control character or half a surrogate pair")


@pytest.mark.parametrize("orientation", [2, 3, 6])
def test_an_exif_orientation_is_refused_unless_the_size_tells_which_page_is_meant(
    orientation, lay_out, settings, receipt
):
    exif = Image.Exif()
    exif[0x0112] = orientation
    receipt["image"] = "images/photograph.jpg"
    folder = lay_out(settings, receipt)
    Image.new("L", (100, 200), 255).save(folder / "images" / "photograph.jpg", exif=exif)
    refusal = (
        f"documents.jsonl:1 image: EXIF orientation {orientation} turns the page for some readers"
    )
    if orientation == 6:  # turned, it would be 200 wide: the size is that of the stored page
        manifests.load(folder)
        receipt["size"] = [200, 100]
        folder = lay_out(settings, receipt)
    (problem,) = problems(folder)
    assert problem.startswith(refusal)
    for word in receipt["words"]:
        del word["box"]
    del receipt["size"]
    assert problems(lay_out(settings, receipt))[0].startswith(refusal)
    Image.new("L", (100, 200), 255).save(folder / "images" / "photograph.jpg", exif=Image.Exif())
    manifests.load(folder)


def test_a_spade_data_set_need_not_name_its_classes(lay_out, settings, receipt):
    settings["task"] = {"kind": "spade-extraction"}
    receipt["links"] = [["e1", "e1"]]  # extraction reads no link
    assert manifests.load(lay_out(settings, receipt)).manifest.task.labels == ()


def test_files_that_cannot_be_parsed(lay_out, settings, receipt, tmp_path):
    assert problems(tmp_path / "nowhere") == (f"{tmp_path / 'nowhere'}: no such folder",)
    (tmp_path / "empty").mkdir()
    assert problems(tmp_path / "empty") == (f"manifest.toml is missing in {tmp_path / 'empty'}",)
    (tmp_path / "empty" / "manifest.toml").mkdir()
    assert problems(tmp_path / "empty") == ("manifest.toml: not a regular file",)
    assert problems(lay_out(b"schema = ", receipt))[0].startswith(
        "manifest.toml: broken TOML: Invalid value"
    )
    assert problems(lay_out(b"a = " + b"[" * 5000, receipt))[0].startswith(
        "manifest.toml: broken TOML"
    )
    assert problems(lay_out("name = 'Käse'".encode("latin-1"), receipt)) == (
        "manifest.toml: not UTF-8 at byte 9",
    )
    assert (
        "documents.jsonl:2 Invalid JSON"
        in problems(lay_out(settings, receipt, b'{"id": "r2", '))[0]
    )
    assert "must be a table or object" in problems(lay_out(settings, receipt, b'["r2"]'))[0]
    not_text = "documents.jsonl:2 not UTF-8 (byte 0xff at column"
    for line, encoding in (
        (b'{"id": "\xff"}', "WINDOWS-1252"),
        ("\ufeff{}".encode("utf-16-le"), "UTF-16"),
    ):
        (problem,) = problems(lay_out(settings, receipt, line))
        assert problem.startswith(not_text)
        assert problem.endswith(f"iconv -f {encoding} -t UTF-8 documents.jsonl > utf8.jsonl")
    manifests.load(lay_out(settings, b"\xef\xbb\xbf" + json.dumps(receipt).encode()))


def test_problems_of_every_part_are_reported_together(lay_out, settings, receipt):
    settings["colour"] = "red"
    second = copy.deepcopy(receipt)
    second["entities"][0]["words"] = [7]
    second["links"] = [["e1", "e8"]]
    found = problems(lay_out(settings, receipt, b"{", second))
    lines = [2, 3, 3, 3]
    assert [problem.split()[0] for problem in found] == [
        "manifest.toml",
        *(f"documents.jsonl:{n}" for n in lines),
    ]
    assert "id: in line 1 already (r1)" in found[2]


def test_problems_of_one_kind_are_one_line_with_their_count_and_three_places(
    lay_out, settings, receipt
):
    receipt["entities"][0]["words"] = list(range(3, 123))
    others = [
        {**copy.deepcopy(receipt), "id": f"r{number}", "image": f"images/r{number}.png"}
        for number in range(2, 9)
    ]
    assert problems(lay_out(settings, receipt, *others)) == (
        "documents.jsonl:1 entities[0].words: index 3 of 3 words"
        " (960 times, also documents.jsonl:2 and documents.jsonl:3)",
    )
    many = {**receipt, **{f"key{'x' * number}": 1 for number in range(40)}}
    found = problems(lay_out(settings, many))
    assert found[29] == f"documents.jsonl:1 key{'x' * 29}: unknown key"
    assert found[30] == "documents.jsonl:1 and other problems (11 times, also documents.jsonl)"


def test_no_message_holds_the_text_of_a_word(lay_out, settings, receipt):
    receipt["words"] = [
        {"text": f"secret{i}\x07", "box": [9, 9, 1, 1], "confidence": "secret"} for i in range(3)
    ]
    receipt["entities"][0]["words"] = [5]
    assert not any("secret" in problem for problem in problems(lay_out(settings, receipt)))
    for word in receipt["words"]:
        del word["confidence"]
    assert not any("secret" in problem for problem in problems(lay_out(settings, receipt)))


@pytest.mark.parametrize("link", ["images/r1.png", "documents.jsonl", "manifest.toml"])
def test_a_symbolic_link_out_of_the_folder_is_refused(link, lay_out, settings, receipt, tmp_path):
    folder = lay_out(settings, receipt)
    outside = tmp_path / "outside"
    (folder / link).rename(outside)
    (folder / link).symlink_to(outside)
    assert any("leaves DATA_DIR through a symbolic link" in problem for problem in problems(folder))


def test_symbolic_links_inside_the_folder_are_followed(lay_out, settings, receipt):
    folder = lay_out(settings, receipt)
    (folder / "images" / "r1.png").rename(folder / "page.png")
    (folder / "images" / "r1.png").symlink_to(folder / "page.png")
    manifests.load(folder)
    (folder / "page.png").unlink()
    (folder / "page.png").symlink_to(folder / "images" / "r1.png")
    assert any("documents.jsonl:1 image:" in problem for problem in problems(folder))
    (folder / "images" / "r1.png").unlink()
    os.mkfifo(folder / "images" / "r1.png")  # to open it would wait
    assert any("not a regular file" in problem for problem in problems(folder))


def test_the_hash_covers_manifest_documents_and_images_in_order(lay_out, settings, receipt):
    folder = lay_out(settings, receipt)
    parts = [folder / "manifest.toml", folder / "documents.jsonl", folder / "images" / "r1.png"]
    seen = {manifests.load(folder).sha256}
    digests = b"".join(hashlib.sha256(part.read_bytes()).digest() for part in parts)
    assert seen == {hashlib.sha256(digests).hexdigest()}
    for part, addition in zip(parts, (b"# note\n", b"\n", b"trailing"), strict=True):
        part.write_bytes(part.read_bytes() + addition)
        seen.add(manifests.load(folder).sha256)
    assert len(seen) == 4


def test_bio_labels_are_not_asked_for_by_other_tasks(lay_out, settings, receipt):
    settings["task"] = {"kind": "mlm"}
    receipt["entities"][1]["words"] = [2]  # shares a word with e1: no tagger is trained on it
    manifests.load(lay_out(settings, receipt))


# Writing

texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8).filter(
    str.strip
)
names = st.text(string.ascii_letters + string.digits + "é ", min_size=1, max_size=6).filter(
    str.strip
)


@st.composite
def documents(draw: st.DrawFn, identifier: str) -> docs.Document:
    boxed = draw(st.booleans())
    side = st.floats(0, 500).map(lambda x: round(x, 1))
    box = st.tuples(side, side, side, side).map(
        lambda b: (*map(min, b[:2], b[2:]), *map(max, b[:2], b[2:]))
    )
    box = box.filter(lambda b: max(b) > 1)  # smaller ones are refused as shares of the page
    words = tuple(
        docs.Word(text, draw(box) if boxed else None)
        for text in draw(st.lists(texts, min_size=1, max_size=5))
    )
    entity = st.builds(
        docs.Entity,
        id=names,
        label=texts,
        category=st.sampled_from(docs.CATEGORIES),
        words=st.lists(st.integers(0, len(words) - 1), min_size=1, unique=True).map(tuple),
        attack=st.booleans(),
        person=st.none() | texts,
    )
    entities = tuple(draw(st.lists(entity, max_size=3, unique_by=lambda e: e.id)))
    ids = [e.id for e in entities]
    question = st.builds(
        docs.Question,
        id=names,
        question=texts,
        answers=st.lists(texts, min_size=1, max_size=2).map(tuple),
        entity=st.sampled_from([None, *ids]),
    )
    return docs.Document(
        id=identifier,
        split="member" if identifier == "d0" else draw(st.sampled_from(docs.SPLITS)),
        words=words,
        size=(500, 500) if boxed else draw(st.sampled_from([None, (3, 4)])),
        provider=draw(st.none() | texts),
        entities=entities,
        links=tuple(draw(st.lists(st.tuples(*[st.sampled_from(ids)] * 2), max_size=2)))
        if ids
        else (),
        questions=tuple(draw(st.lists(question, max_size=2, unique_by=lambda q: q.id))),
        tags=draw(st.none() | st.just(("O",) * len(words))),
        intent=draw(st.none() | texts),
        label=draw(st.none() | texts),
        output=draw(st.none() | texts),
        person=draw(st.none() | texts),
    )


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[docs.Manifest, tuple[docs.Document, ...]]:
    path = st.sampled_from(["references/a", "b"])
    manifest = docs.Manifest(
        schema=1,
        name=draw(texts),
        task=docs.Task("mlm", draw(st.sampled_from([(), ("O", "B-X")]))),
        membership=docs.Membership(draw(st.sampled_from(["random", "official"]))),
        documents=draw(st.sampled_from(["documents.jsonl", "sub/pages.jsonl"])),
        references=draw(
            st.builds(
                docs.ReferencePaths, st.none() | path, st.none() | path, st.lists(path).map(tuple)
            )
        ),
        recipe=draw(
            st.builds(
                docs.TrainingRecipe,
                label_all_tokens=st.booleans(),
                checkpoint_chosen_on=st.sampled_from([None, *docs.SPLITS]),
                prompt=st.none() | texts.map(lambda text: text.replace("{", "") + "\n{question}"),
                epochs=st.none() | st.integers(1, 400),
                learning_rate=st.none() | st.floats(1e-7, 1.0),
                window=st.sampled_from([None, "first", "sliding"]),
            )
        ),
    )
    return manifest, tuple(draw(documents(f"d{i}")) for i in range(draw(st.integers(1, 3))))


@hypothesis_settings(max_examples=60, deadline=None)
@given(data_sets())
def test_what_is_written_is_read_again(data_set):
    manifest, written = data_set
    with tempfile.TemporaryDirectory() as folder:
        manifests.write(Path(folder), manifest, written)
        corpus = manifests.load(Path(folder))
        assert (corpus.manifest, corpus.documents) == (manifest, written)
        assert not list(Path(folder).rglob("*.tmp"))


def test_written_files_leave_defaults_out(tmp_path):
    manifest = docs.Manifest(1, "x", docs.Task("mlm"), docs.Membership("random"))
    word = docs.Word("Käse", (1.0, 2.0, 3.5, 4.0))
    document = docs.Document(
        "a", "member", (word,), size=(9, 9), entities=(docs.Entity("e", "L", "misc", (0,)),)
    )
    manifests.write(tmp_path / "new", manifest, [document])
    assert tomllib.loads((tmp_path / "new" / "manifest.toml").read_text()) == {
        "schema": 1,
        "name": "x",
        "task": {"kind": "mlm"},
        "membership": {"assigned": "random"},
    }
    line = (tmp_path / "new" / "documents.jsonl").read_text(encoding="utf-8")
    assert "Käse" in line
    entity = {"id": "e", "label": "L", "category": "misc", "words": [0]}
    said = {
        "id": "a",
        "split": "member",
        "words": [{"text": "Käse", "box": [1, 2, 3.5, 4]}],
        "size": [9, 9],
    }
    assert json.loads(line) == said | {"entities": [entity]}


def test_a_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    manifest = docs.Manifest(1, "x", docs.Task("mlm"), docs.Membership("random"))
    manifests.write(tmp_path, manifest, [docs.Document("a", "member")])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left on device"):
        manifests.write(tmp_path, manifest, [docs.Document("b", "member")])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_documents_are_not_written_outside_the_folder(tmp_path):
    manifest = docs.Manifest(
        1, "x", docs.Task("mlm"), docs.Membership("random"), documents="../documents.jsonl"
    )
    with pytest.raises(ManifestError, match=r"leaves DATA_DIR"):
        manifests.write(tmp_path / "data", manifest, [])
    assert not (tmp_path / "documents.jsonl").exists()
