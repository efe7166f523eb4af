"""Hugging Face data sets on disk, written by the library itself: columns recognised, boxes scaled, splits, refusals."""

import json
import shutil
import sys
from typing import Any

import datasets
import pytest
from commands import docaudit
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options as SourceOptions

hf = FORMATS["hf"]
ALL: dict[Split, float] = {"member": 1.0}
TAGS = ["O", "B-TOTAL", "I-TOTAL", "B-DATE", "I-DATE"]


def page(number: int) -> Image.Image:
    return Image.new("RGB", (200, 400), (number % 256, 9, 9))


def tagged(count: int, first: int = 0) -> dict[str, list[Any]]:
    """FUNSD as people have it: words, boxes from 0 to 1000, numbers of tags, pictures."""
    return {
        "id": [str(number) for number in range(count)],
        "words": [
            ["TOTAL", "RM", f"9.{number:02}", "", "May"] for number in range(first, first + count)
        ],
        "bboxes": [
            [
                [0, 900, 100, 950],
                [110, 900, 150, 950],
                [500, 900, 750, 1000],
                [0, 0, 0, 0],
                [0, 0, 500, 10],
            ]
        ]
        * count,
        "ner_tags": [[0, 1, 2, 0, 3]] * count,
        "image": [page(number) for number in range(first, first + count)],
    }


def features(**more: Any) -> datasets.Features:
    text = datasets.Value("string")
    boxes = datasets.List(datasets.List(datasets.Value("int64")))
    tags = {
        "bboxes": boxes,
        "ner_tags": datasets.List(datasets.ClassLabel(names=TAGS)),
        "image": datasets.Image(),
    }
    return datasets.Features({"id": text, "words": datasets.List(text), **tags, **more})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    src = tmp_path_factory.mktemp("saved") / "forms"
    splits = {"train": tagged(4), "test": tagged(2, first=10)}
    made = {name: datasets.Dataset.from_dict(rows, features()) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(str(src))
    return src


def test_a_saved_data_set_of_tagged_words(saved, tmp_path):
    report = hf.convert(ImportRequest(saved, tmp_path / "out", ALL, 1))
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.task.kind, corpus.manifest.task.labels) == (
        "token-classification",
        tuple(TAGS),
    )
    document = corpus.document("train-1")
    assert document.size == (200, 400)
    assert [(word.text, word.box) for word in document.words][1:3] == [
        ("RM", (22, 360, 30, 380)),
        ("9.01", (100, 360, 150, 400)),
    ]
    assert [(one.label, document.text_of(one), one.category) for one in document.entities] == [
        ("TOTAL", "RM 9.01", "amount"),
        ("DATE", "May", "datetime"),
    ]
    assert (report.fields, report.located) == (
        {"DATE": 6, "TOTAL": 6},
        {"DATE": {"exact": 6}, "TOTAL": {"exact": 6}},
    )
    assert report.notes == {
        "boxes in thousandths of the page": 30,
        "words without text, left out": 6,
    }
    assert report.documents == {"member": 6, "heldout": 0, "public": 0, "left out": 0}
    assert not list(tmp_path.glob("*.tmp"))


def test_its_own_division(saved, tmp_path):
    hf.convert(
        ImportRequest(saved, tmp_path / "out", {"member": 1.0, "heldout": 1.0}, 1, "official")
    )
    corpus = manifests.load(tmp_path / "out")
    assert {document.id for document in corpus.of("heldout")} == {"test-0", "test-1"}
    assert len(corpus.of("member")) == len(corpus.documents) - 2 == 4
    assert corpus.manifest.membership.assigned == "official"


@pytest.mark.parametrize(
    "command", ["import hf SAVED OUT --official", "init SAVED --out OUT --task mlm"]
)
def test_all_documents_of_both_parts_are_taken(command, saved, tmp_path):
    words = command.replace("SAVED", str(saved)).replace("OUT", str(tmp_path / "out")).split()
    result = docaudit(*words, terminal_width=1000)
    assert result.exit_code == 0, result.output
    corpus = manifests.load(tmp_path / "out")
    assert [len(corpus.of(split)) for split in SPLITS] == [4, 2, 0]
    assert "4 training and 2 unseen documents. With under 150 of either" in result.output


def test_splits_are_no_single_side(saved, tmp_path):
    cases = {
        (saved, saved / "test"): f"import hf {saved / 'train'} DST --heldout-from {saved / 'test'}",
        (saved / "train", saved): f"{saved} --official",
        (saved.parent, saved / "test"): "count as trained on too",
    }
    for (src, heldout_from), said in cases.items():
        with pytest.raises(UsageError) as caught:
            hf.convert(
                ImportRequest(src, tmp_path / "out", {"heldout": 1.0}, 1, heldout_from=heldout_from)
            )
        assert said in " ".join(caught.value.lines)
        assert src == saved.parent or "the splits train and test" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_two_folders_are_trained_on_and_not(saved, tmp_path):
    arguments = [
        "import",
        "hf",
        str(saved / "train"),
        str(tmp_path / "out"),
        "--heldout-from",
        str(saved / "test"),
    ]
    result = docaudit(*arguments, terminal_width=1000)
    assert result.exit_code == 0, result.output
    corpus = manifests.load(tmp_path / "out")
    assert {document.id for document in corpus.of("member")} == {"0", "1", "2", "3"}
    assert {document.id for document in corpus.of("heldout", "public")} == {"2-0", "2-1"}
    assert len({document.image for document in corpus.documents}) == 6
    assert corpus.manifest.membership.assigned == "official"
    assert "invents membership" not in result.output


def test_parquet_files_with_questions(tmp_path):
    rows: dict[str, list[Any]] = {
        "questionId": [1, 2, 3],
        "question": ["What is the total?", "When?", "Where?"],
    }
    rows |= {
        "answers": [["9.00", " RM 9.00"], ["May"], ["Paris"]],
        "image": [page(1), page(1), page(2)],
    }
    rows["issuer"] = ["Shop", "Shop", "Bank"]
    (tmp_path / "src" / "data").mkdir(parents=True)
    text = datasets.Value("string")
    seen = {"image": datasets.Image()}
    asked = {
        "questionId": datasets.Value("int64"),
        "question": text,
        "answers": datasets.List(text),
    }
    shape = datasets.Features({**asked, **seen, "issuer": text})
    datasets.Dataset.from_dict(rows, shape).to_parquet(
        str(tmp_path / "src" / "data" / "train-00000-of-00001.parquet")
    )
    report = hf.convert(
        ImportRequest(
            tmp_path / "src", tmp_path / "out", ALL, 1, options=SourceOptions(provider="issuer")
        )
    )
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.task.kind == "question-answering"
    first, second = corpus.documents
    assert [(one.id, one.answers) for one in first.questions] == [
        ("1", ("9.00", "RM 9.00")),
        ("2", ("May",)),
    ]
    assert (len(second.questions), second.provider) == (1, "Bank")
    assert any("docaudit ocr" in sentence for sentence in report.warnings)
    assert report.not_located == {"ANSWER": {"no words on the page": 3}}


def test_questions_about_texts_as_squad_has_them(tmp_path):
    texts = ["Ann paid 9.00.", "Ann paid 9.00.", "Bob paid."]
    rows: dict[str, list[Any]] = {
        "id": ["a", "b", "c"],
        "context": texts,
        "question": ["Who?", *["How much?"] * 2],
    }
    found = ((["Ann"], [0]), (["9.00"], [9]), ([], []))
    rows["answers"] = [{"text": text, "answer_start": start} for text, start in found]
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "src"))
    report = hf.convert(
        ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, task="extractive-qa")
    )
    corpus = manifests.load(tmp_path / "out")
    assert {document.id: len(document.questions) for document in corpus.documents} == {
        "a": 2,
        "c": 0,
    }
    assert report.notes["questions without an answer, left out"] == 1
    assert report.located == {"ANSWER": {"exact": 1}}, "9.00 stands before a full stop"


def test_providers_from_folders_and_by_provider(tmp_path):
    src = tmp_path / "src"
    for number in range(12):
        folder = src / f"shop{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        page(number).save(folder / f"p{number}.png")
    rows = [
        {"file_name": f"shop{n % 4}/p{n}.png", "words": ["x", str(n)], "ner_tags": ["O", "B-A"]}
        for n in range(12)
    ]
    (src / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [
        "import",
        "hf",
        str(src),
        str(tmp_path / "out"),
        "--provider-column",
        "folder",
        "--by-provider",
    ]
    shares = ["--member", "0.5", "--heldout", "0.5", "--public", "0"]
    result = docaudit(*arguments, *shares, terminal_width=1000)
    assert result.exit_code == 0, result.output
    corpus = manifests.load(tmp_path / "out")
    assert {document.provider for document in corpus.documents} == {
        "shop0",
        "shop1",
        "shop2",
        "shop3",
    }
    assert "providers in: 2" in result.output


def test_a_saved_data_set_that_names_files_outside_it_is_refused(saved, tmp_path):
    shutil.copytree(saved / "train", tmp_path / "src")
    state = json.loads((tmp_path / "src" / "state.json").read_text())
    (tmp_path / "src" / next(iter(state["_data_files"]))["filename"]).rename(
        tmp_path / "private.arrow"
    )
    state["_data_files"] = [{"filename": "../private.arrow"}]
    (tmp_path / "src" / "state.json").write_text(json.dumps(state))
    with pytest.raises(
        ManifestError,
        match=r"state\.json: a path that the source names is refused: the path leaves",
    ):
        hf.convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
    (tmp_path / "src" / "dataset_dict.json").write_text('{"splits": ["../../x"]}')
    with pytest.raises(
        ManifestError,
        match=r"dataset_dict\.json: a path that the source names is refused: the path leaves",
    ):
        hf.convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))


@pytest.mark.parametrize("name", ["pyarrow", "pypdfium2"])
def test_a_library_that_is_missing_is_named(name, saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs" / "a.pdf").write_bytes(b"%PDF")
    form, src = ("hf", saved) if name == "pyarrow" else ("pdf", tmp_path / "pdfs")
    with pytest.raises(UsageError, match=f"needs the library {name}") as caught:
        FORMATS[form].convert(ImportRequest(src, tmp_path / "out", ALL, 1))
    assert (
        caught.value.hint == f"pip install 'docaudit[{'datasets' if name == 'pyarrow' else 'pdf'}]'"
    )


def test_values_nested_too_deeply_are_refused(tmp_path):
    page(1).save(tmp_path / "a.png")
    row = {
        "file_name": "a.png",
        "ground_truth": '{"gt_parse": ' + "[" * 100_000 + "]" * 100_000 + "}",
    }
    (tmp_path / "metadata.jsonl").write_text(json.dumps(row))
    with pytest.raises(ManifestError, match="nested too deeply"):
        hf.convert(ImportRequest(tmp_path, tmp_path / "out", ALL, 1))


def test_conversations_of_two_parquet_files_share_one_prompt(tmp_path):
    for name, shop in (("train", "ACME"), ("test", "Bob")):
        asked = [f"Read this.\n\n{shop}\nTotal {name}{n}.50\n\nWhat is due?" for n in range(4)]
        turns = [
            [{"role": "user", "content": one}, {"role": "assistant", "content": "x"}]
            for one in asked
        ]
        datasets.Dataset.from_dict({"messages": turns}).to_parquet(tmp_path / f"{name}.parquet")
    hf.convert(
        ImportRequest(
            tmp_path / "train.parquet",
            tmp_path / "out",
            {"heldout": 1.0},
            1,
            heldout_from=tmp_path / "test.parquet",
        )
    )
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.recipe.prompt == "Read this.\n\n{text}\n\n{question}"
    assert [one.words[0].text for one in (*corpus.of("member")[:1], *corpus.of("heldout")[:1])] == [
        "ACME",
        "Bob",
    ]
