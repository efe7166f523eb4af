"""The contract of importers, on a small source of each format: values found, divisions, hostile files, faults."""

import os
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import docaudit
from hostile_sources import SOURCES
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.errors import ManifestError, UsageError
from audit.importers.named import NamedMembers
from audit.importers.registry import FORMATS
from audit.workflows.init import guess_format

ALL: dict[Split, float] = {"member": 1.0}
IMAGES = (".png", ".jpg")
CASES = tomllib.loads(Path(__file__).with_name("contract.toml").read_text())
PLANTED = CASES["planted"]
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


def convert(
    kind: str, src: Path, dst: Path, shares: dict[Split, float] = ALL, **more: Any
) -> tuple[Document, ...]:
    FORMATS[kind.split()[0]].convert(src, dst, shares, 1, **more)
    return manifests.load(dst).documents


def refused(kind: str, src: Path) -> str:
    """What the command prints on a source that it must refuse, without a traceback and leaving nothing."""
    before, start = sorted(src.parent.iterdir()), time.process_time()
    arguments = ["import", kind.split()[0], str(src), str(src.parent / "out")]
    result = docaudit(*arguments, terminal_width=1000)
    assert result.exit_code == 2, (result.output, result.exception)
    assert time.process_time() - start < 10
    assert sorted(src.parent.iterdir()) == before
    return result.output


def data_files(src: Path) -> list[Path]:
    return [path for path in sorted(src.rglob("*")) if path.is_file() and path.suffix not in IMAGES]


def test_planted_values_are_found_and_two_imports_are_equal(
    kind: str, src: Path, tmp_path: Path
) -> None:
    planted = PLANTED[kind]
    first, *_ = documents = convert(kind, src, tmp_path / "a")
    corpus = manifests.load(tmp_path / "a")
    assert (corpus.manifest.task.kind, corpus.manifest.name) == (planted["task"], kind.split()[0])
    assert [word.text for word in first.words] == planted["words"]
    assert [[one.label, first.text_of(one)] for one in first.entities] == planted["fields"]
    assert [[*one.answers] for one in first.questions] == planted["answers"]
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
            importer.convert(source, dst, shares, 1)
    with pytest.raises(
        (UsageError, ManifestError), match=r"cannot teach|nothing to learn the task|has links"
    ):
        importer.convert(
            src, tmp_path / "out", ALL, 1, task="spade-linking" if kind != "funsd" else "parsing"
        )
    for rule, takes in (("official", importer.parts), ("by-provider", importer.providers)):
        if not takes:
            with pytest.raises(UsageError, match=r"has one part only|names no providers"):
                importer.convert(src, tmp_path / "out", ALL, 1, rule)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def expand(text: str) -> str:
    return text.replace("$huge", "9" * 400).replace("$vast", "9" * 5_000)


@pytest.mark.parametrize("fault", CASES["faults"], ids=range(len(CASES["faults"])))
def test_a_fault_is_a_line_with_its_place(fault: dict[str, Any], tmp_path: Path) -> None:
    src = lay_out(fault["source"], tmp_path / "src")
    text = (src / fault["file"]).read_text()
    for old, new in fault.get("change", ()):
        assert old in text
        text = text.replace(old, expand(new))
    (src / fault["file"]).write_text(fault.get("whole", text))
    with pytest.raises((ManifestError, UsageError)) as caught:
        convert(fault["source"], src, tmp_path / "out")
    assert any(fault["problem"] in problem for problem in caught.value.problems), (
        caught.value.problems
    )
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "case", CASES["missing"], ids=lambda case: f"{case['source']} {case['file']}"
)
def test_a_source_without_one_of_its_files_is_refused(case: dict[str, str], tmp_path: Path) -> None:
    src = lay_out(case["source"], tmp_path / "src")
    (src / case["file"]).rename(tmp_path / "gone")
    assert case["problem"] in " ".join(refused(case["source"], src).split())


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
