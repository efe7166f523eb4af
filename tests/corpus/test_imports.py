"""Sources and the data sets that an import makes of them, compared with texts on disk.

And pages of PDFs.

`DOCAUDIT_WRITE_TEXTS=1` rewrites the texts.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import docaudit
from hostile_sources import write_files
from PIL import Image
from weasyprint import HTML

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split, Word
from audit.errors import UsageError
from audit.importers.registry import FORMATS
from audit.importers.words import PageReader

HERE = Path(__file__).parent
CASES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (HERE / "imports.toml").read_text(encoding="utf-8")
)
ALL: dict[Split, float] = {"member": 1.0}


def convert(name: str) -> str:
    """Import the source of a case, in the current folder, as `out`.

    Assert its exit code and return what is printed.
    """
    case = CASES[name]
    everything = ("--member", "1", "--heldout", "0", "--public", "0", *case.get("arguments", ()))
    arguments = ["import", case["format"], case.get("source", "src"), "out", *everything]
    result = docaudit(*arguments, terminal_width=1000)
    assert (result.exit_code, Path("out").exists()) == (
        (2, False) if "refused" in case else (0, True)
    ), result.output
    return result.output


def compare(name: str) -> None:
    """Compare the data set `out` with the text of a case, but for the day of its draw."""
    files = ("manifest.toml", "documents.jsonl", "import-report.json")
    text = "".join(f"== {file}\n{Path('out', file).read_text(encoding='utf-8')}" for file in files)
    text, path = re.sub(r"\d{4}-\d\d-\d\d", "DAY", text), HERE / "imports" / f"{name}.txt"
    if os.environ.get("DOCAUDIT_WRITE_TEXTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_a_source_becomes_its_data_set_or_is_refused(name, tmp_path, monkeypatch):
    write_files(CASES[CASES[name].get("as", name)]["files"], tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = convert(name)
    if "refused" in CASES[name]:
        assert CASES[name]["refused"] in printed
    else:
        compare(name)


@pytest.mark.parametrize("path", ["p.html", "p.png.hocr", "words/p.hocr"])
def test_a_word_file_has_the_name_of_its_image(path, tmp_path, monkeypatch):
    files = CASES["hocr"]["files"]
    write_files({"src/p.png": files["src/p.png"], f"src/{path}": files["src/p.hocr"]}, tmp_path)
    monkeypatch.chdir(tmp_path)
    convert("hocr")
    compare("hocr")


def write_pdf(path: Path, *pages: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    HTML(
        string="<p style='break-before: page'>".join(
            f"{page}</p>" for page in ("<p>" + pages[0], *pages[1:])
        )
    ).write_pdf(path)


def test_a_table_about_pdfs(tmp_path):
    write_pdf(tmp_path / "src" / "a.pdf", "Hello", "Total due 9.75 today")
    (tmp_path / "src" / "values.csv").write_text("file,key,value\na.pdf,total,9.75\n")
    FORMATS["csv"].convert(tmp_path / "src", tmp_path / "out", ALL, 1)
    second = manifests.load(tmp_path / "out").document("a-2")
    assert [(one.label, second.text_of(one)) for one in second.entities] == [("total", "9.75")]


def test_values_are_located_on_scanned_pdfs(tmp_path, monkeypatch):
    monkeypatch.setattr(PageReader, "check", lambda self: None)
    read = {
        "a-1": (Word("Hello", (10, 10, 60, 30)),),
        "a-2": (Word("9.75", (50, 10, 90, 30)), Word("EUR", (0, 0, 9, 9))),
    }
    monkeypatch.setattr(
        PageReader,
        "read",
        lambda self, pages: ((name, read[f"a-{int(name) + 1}"]) for name, _ in pages),
    )
    (tmp_path / "src").mkdir()
    Image.new("L", (200, 100), 255).save(
        tmp_path / "src" / "a.pdf", save_all=True, append_images=[Image.new("L", (200, 100), 255)]
    )
    (tmp_path / "src" / "values.csv").write_text("file,key,value\na.pdf,total,9.75\n")
    with pytest.raises(UsageError) as caught:
        FORMATS["csv"].convert(tmp_path / "src", tmp_path / "out", ALL, 1, task="mlm")
    assert "--ocr eng" in caught.value.hint
    FORMATS["csv"].convert(tmp_path / "src", tmp_path / "out", ALL, 1, task="token-classification")
    second = manifests.load(tmp_path / "out").document("a-2")
    assert [(one.label, second.text_of(one)) for one in second.entities] == [("total", "9.75")]
    assert second.words[0].box == (50, 10, 90, 30)


def test_pdfs_are_rendered_with_the_words_of_their_text_layer(tmp_path):
    folder = tmp_path / "src" / "train"
    style = "@page {size: 400pt 200pt; margin: 0} p {position: absolute; left: 200pt; top: 100pt; margin: 0}"
    write_pdf(folder / "one.pdf", f"<style>{style}</style>Total 9.00")
    write_pdf(folder / "two.pdf", "first", "second")
    report = FORMATS["pdf"].convert(tmp_path / "src", tmp_path / "out", ALL, 1)
    corpus = manifests.load(tmp_path / "out")
    assert [document.id for document in corpus.documents] == ["one", "two-1", "two-2"]
    one = corpus.document("one")
    assert (one.size, [word.text for word in one.words]) == ((834, 417), ["Total", "9.00"])
    x0, y0, x1, y1 = one.words[0].box or (0, 0, 0, 0)
    assert abs(x0 - 417) < 4
    assert 208 <= y0 < y1 <= 250
    assert x0 < x1 <= (one.words[1].box or (0,))[0]
    assert (corpus.manifest.task.kind, report.documents["member"]) == ("mlm", 3)


def test_pages_of_one_pdf_stay_together(tmp_path):
    for name in "abcdef":
        write_pdf(tmp_path / "src" / f"{name}.pdf", f"{name}1", f"{name}2")
    FORMATS["pdf"].convert(tmp_path / "src", tmp_path / "out", {"member": 0.5, "heldout": 0.5}, 1)
    corpus = manifests.load(tmp_path / "out")
    assert all(
        corpus.document(f"{name}-1").split == corpus.document(f"{name}-2").split
        for name in "abcdef"
    )
