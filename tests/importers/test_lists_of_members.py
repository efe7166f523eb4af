"""Lists of members as programs and people write them: with marks, separators and scans."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import docaudit
from PIL import Image

from audit.corpus.manifest import load
from audit.errors import ManifestError, UsageError
from audit.importers.named import NamedMembers, find_named, read_names

IDS = ("a", "b", "sub-a", "ä")


def members_in(folder: Path, name: str, content: bytes) -> frozenset[str]:
    path = folder / name
    path.write_bytes(content)
    return find_named(read_names(path, "--members"), IDS, "--members")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("m.txt", b"\xef\xbb\xbfa.png\nb.png\n", id="mark of UTF-8"),
        pytest.param("m.txt", "a.png\nb.png\n".encode("utf-16"), id="mark of UTF-16"),
        pytest.param("m.csv", b"\xef\xbb\xbffile;n\na.png;1\nb.png;2\n", id="table of Excel"),
        pytest.param("m.csv", b"split\tfile\nx\ta.png\nx\tb.png\n", id="tabs in a .csv"),
        pytest.param("m.tsv", b"split,file\nx,a.png\nx,b.png\n", id="commas in a .tsv"),
        pytest.param("m.txt", b"file;split\na.png;x\nb.png;x\n", id="table in a .txt"),
        pytest.param("m.txt", b"a.png;b.png", id="semicolons"),
        pytest.param("m.txt", b"a.png; b.png;\n", id="semicolons and spaces"),
        pytest.param("m.csv", b"a.png;b.png\n", id="a row of names"),
        pytest.param("m.txt", b"a.png;\r\nb.png;\r\n", id="lines that end with semicolons"),
        pytest.param("m.txt", b"scans\\a.png\r\nC:\\Scans\\b.png\r\n", id="paths of Windows"),
        pytest.param("m.csv", b"file\nscans\\a.png\n\\\\host\\b.png\n", id="paths of a server"),
        pytest.param("m.txt", b"\"a.png\"\n'b.png'\n", id="quotes"),
        pytest.param("m.csv", b"datei\na.png\nb.png\n", id="a German head"),
        pytest.param("m.json", b'\xef\xbb\xbf["scans\\\\a.png", "b.png"]', id="JSON with a mark"),
    ],
)
def test_lists_name_the_same_documents(name: str, content: bytes, tmp_path: Path) -> None:
    assert members_in(tmp_path, name, content) == {"a", "b"}


def test_a_folder_in_a_path_of_windows_counts(tmp_path: Path) -> None:
    assert members_in(tmp_path, "m.txt", b"sub\\a.png\n") == {"sub-a"}


def test_a_name_may_hold_a_comma(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("Smith, A.png\n")
    assert read_names(tmp_path / "m.txt", "--members") == ("Smith, A.png",)


def test_a_table_without_a_known_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no column is called id, document"):
        members_in(tmp_path, "m.csv", b"nr;was\n1;a.png\n2;b.png\n")


PAGES = {"scan.tif": ["scan-1", "scan-2"], "x/bill.tif": ["bill-1", "bill-2"]}


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("scan.tif",), ("scan-1", "scan-2")),
        (("scan", "x\\bill.tif"), ("scan-1", "scan-2", "bill-1", "bill-2")),
        (("scan-2",), ("scan-2",)),
        (("other.png", "bill"), ("other.png", "bill-1", "bill-2")),
    ],
)
def test_the_name_of_a_document_is_that_of_its_pages(
    names: Sequence[str], ids: Sequence[str]
) -> None:
    named = NamedMembers(tuple(names), tuple(names)).with_pages(PAGES)
    assert named.names == ids
    assert named.heldout == ids


def test_a_name_of_two_documents_is_refused() -> None:
    pages = {"x/scan.tif": ["x-scan-1"], "y/scan.tif": ["y-scan-1"]}
    with pytest.raises(ManifestError, match="name 1 of the file is that of 2 documents"):
        NamedMembers(("scan.tif",)).with_pages(pages)
    assert NamedMembers(("y/scan.tif",)).with_pages(pages).names == ("y-scan-1",)


def scans(folder: Path, count: int) -> Path:
    """TIFFs of two pages, as scanners write them."""
    folder.mkdir()
    for number in range(count):
        first = Image.new("L", (40, 30), 20 * number)
        second = Image.new("L", (40, 30), 20 * number + 10)
        path = folder / f"scan{number}.tif"
        first.save(path, save_all=True, append_images=[second])
    return folder


def test_members_are_named_by_their_scans(tmp_path: Path) -> None:
    source = scans(tmp_path / "scans", 3)
    (tmp_path / "members.txt").write_bytes(b"\xef\xbb\xbfC:\\old\\scan0.tif;scan2.tif\r\n")
    out = tmp_path / "out"
    options = ("--members", tmp_path / "members.txt", "--task", "mlm")
    ran = docaudit("import", "pages", source, out, *options)
    assert ran.exit_code == 0, ran.output
    splits = {document.id: document.split for document in load(out).documents}
    assert splits == {
        "scan0-1": "member",
        "scan0-2": "member",
        "scan1-1": "heldout",
        "scan1-2": "heldout",
        "scan2-1": "member",
        "scan2-2": "member",
    }


def test_init_puts_pages_of_scans_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scans(tmp_path / "scans", 3)
    (tmp_path / "members.txt").write_text("scan0.tif\n")
    monkeypatch.chdir(tmp_path)
    ran = docaudit("init", source, "--yes", "--task", "mlm", "--members", "members.txt")
    assert ran.exit_code == 0, ran.output
    assert len(load(tmp_path / "scans-audit").documents) == 6
    assert not (source / "manifest.toml").exists()
