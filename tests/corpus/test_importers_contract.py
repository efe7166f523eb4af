"""The contract of importers, on a small source of each format: values found, divisions, hostile files, faults."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_sources import SOURCES
from PIL import Image
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.errors import ManifestError, UsageError
from audit.importers.named import NamedMembers
from audit.importers.registry import FORMATS, guess_format

ALL: dict[Split, float] = {"member": 1.0}
IMAGES = (".png", ".jpg")
PLANTED: dict[str, tuple[str, list[str], list[tuple[str, str]], list[tuple[str, ...]]]] = {
    "sroie": ("token-classification", ["RED", "SHOP", "RM", "9.00"], [("COMPANY", "RED SHOP"), ("TOTAL", "9.00")], []),
    "funsd": (
        "token-classification",
        ["Total", "9.00", "Total", "9.00"],
        [("QUESTION", "Total 9.00"), ("ANSWER", "Total 9.00")],
        [],
    ),
    "docvqa": ("question-answering", ["TOTAL", "9.00"], [], [("9.00",)]),
    "pfl-docvqa": ("question-answering", ["TOTAL", "9.00"], [], [("9.00",)]),
    "tab": (
        "token-classification",
        ["Mr", "Ann", "Lee", "wrote", "in", "1999", "."],
        [("PERSON", "Ann Lee"), ("DATETIME", "1999")],
        [],
    ),
    "snips": ("intent-slots", ["rate", "it", "0"], [], []),
    "forms": ("token-classification", ["Total", "9.00"], [("invoice_total", "Total 9.00")], []),
    "hf": ("mlm", ["Total", "9.00"], [], []),
    "hf parquet": ("question-answering", [], [], [("9.00",)]),
    "hf saved": ("token-classification", ["Total", "9.00"], [("A", "9.00")], []),
    "chat": ("question-answering", [], [], [("9.00",)]),
    "label-studio": ("token-classification", ["9.00"], [("TOTAL", "9.00")], []),
    "coco": ("token-classification", ["Total", "9.00"], [("total", "9.00")], []),
    "csv": ("token-classification", ["Total", "9.00"], [("total", "9.00")], []),
    "pdf": ("mlm", ["Total", "p0", "9.00"], [], []),
    **dict.fromkeys(("hocr", "alto", "doctr", "textract"), ("mlm", ["Total", "9.00"], [], [])),
}
PLANTED |= {"tab official": PLANTED["tab"], "alto": ("mlm", ["Total"], [], [])}
"""By source: the task, and the words, fields and answers of the first document."""


@pytest.fixture(params=SOURCES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def src(kind: str, tmp_path: Path) -> Path:
    return lay_out(kind, tmp_path / "src")


def lay_out(kind: str, folder: Path) -> Path:
    folder.mkdir()
    SOURCES[kind](folder)
    return folder


def convert(kind: str, src: Path, dst: Path, shares: dict[Split, float] = ALL, **more: Any) -> tuple[Document, ...]:
    FORMATS[kind.split()[0]].convert(src, dst, shares, 1, **more)
    return manifests.load(dst).documents


def refused(kind: str, src: Path) -> str:
    """What the command prints on a source that it must refuse, without a traceback and leaving nothing."""
    before = sorted(src.parent.iterdir())
    start = time.process_time()
    arguments = ["import", kind.split()[0], str(src), str(src.parent / "out")]
    result = CliRunner().invoke(app, arguments, terminal_width=1000)
    assert result.exit_code == 2, (result.output, result.exception)
    assert time.process_time() - start < 10
    assert sorted(src.parent.iterdir()) == before
    return result.output


def data_files(src: Path) -> list[Path]:
    return [path for path in sorted(src.rglob("*")) if path.is_file() and path.suffix not in IMAGES]


def test_planted_values_are_found_and_two_imports_are_equal(kind: str, src: Path, tmp_path: Path) -> None:
    task, words, fields, answers = PLANTED[kind]
    first, *_ = documents = convert(kind, src, tmp_path / "a")
    corpus = manifests.load(tmp_path / "a")
    assert (corpus.manifest.task.kind, corpus.manifest.name) == (task, kind.split()[0])
    assert [word.text for word in first.words] == words
    assert [(one.label, first.text_of(one)) for one in first.entities] == fields
    assert [one.answers for one in first.questions] == answers
    assert all(word.box is not None for word in first.words if first.image)
    convert(kind, src, tmp_path / "b")
    drawn = {"membership"}
    assert manifests.load(tmp_path / "b").documents == documents
    one, two = (vars(manifests.load(tmp_path / name).manifest) for name in "ab")
    assert {key: one[key] for key in one.keys() - drawn} == {key: two[key] for key in two.keys() - drawn}


def test_members_may_be_named_and_a_second_folder_was_never_trained_on(kind: str, src: Path, tmp_path: Path) -> None:
    names = [document.id for document in convert(kind, src, tmp_path / "all")]
    given = convert(kind, src, tmp_path / "named", {"heldout": 1.0}, division=NamedMembers((names[0],)))
    assert {document.id for document in given if document.split == "member"} == {names[0]}
    other = lay_out(kind, tmp_path / "other")
    two = convert(kind, src, tmp_path / "two", {"heldout": 1.0}, heldout_from=other)
    assert {document.id for document in two if document.split == "member"} == {*names}
    assert not [document for document in two if document.split == "heldout"], "equal pages are no controls"


def test_every_format_but_images_alone_is_recognised(kind: str, src: Path) -> None:
    assert guess_format(src) in (kind.split()[0], {"forms": None}.get(kind))


def test_a_link_out_of_the_source_is_refused(kind: str, src: Path, tmp_path: Path) -> None:
    path = data_files(src)[0]
    (tmp_path / "outside").mkdir()
    private = tmp_path / "outside" / path.name
    path.rename(private)
    path.symlink_to(private)
    assert "symbolic link" in refused(kind, src)


def test_a_page_that_exif_turns_is_refused(kind: str, src: Path) -> None:
    images = [path for path in sorted(src.rglob("*")) if path.suffix in IMAGES]
    if not images or kind in ("hf parquet", "hf saved"):
        pytest.skip("no image of its own")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (60, 40)).save(images[0], exif=exif)
    assert "EXIF orientation 6 turns the page for some readers" in refused(kind, src)
    images[0].write_bytes(b"no image")
    assert "not readable as an image (PNG, JPEG, TIFF, WEBP)" in refused(kind, src)


def test_files_that_are_broken_or_too_large_are_refused(kind: str, src: Path) -> None:
    for path in data_files(src):
        whole = path.read_bytes()
        path.write_bytes(b"{\x00\xff")
        assert refused(kind, src), path
        if path.suffix not in (".pdf", ".parquet", ".arrow"):
            os.truncate(path, 5 << 30)  # takes no place on the disk
            assert "MiB, the most that is read of such a file" in refused(kind, src), path
            deep = b"[" * 100_000
            path.write_bytes(deep)
            assert refused(kind, src), path
        path.write_bytes(whole)


def test_what_cannot_be_done_is_refused(kind: str, src: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    (tmp_path / "empty").mkdir()
    importer = FORMATS[kind.split()[0]]
    cases: list[tuple[Path, Path, dict[Split, float], str]] = [
        (src, tmp_path / "full", ALL, "is not empty"),
        (src, tmp_path / "full" / "mine.txt", ALL, "is not a folder"),
        (src, tmp_path / "out", {"member": 1.0, "public": 0.5}, r"sum to 1\.5"),
        (tmp_path / "empty", tmp_path / "out", ALL, "hold|has no folder"),
    ]
    for source, dst, shares, message in cases:
        with pytest.raises(UsageError, match=message):
            importer.convert(source, dst, shares, 1)
    with pytest.raises(UsageError, match=r"cannot teach the task|nothing to learn the task"):
        importer.convert(src, tmp_path / "out", ALL, 1, task="spade-linking" if kind != "funsd" else "parsing")
    for rule, takes in (("official", importer.parts), ("by-provider", importer.providers)):
        if not takes:
            with pytest.raises(UsageError, match=r"has one part only|names no providers"):
                importer.convert(src, tmp_path / "out", ALL, 1, rule)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def change(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


def whole(content: str) -> Callable[[str], str]:
    return lambda _: content


HUGE = "9" * 400
FAULTS: list[tuple[str, str, Callable[[str], str], str]] = [
    ("sroie", "key/p0.json", whole("{"), "p0: p0.json is not JSON"),
    ("sroie", "key/p0.json", whole("[]"), "p0: p0.json is not an object with the keys company"),
    ("sroie", "key/p0.json", whole('{"total": 9.0}'), "p0: p0.json total: must be a text"),
    ("sroie", "box/p1.csv", whole("1,2,3,RED\n"), "p1: p1.csv:1 is not x1,y1,...,TEXT with 8 numbers"),
    ("funsd", "annotations/p0.json", change('"question"', '"title"'), "p0: p0.json form[0].label: Input should be"),
    ("docvqa", "train_v1.0_withQT.json", whole("[]"), "train_v1.0_withQT.json must be a table or object"),
    ("docvqa", "train_v1.0_withQT.json", change('["9.00"]', "[]"), "withQT.json question 0: no answer"),
    ("docvqa", "train_v1.0_withQT.json", change("What is the total?", " "), "question 0: the question is empty"),
    ("docvqa", "train_v1.0_withQT.json", change('"answers"', '"ans"'), "data[0].answers: missing"),
    ("docvqa", "train_v1.0_withQT.json", change('p0.png"', '../p9.png"'), "p9: the image is missing"),
    ("docvqa", "spdocvqa_ocr/p0.json", whole("{"), "p0: OCR: not JSON"),
    ("docvqa", "spdocvqa_ocr/p0.json", whole('{"recognitionResults": []}'), "p0: OCR: 0 pages for one image"),
    ("docvqa", "spdocvqa_ocr/p0.json", change('"width": 60', '"width": 20'), "read from a page of 20 x 40, but the"),
    ("docvqa", "spdocvqa_ocr/p0.json", change('"width": 60', '"width": NaN'), "has no width or height"),
    ("pfl-docvqa", "blue_train.json", change("0.1, 0.1, 0.3", "0.1, 0.1, 1.3"), "not shares of the page between 0 and"),
    ("pfl-docvqa", "blue_train.json", change("[0.1, 0.1, 0.3, 0.2], ", ""), "2 OCR tokens, but 1 boxes"),
    ("pfl-docvqa", "blue_train.json", change('"answers": "9.00"', '"answers": [1]'), "blue_train.json[1] answers[0]: "),
    ("tab", "mentions.json", change("3, 10", "3, 99"), "001 mention 0: 3 to 99 are no characters of a text of 25"),
    ("tab", "mentions.json", change("3, 10", "5, 5"), "001 mention 0: 5 to 5 are no characters"),
    ("tab", "mentions.json", change("3, 10", "2, 3"), "001 mention 0: 2 to 3 is white space"),
    ("tab", "mentions.json", change('"PERSON"', '"secret"'), "mentions.json 001[0][2]: Input should be 'PERSON'"),
    ("tab", "mentions.json", change('"002"', '"004"'), "texts.json: 004 is missing, but has mentions"),
    ("tab", "mentions.json", whole('{"001": [], "002": [], "003": []}'), "mentions.json: no mention in any text"),
    ("tab", "texts.json", change('"Nobody."', '" "'), "003 text: empty"),
    ("tab official", "echr_train.json", whole("{}"), "echr_train.json Input should be a valid list"),
    (
        "tab official",
        "echr_train.json",
        change('"start_offset": 3', '"start_offset": 99'),
        "mention 0: 99 to 10 are no",
    ),
    ("tab official", "echr_train.json", change('"PERSON"', '"ALIEN"'), "001-train[0][2]: Input should be 'PERSON'"),
    ("tab official", "echr_train.json", change('"001-train"', '"001-dev"'), "001-dev: another text or part than in an"),
    ("snips", "train/label", whole("RateBook\n"), "train: numbers of lines differ: seq.in 3, seq.out 3, label 1"),
    ("snips", "test/seq.out", change("O O", "O X"), "test/seq.out:1: a tag is none of O, B-..., I-..."),
    ("forms", "labels/p0.json", whole("[1]"), "p0.png: p0.json is neither a list of items nor an object"),
    ("forms", "labels/p0.json", whole("{"), "p0.png: p0.json is not JSON"),
    ("forms", "labels/p0.json", change('"text": "Total", ', ""), "not a word: items[0].words[0] (no 'text')"),
    ("forms", "labels/p0.json", change("2, 2, 20, 10", "9, 9"), "items[0].words[0]: a box has 2 numbers, and 4 or 8"),
    ("forms", "labels/p0.json", change("2, 2, 20, 10", f"{HUGE}, 2, 20, 10"), "an integer of 400 digits"),
    ("hf", "metadata.jsonl", change("p0.png", "../p0.png"), "metadata.jsonl:1: ../p0.png: the path leaves the source"),
    ("hf", "metadata.jsonl", change("p0.png", "p9.png"), "metadata.jsonl:1: p9.png: the file is missing"),
    ("hf", "metadata.jsonl", change('["Total", "9.00"]', '"x"'), "words: not a list of words"),
    ("hf", "metadata.jsonl", change("[2, 2, 400, 99], ", ""), "bboxes: 1 for 2 words"),
    ("hf", "metadata.jsonl", change("2, 2, 400, 99", "9, 1, 2, 3"), "p0: a box's corners are out of order"),
    ("hf", "metadata.jsonl", change('"words"', '"ner_tags": [0], "words"'), "ner_tags: 1 for 2 words"),
    (
        "hf",
        "metadata.jsonl",
        change('"words"', '"ner_tags": [0, 3], "words"'),
        "0 is none of 0 names of labels: give th",
    ),
    ("hf", "metadata.jsonl", change('"words"', '"question": " ", "answers": ["x"], "words"'), "the question is empty"),
    ("hf", "metadata.jsonl", change("2, 2, 400, 99", f"{HUGE}, 1, 2, 3"), "an integer of 400 digits"),
    ("chat", "train.jsonl", whole("[1]\n"), "train.jsonl:1: not an object"),
    ("chat", "train.jsonl", change('"conversations"', '"talk"'), "train.jsonl:1: no list of turns: none of messages"),
    ("chat", "train.jsonl", change("images/p0", "../p0"), "../p0.png: the path leaves the source through '..'"),
    ("chat", "train.jsonl", change("images/p0", "images/p9"), "images/p9.png: the file is missing"),
    ("chat", "train.jsonl", change('"human"', '"oracle"'), "turn 0: its role is none of system"),
    ("chat", "train.jsonl", change('"9.00"', "5"), "turn 1: its content is neither a text nor a list of parts"),
    ("chat", "train.jsonl", change("images/p0.png", "data:image/png;base64,@@"), "an image is no valid base64"),
    ("chat", "train.jsonl", change("images/p0.png", "data:x;base64,aGFsbG8="), "not readable as an image"),
    ("label-studio", "export.json", change('"data"', '"x"'), 'export.json[0]: not a task: it has no "data"'),
    ("label-studio", "export.json", change("images/p0", "../../etc/p0"), "the path leaves the source through '..'"),
    ("label-studio", "export.json", change("images/p0", "images/none"), "images/none.png: the file is missing"),
    ("label-studio", "export.json", change('"value"', '"v"'), "export.json[0]: result 0: no value"),
    ("label-studio", "export.json", change('"x": 2.0', '"x": "a"'), "not result 0: a region of numbers"),
    ("label-studio", "export.json", change('"x": 2.0', f'"x": {HUGE}'), "an integer of 400 digits"),
    ("label-studio", "export.json", change('"x": 2.0', '"x": 90.0'), "p0: a box is outside the page"),
    ("label-studio", "export.json", change('["TOTAL"]', '[["A"]]'), "labels, choices and transcriptions are lists of "),
    (
        "label-studio",
        "export.json",
        change('"text": ["9.00"]', '"text": {"a": 1}'),
        "transcriptions are lists of texts",
    ),
    ("coco", "all.json", change('"p0.png"', '"z.png"'), "all.json: image 0: z.png: the file is missing"),
    ("coco", "all.json", change('"width": 60', '"width": 0'), "has no width or height"),
    ("coco", "all.json", change('"image_id": 0', '"image_id": 7'), "annotations.0: no image has its image_id"),
    ("coco", "all.json", change('"category_id": 3', '"category_id": 9'), "no category its category_id"),
    ("csv", "values.csv", change("file,key", "x,key"), "values.csv: no column file, file_name"),
    ("csv", "values.csv", change("p0.png", "z.png"), "values.csv:2: z.png: the file is missing"),
    ("csv", "values.csv", change("p0.png", "z.pdf"), "values.csv:2: z.pdf: the file is missing"),
    ("csv", "values.csv", change("p0.png", "../p0.png"), "values.csv:2: ../p0.png: the path leaves the source"),
    ("csv", "values.csv", change("train,Shop", "train,Shop,2"), "values.csv:2: more cells than columns"),
    ("csv", "values.csv", change("p0.png", ""), "values.csv:2: no file is named"),
    ("csv", "p0.tsv", change("1\t1\t0", "2\t1\t0"), "p0.tsv: line:3: a word before the first page"),
    ("pdf", "p0.pdf", whole("%PDF-1.4 nothing"), "p0.pdf: not readable as a PDF"),
    ("hocr", "p0.hocr", whole("<html>"), "p0.hocr: no element of class ocr_page: not hOCR"),
    ("hocr", "p0.hocr", change("bbox 2 2 22 10", "box"), "p0.hocr: line 1: no bbox in the title"),
    (
        "hocr",
        "p0.hocr",
        change("bbox 0 0 60 40", "bbox 0 0 40 60"),
        "read from a page of 40 x 60, but the image has 60",
    ),
    ("hocr", "p0.hocr", change("9.00", f"&#{'9' * 5_000};"), "a reference to a character that there is not"),
    ("alto", "p0.xml", whole("<alto"), "p0.xml: not XML at line 1"),
    ("alto", "p0.xml", whole('<!DOCTYPE a [<!ENTITY x "y">]><alto/>'), "it declares a document type or entities"),
    ("alto", "p0.xml", change('HPOS="2"', 'HPOS="x"'), "p0.xml: String s0: one of HPOS, VPOS, WIDTH, HEIGHT is no"),
    ("doctr", "p0.json", whole("{"), "p0.json: not JSON"),
    ("doctr", "p0.json", whole('{"pages": []}'), "p0.json: 0 pages for one image"),
    ("doctr", "p0.json", change('"blocks"', '"x"'), "p0.json: not docTR's export (no 'blocks')"),
    (
        "textract",
        "p0.json",
        lambda text: change('"LINE"', '"KEY_VALUE_SET", "EntityTypes": ["KEY"]')(change('"w2"]', '"z"]')(text)),
        "p0.json: not Amazon Textract's response (no 'z')",
    ),
    ("textract", "p0.json", change('"Left": 0.5', '"L": 0.5'), "p0.json: not Amazon Textract's response (no 'Left')"),
]


@pytest.mark.parametrize(("kind", "name", "edit", "problem"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_a_line_with_its_place(
    kind: str, name: str, edit: Callable[[str], str], problem: str, tmp_path: Path
) -> None:
    src = lay_out(kind, tmp_path / "src")
    (src / name).write_text(edit((src / name).read_text()))
    with pytest.raises((ManifestError, UsageError)) as caught:
        convert(kind, src, tmp_path / "out")
    assert any(problem in found for found in caught.value.problems), caught.value.problems
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "out").exists()


MISSING: list[tuple[str, str, str]] = [
    ("sroie", "img/p1.jpg", "p1"),
    ("sroie", "box/p1.csv", "p1"),
    ("sroie", "key/p1.json", "p1"),
    ("funsd", "images/p1.png", "images/p1"),
    ("funsd", "annotations/p1.json", "annotations/p1"),
    ("docvqa", "spdocvqa_images/p1.png", "p1: the image is missing"),
    ("docvqa", "spdocvqa_ocr/p1.json", "p1: the OCR result is missing"),
    ("docvqa", "spdocvqa_ocr", "has no folder spdocvqa_ocr/, ocr_results/"),
    ("pfl-docvqa", "images/p1.jpg", "p1: the image is missing"),
    ("pfl-docvqa", "blue_train.json", "holds no records as .json or .jsonl"),
    ("tab", "mentions.json", "holds no mentions.json"),
    ("snips", "train", "has no folder train/"),
    ("snips", "train/seq.out", "train/seq.out: missing"),
    ("forms", "labels/p1.json", "p1.png: neither a .json nor a .txt has its name"),
    ("forms", "p1.png", "p1.json: its image is missing"),
    ("hf", "p1.png", "p1.png: the file is missing"),
    *(
        (kind, f"p1.{suffix}", "p1.png: its word file is missing")
        for kind, suffix in (("hocr", "hocr"), ("alto", "xml"))
    ),
    *((kind, "p1.json", "p1.png: its word file is missing") for kind in ("doctr", "textract")),
]


@pytest.mark.parametrize(("kind", "name", "problem"), MISSING, ids=[f"{kind} {name}" for kind, name, _ in MISSING])
def test_a_source_without_one_of_its_files_is_refused(kind: str, name: str, problem: str, tmp_path: Path) -> None:
    src = lay_out(kind, tmp_path / "src")
    (src / name).rename(tmp_path / "gone")
    assert problem in " ".join(refused(kind, src).split())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("docvqa", ["val_v1.0_withQT.json"]),
        ("pfl-docvqa", []),
        ("snips", ["test"]),
        ("tab official", ["echr_dev.json", "echr_test.json"]),
    ],
)
def test_one_part_is_no_official_division(kind: str, names: list[str], tmp_path: Path) -> None:
    src = lay_out(kind, tmp_path / "src")
    for name in names:
        (src / name).rename(tmp_path / name)
    with pytest.raises(UsageError, match="has one part only"):
        convert(kind, src, tmp_path / "out", {"member": 1.0, "heldout": 1.0}, division="official")
    assert not (tmp_path / "out").exists()


def test_problems_are_listed_together_and_the_rest_is_counted(tmp_path: Path) -> None:
    src = lay_out("tab", tmp_path / "src")
    (src / "mentions.json").write_text(str({f"{number}": [] for number in range(80)}).replace("'", '"'))
    with pytest.raises(ManifestError) as caught:
        convert("tab", src, tmp_path / "out")
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1] == "... and 84 more problems"
