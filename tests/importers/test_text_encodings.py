"""Text files of sources in the encodings that editors and shells write."""

import codecs
from pathlib import Path

import pytest
from small_sources import convert, lay_out

from audit.importers.files import read_text
from audit.importers.named import read_names
from audit.workflows.init import guess_format, read_labels

TEXT = '{"name": "Zoë paid 12,50 €"}'
MARKED = {
    "utf-8 with a mark": codecs.BOM_UTF8 + TEXT.encode("utf-8"),
    "utf-16 of PowerShell": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16, big end first": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "utf-32": codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
    "utf-32, big end first": codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
}
UNMARKED = {
    "utf-8": TEXT.encode("utf-8"),
    "utf-16 without a mark": TEXT.encode("utf-16-le"),
    "windows-1252": TEXT.encode("cp1252"),
}


@pytest.mark.parametrize(
    "content", [*MARKED.values(), *UNMARKED.values()], ids=[*MARKED, *UNMARKED]
)
def test_a_text_file_is_read_in_the_encoding_that_its_beginning_says(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert read_text(tmp_path / "a.json") == TEXT


def test_bytes_of_no_encoding_are_latin_1(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 \x81 x")
    assert read_text(tmp_path / "a.txt") == "café   x"


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("paddleocr", "p0.json"),
        ("csv", "values.csv"),
        ("conll", "eng.train"),
        ("spans", "train.jsonl"),
        ("hocr", "p0.hocr"),
        ("tab", "texts.json"),
        ("snips", "train/seq.in"),
        ("sroie", "key/p0.json"),
        ("sroie", "box/p0.csv"),
        ("hf", "metadata.jsonl"),
        ("pfl-docvqa", "blue_train.json"),
    ],
    ids=lambda value: value,
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_an_import_of_utf_16_is_that_of_utf_8(
    kind: str, file: str, encoding: str, tmp_path: Path
) -> None:
    src = lay_out(kind, tmp_path / "src")
    documents = convert(kind, src, tmp_path / "of utf-8")
    text = (src / file).read_text(encoding="utf-8")
    (src / file).write_text(text, encoding=encoding)
    assert convert(kind, src, tmp_path / "of another") == documents


def test_a_format_is_recognised_in_utf_16(tmp_path: Path) -> None:
    src = lay_out("paddleocr", tmp_path / "src")
    for path in src.glob("*.json"):
        path.write_text(path.read_text(), encoding="utf-16")
    assert guess_format(src) == "paddleocr"


def test_names_and_labels_are_read_in_utf_16(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("Zoë-1\nZoë-2\n", encoding="utf-16")
    assert read_names(tmp_path / "names", "--members") == ("Zoë-1", "Zoë-2")
    assert read_labels(str(tmp_path / "names")) == ("Zoë-1", "Zoë-2")
