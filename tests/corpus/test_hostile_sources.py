"""Sources whose values or sizes nobody expects: a sentence each, in little time and memory."""

import os
import time
from contextlib import suppress
from pathlib import Path

import hostile_seeds
import hostile_sources
import pytest
from commands import docaudit

from audit.errors import ManifestError
from audit.importers import pdf
from audit.importers.pdf import MAX_PAGES
from audit.importers.words import read_hocr

PAGE = "<html><body><div class='ocr_page' title='bbox 0 0 100 100'>"
WORD = "<span class='ocrx_word' title='bbox 1 2 3 4'>"


def refused(form: str, src: Path) -> str:
    """What is printed on a source that must be refused."""
    result = docaudit("import", form, src, src.parent / "out", terminal_width=1000)
    assert result.exit_code == 2, (result.output, result.exception)
    assert not (src.parent / "out").exists()
    return result.output


PIECES = (
    "<!--",
    "<?",
    "<!",
    "<![CDATA[",
    "<a ",
    "<a b='",
    '<a b="',
    "</",
    "<a b=",
    "&#",
    "<a b='>",
    "<",
    " a",
    "</b>",
)


@pytest.mark.parametrize("before", [PAGE + WORD, PAGE, PAGE + "<p ", PAGE + "<p x='"], ids=len)
@pytest.mark.parametrize("piece", PIECES)
def test_hocr_takes_linear_time(piece, before):
    """Python's own parser took 65 s over 100,000 comments that do not end."""
    start = time.process_time()
    with suppress(ManifestError):
        read_hocr(before + piece * 100_000)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        pytest.param(
            "<span class='ocrx_word' title='bbox 1 2 3 4'>To<em>t</em>al&amp;&#33;</span>",
            ["Total&!"],
            id="markup and entities in a word",
        ),
        pytest.param(
            "<SPAN CLASS='x ocrx_word' Title='bbox 1 2 3 4'> A\n B <br/></SPAN>",
            ["A B"],
            id="tags in capitals and line breaks",
        ),
        pytest.param(
            "<!-- <b> <span class='ocrx_word' title='bbox 1 2 3 4'>no</span> --><span "
            "class='ocrx_word' title='bbox 1 2 3 4'>yes</span>",
            ["yes"],
            id="a word in a comment",
        ),
        pytest.param(
            "<span class=ocrx_word title='x \"a.png\"; bbox 1 2 3 4; x_wconf 9'>9 &lt; 10</span>",
            ["9 < 10"],
            id="attributes without quotes",
        ),
        pytest.param(
            "<span title='bbox 1 2 3 4' lang=eng class='ocrx_word'/><span class='ocrx_word' "
            "title='bbox 1 2 3 4'><b><br></b>x</span>",
            ["x"],
            id="an empty word",
        ),
        pytest.param(
            "<span title='a > b; bbox 1 2 3 4' class=\"ocrx_word\">x > y</span>",
            ["x > y"],
            id="angle brackets in a title",
        ),
        pytest.param(
            "<span class='ocrx_word' title='bbox 1 2 3 4'>a<!-- b --><?c?>d</span>",
            ["ad"],
            id="a comment in a word",
        ),
    ],
)
def test_hocr_reads_what_html_says(markup, words):
    (page,) = read_hocr(
        "<?xml version='1.0'?>\n<!DOCTYPE html>\n" + PAGE + markup + "</div></body></html>"
    )
    assert [word.text for word in page.words] == words


@pytest.mark.parametrize(
    ("kids", "size", "content", "problem"),
    [
        (100_000, 4_800, "", "100,000 pages, and 5,000 are the most"),
        (MAX_PAGES, 4_800, "", "its pages are too large to render"),
        (
            1,
            400,
            "BT /F1 12 Tf " + f"0 10 Td ({'a' * 30_000}) Tj " * 4 + "ET",
            "and 100,000 are the most",
        ),
    ],
    ids=["pages", "area", "characters"],
)
def test_a_pdf_that_is_drawn_for_ever_is_refused(kids, size, content, problem, tmp_path):
    """600 KB that name one page 100,000 times had no end."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.pdf").write_bytes(hostile_sources.pdf(content, kids, size, size))
    start = time.process_time()
    assert problem in refused("pdf", tmp_path / "src")
    assert time.process_time() - start < 10


def test_a_pdf_of_few_pages_is_taken(tmp_path):
    (tmp_path / "a.pdf").write_bytes(
        hostile_sources.pdf("BT /F1 12 Tf (Total 9.00) Tj ET", 3, 400, 400)
    )
    pages = pdf.pages_of_pdf(tmp_path / "a.pdf", "a", tmp_path / "images")
    assert [page.name for page in pages] == ["a-1", "a-2", "a-3"]


def sparse(path: Path, size: int) -> None:
    """A file of zeros that takes no place on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        os.truncate(stream.fileno(), size)


@pytest.mark.parametrize("name", ["manifest.toml", "documents.jsonl", "canaries.json"])
def test_a_file_of_a_data_set_has_a_size_that_can_be_read(name, tmp_path):
    """3 GB of zeros in manifest.toml took 6 GB of memory."""
    hostile_seeds.utterances(tmp_path)
    folder = tmp_path / "data"
    sparse(folder / name, 3 << 30)
    start = time.process_time()
    result = docaudit("inspect", folder, terminal_width=1000)
    assert result.exit_code == 2, (result.output, result.exception)
    assert "MiB" in result.output
    assert time.process_time() - start < 5
