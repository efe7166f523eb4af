"""The PDF: both claims hold, the record lies in it, the typeface is docaudit's own, and two draws are equal."""

from __future__ import annotations

import re
from pathlib import Path

import example_records as examples
import printed
import pytest
from pdf_claims import elements, failures, marked
from pypdf import PdfReader

from audit import policy as policies
from audit import record as records
from audit.report import pdf_tags
from audit.report.files import write
from audit.report.jinja import linked
from audit.report.pdf import Attachment, pdf

pytestmark = pytest.mark.slow
PAGE = '<!DOCTYPE html><html lang="en"><head><title>A page</title>{head}</head><body>{body}</body></html>'
DATED = '<meta name="dcterms.created" content="2026-03-02T10:00:00Z">'
CROSS = '<p><svg viewBox="0 0 9 9" {}><path d="M1 1L8 8" stroke="red"/></svg> word</p>'


def drawn(folder: Path, body: str, *attachments: Attachment) -> Path:
    path = folder / "page.pdf"
    path.write_bytes(pdf(PAGE.format(head=DATED, body=body), attachments))
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sealed")
    record, _, _ = examples.violated()
    default = policies.load("default")
    records.write(record, out / "record.json")
    assert write(record, policies.evaluate(record, default, examples.TODAY), default, out) == ()
    return out


def test_a_report_is_pdf_a_3a_and_pdf_ua_1(written: Path) -> None:
    assert failures(written / "report.pdf") == []


def test_the_report_holds_its_record_and_its_policy_byte_for_byte(written: Path) -> None:
    reader = PdfReader(written / "report.pdf")
    shipped = Path(__file__).parents[2] / "policies" / "default.toml"
    assert reader.attachments == {
        "policy.toml": [shipped.read_bytes()],
        "record.json": [(written / "record.json").read_bytes()],
    }
    related = [file.get_object() for file in reader.trailer["/Root"]["/AF"]]
    assert [(file["/UF"], file["/AFRelationship"]) for file in related] == [
        ("policy.toml", "/Source"),
        ("record.json", "/Source"),
    ]
    kinds = [file["/EF"]["/F"].get_object()["/Subtype"] for file in related]
    assert kinds == ["/application/toml", "/application/json"]


def test_every_letter_is_of_the_shipped_typeface_whatever_the_machine_has(written: Path) -> None:
    fonts = {
        font.get_object()["/BaseFont"]
        for page in PdfReader(written / "report.pdf").pages
        for font in page["/Resources"]["/Font"].values()
    }
    assert {re.sub(r"^/[A-Z]{6}\+", "", name) for name in fonts} <= {
        "docaudit-Sans",
        "docaudit-Sans-Bold",
        "docaudit-Sans-Italic",
        "docaudit-Mono",
    }


def test_every_figure_says_what_it_shows_and_signs_beside_words_are_no_figures(written: Path) -> None:
    figures = [figure.get("/Alt", "") for figure in elements(written / "report.pdf", "/Figure")]
    assert any("interval" in text and "limit" in text for text in figures)
    assert any(text.startswith("Dots with intervals, in per cent.") for text in figures)
    assert all(len(text) > 20 and pdf_tags.DECORATION not in text for text in figures)


def test_papers_and_chapters_are_links(written: Path) -> None:
    page = (written / "report.html").read_text()
    for address in ("https://arxiv.org/abs/2406.03182", "#limits", "#countermeasures"):
        assert f'<a href="{address}">' in page


def test_the_same_page_and_files_give_the_same_bytes_on_another_day(tmp_path: Path) -> None:
    page = PAGE.format(head=DATED, body="<h1>Same</h1>")
    files = [Attachment(name, name.encode(), "application/json", "Data", name) for name in ("b.json", "a.json")]
    first = pdf(page, files)
    pdf(PAGE.format(head="", body="<p>Another one</p>"))
    assert pdf(page, files[::-1]) == first
    assert pdf(page, files[:1]) != first


def test_decoration_and_page_margins_are_artifacts(tmp_path: Path) -> None:
    told = drawn(tmp_path, CROSS.format("role=img aria-label='A cross'"))
    assert [figure["/Alt"] for figure in elements(told, "/Figure")] == ["A cross"]
    assert failures(told) == []
    margin = '<style>@page { @top-left { content: "Margin" } }</style>'
    hidden = drawn(tmp_path, margin + CROSS.format("aria-hidden=true"))
    assert elements(hidden, "/Figure") == []
    assert sorted(set(marked(hidden))) == ["/Artifact", "/Span"]
    assert marked(hidden).count("/Span") == 1
    assert failures(hidden) == []


def test_a_drawing_that_nobody_described_is_not_passed_off_as_decoration(tmp_path: Path) -> None:
    (failure,) = failures(drawn(tmp_path, CROSS.format("")))
    assert "Figure" in failure


def test_terms_and_definitions_stay_pairs_even_over_pages_and_columns(tmp_path: Path) -> None:
    pair = "<div><dt>{0}</dt><dd>what {0} is</dd></div>"
    broken = '<div><dt>long</dt><dd>one<p style="break-before: page">two</p></dd></div>'
    columns = f"<div style='columns: 2'><dl>{pair.format('B') * 5}</dl></div>"
    path = drawn(tmp_path, f"<dl>{pair.format('A')}{broken}</dl>{columns}")
    assert failures(path) == []
    assert [kid["/S"] for kid in elements(path, "/LI")[0]["/K"]] == ["/Lbl", "/LBody"]


def test_letters_that_no_font_has_are_written_as_numbers(tmp_path: Path) -> None:
    path = drawn(tmp_path, "<h1>model \ue000 \U000e0100\u9818\u53ce, ε ≤ 1 → 2</h1>")
    assert failures(path) == []
    text = printed.texts(path)[0]
    assert "[U+E000]" in text
    assert "ε ≤ 1 → 2" in text
    assert "\u9818" in text or "[U+9818]" in text


def test_a_link_to_what_the_page_does_not_hold_is_plain_text(tmp_path: Path) -> None:
    path = drawn(tmp_path, '<h1 id="here">Here</h1><p><a href="#here">there</a> and <a href="#gone">gone</a></p>')
    assert len(elements(path, "/Link")) == 1
    assert failures(path) == []


def test_no_stream_ends_so_that_its_length_is_unclear(tmp_path: Path) -> None:
    # Of what is compressed, one in 256 would end in a carriage return otherwise.
    files = [Attachment(f"{number}.json", b"%d" % number, "application/json", "Data", "-") for number in range(400)]
    path = drawn(tmp_path, "<h1>Many</h1>", *files)
    assert b"\r\nendstream" not in path.read_bytes()
    assert failures(path) == []


def test_sources_are_escaped_and_only_addresses_become_links() -> None:
    assert linked("<b> (arXiv:2407.08707), https://a.example/x?y=1&z=2.") == (
        '&lt;b&gt; (<a href="https://arxiv.org/abs/2407.08707">arXiv:2407.08707</a>), '
        '<a href="https://a.example/x?y=1&amp;z=2">https://a.example/x?y=1&amp;z=2</a>.'
    )
    assert linked("javascript:alert(1) http://a.example arXiv:1") == "javascript:alert(1) http://a.example arXiv:1"
