"""Pages of PDFs: rendered, with the words of their text layer or of OCR, and kept together."""

from pathlib import Path

import pytest
from PIL import Image
from weasyprint import HTML

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split, Word
from audit.errors import UsageError
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.words import PageReader

ALL: dict[Split, float] = {"member": 1.0}


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
    FORMATS["csv"].convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
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
        FORMATS["csv"].convert(
            ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, task="mlm")
        )
    assert "--ocr eng" in caught.value.hint
    FORMATS["csv"].convert(
        ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, task="token-classification")
    )
    second = manifests.load(tmp_path / "out").document("a-2")
    assert [(one.label, second.text_of(one)) for one in second.entities] == [("total", "9.75")]
    assert second.words[0].box == (50, 10, 90, 30)


def test_pdfs_are_rendered_with_the_words_of_their_text_layer(tmp_path):
    folder = tmp_path / "src" / "train"
    style = "@page {size: 400pt 200pt; margin: 0} p {position: absolute; left: 200pt; top: 100pt; margin: 0}"
    write_pdf(folder / "one.pdf", f"<style>{style}</style>Total 9.00")
    write_pdf(folder / "two.pdf", "first", "second")
    report = FORMATS["pdf"].convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
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
    FORMATS["pdf"].convert(
        ImportRequest(tmp_path / "src", tmp_path / "out", {"member": 0.5, "heldout": 0.5}, 1)
    )
    corpus = manifests.load(tmp_path / "out")
    assert all(
        corpus.document(f"{name}-1").split == corpus.document(f"{name}-2").split
        for name in "abcdef"
    )
