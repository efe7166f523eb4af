"""The contract of importers, on a small source of each format: values found, divisions, hostile files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hostile_sources import SOURCES
from PIL import Image
from small_sources import ALL, convert, lay_out, refused

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.divide import Rule
from audit.importers.named import NamedMembers
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.workflows.init import guess_format

IMAGES = (".png", ".jpg")


class First(NamedTuple):
    """What the first document of a source becomes.

    Attributes:
        task: kind of the data set's task.
        words: words of the page.
        fields: labels and texts of its fields.
        answers: accepted answers of each question.
    """

    task: str
    words: Sequence[str]
    fields: Sequence[tuple[str, str]] = ()
    answers: Sequence[tuple[str, ...]] = ()


PLANTED = {
    "sroie": First(
        "token-classification",
        words=["RED", "SHOP", "RM", "9.00"],
        fields=[("COMPANY", "RED SHOP"), ("TOTAL", "9.00")],
    ),
    "funsd": First(
        "token-classification",
        words=["Total", "9.00", "Total", "9.00"],
        fields=[("QUESTION", "Total 9.00"), ("ANSWER", "Total 9.00")],
    ),
    "docvqa": First("question-answering", words=["TOTAL", "9.00"], answers=[("9.00",)]),
    "docvqa without OCR": First("question-answering", words=[], answers=[("9.00",)]),
    "pfl-docvqa without OCR": First("question-answering", words=[], answers=[("9.00",)]),
    "pfl-docvqa": First("question-answering", words=["TOTAL", "9.00"], answers=[("9.00",)]),
    "tab": First(
        "token-classification",
        words=["Mr", "Ann", "Lee", "wrote", "in", "1999", "."],
        fields=[("PERSON", "Ann Lee"), ("DATETIME", "1999")],
    ),
    "snips": First("intent-slots", words=["rate", "it", "0"]),
    "pages": First("token-classification", words=["Total", "9.00"], fields=[("TOTAL", "9.00")]),
    "forms": First(
        "token-classification", words=["Total", "9.00"], fields=[("invoice_total", "Total 9.00")]
    ),
    "hf": First("mlm", words=["Total", "9.00"]),
    "hf parquet": First("question-answering", words=[], answers=[("9.00",)]),
    "hf saved": First("token-classification", words=["Total", "9.00"], fields=[("A", "9.00")]),
    "chat": First("question-answering", words=[], answers=[("9.00",)]),
    "hf of prompts": First(
        "question-answering", words=["Shop", "0", "Total", "9.00"], answers=[("9.00",)]
    ),
    "conll": First("token-classification", words=["Bob", "paid"], fields=[("PER", "Bob")]),
    "spans": First(
        "token-classification",
        words=["Ann", "Lee", ",", "Bern"],
        fields=[("PER", "Ann Lee"), ("LOC", "Bern")],
    ),
    "label-studio": First("token-classification", words=["9.00"], fields=[("TOTAL", "9.00")]),
    "coco": First("token-classification", words=["Total", "9.00"], fields=[("total", "9.00")]),
    "csv": First("token-classification", words=["Total", "9.00"], fields=[("total", "9.00")]),
    "csv columns": First(
        "token-classification", words=["Total", "9.00"], fields=[("total", "9.00")]
    ),
    "pdf": First("mlm", words=["Total", "p0", "9.00"]),
    "hocr": First("mlm", words=["Total", "9.00"]),
    "alto": First("mlm", words=["Total"]),
    "doctr": First("mlm", words=["Total", "9.00"]),
    "textract": First("mlm", words=["Total", "9.00"]),
    "tab official": First(
        "token-classification",
        words=["Mr", "Ann", "Lee", "wrote", "in", "1999", "."],
        fields=[("PERSON", "Ann Lee"), ("DATETIME", "1999")],
    ),
    "azure": First("mlm", words=["Total", "9.00"]),
    "azure read": First("mlm", words=["Total", "9.00"]),
    "document-ai": First("mlm", words=["Total", "9.00"]),
    "docling": First("mlm", words=["Total", "9.00"]),
    "paddleocr": First("mlm", words=["Total", "9.00"]),
    "paddleocr list": First("mlm", words=["Total", "9.00"]),
    "easyocr": First("mlm", words=["Total", "9.00"]),
    "page-xml": First("mlm", words=["Total", "9.00", "Thank", "you"]),
}


@pytest.fixture(params=SOURCES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def src(kind: str, tmp_path: Path) -> Path:
    return lay_out(kind, tmp_path / "src")


def data_files(src: Path) -> list[Path]:
    return [path for path in sorted(src.rglob("*")) if path.is_file() and path.suffix not in IMAGES]


def test_planted_values_are_found_and_two_imports_are_equal(
    kind: str, src: Path, tmp_path: Path
) -> None:
    planted = PLANTED[kind]
    first, *_ = documents = convert(kind, src, tmp_path / "a")
    corpus = manifests.load(tmp_path / "a")
    assert (corpus.manifest.task.kind, corpus.manifest.name) == (planted.task, kind.split()[0])
    assert [word.text for word in first.words] == planted.words
    assert [(entity.label, first.text_of(entity)) for entity in first.entities] == [*planted.fields]
    assert [question.answers for question in first.questions] == [*planted.answers]
    assert all(word.box is not None for word in first.words if first.image)
    convert(kind, src, tmp_path / "b")
    drawn = {"membership"}
    assert manifests.load(tmp_path / "b").documents == documents
    one, two = (vars(manifests.load(tmp_path / name).manifest) for name in "ab")
    assert {key: one[key] for key in one.keys() - drawn} == {
        key: two[key] for key in two.keys() - drawn
    }


def test_members_may_be_named_and_a_second_folder_was_never_trained_on(
    kind: str, src: Path, tmp_path: Path
) -> None:
    names = [document.id for document in convert(kind, src, tmp_path / "all")]
    given = convert(
        kind, src, tmp_path / "named", {"heldout": 1.0}, division=NamedMembers((names[0],))
    )
    assert {document.id for document in given if document.split == "member"} == {names[0]}
    two = convert(
        kind,
        src,
        tmp_path / "two",
        {"heldout": 1.0},
        heldout_from=lay_out(kind, tmp_path / "other"),
    )
    assert {document.id for document in two if document.split == "member"} == {*names}
    assert not [document for document in two if document.split == "heldout"], (
        "equal pages are no controls"
    )


def test_every_format_but_images_alone_is_recognised(kind: str, src: Path) -> None:
    assert guess_format(src) in (kind.split()[0], None if kind in ("forms", "pages") else "")


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
            importer.convert(ImportRequest(source, dst, shares, 1))
    with pytest.raises(
        (UsageError, ManifestError), match=r"cannot teach|nothing to learn the task|has links"
    ):
        importer.convert(
            ImportRequest(
                src,
                tmp_path / "out",
                ALL,
                1,
                task="spade-linking" if kind != "funsd" else "parsing",
            )
        )
    rules: dict[Rule, bool] = {"official": importer.parts, "by-provider": importer.providers}
    for rule, takes in rules.items():
        if not takes:
            with pytest.raises(UsageError, match=r"has one part only|names no providers"):
                importer.convert(ImportRequest(src, tmp_path / "out", ALL, 1, rule))
    assert not (tmp_path / "out").exists()


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


def test_problems_of_one_kind_are_one_line(tmp_path: Path) -> None:
    src = lay_out("tab", tmp_path / "src")
    (src / "mentions.json").write_text(
        str({f"{number}": [] for number in range(80)}).replace("'", '"')
    )
    with pytest.raises(ManifestError) as caught:
        convert("tab", src, tmp_path / "out")
    assert caught.value.problems == (
        "texts.json: a document of mentions.json is missing (81 times)",
        "mentions.json: a document of texts.json is missing (4 times)",
    )
