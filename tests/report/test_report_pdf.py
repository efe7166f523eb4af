"""The PDF: its claim holds, the record lies in it, the typeface is docaudit's own, and two draws are equal."""

import re
from pathlib import Path

import example_records as examples
import printed
import pytest
from pdf_claims import elements, failures
from pypdf import PdfReader

from audit import policy as policies
from audit import record as records
from audit.report.files import Attachment, pdf, write
from audit.report.templates import linked

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


def test_a_report_is_pdf_ua_1(written: Path) -> None:
    assert failures(written / "report.pdf") == []


def test_the_report_holds_its_record_and_its_policy_byte_for_byte(written: Path) -> None:
    reader = PdfReader(written / "report.pdf")
    shipped = Path(__file__).parents[2] / "policies" / "default.toml"
    assert reader.attachments == {
        "policy.toml": [shipped.read_bytes()],
        "record.json": [(written / "record.json").read_bytes()],
    }


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


def test_every_figure_says_what_it_shows(written: Path) -> None:
    figures = [figure.get("/Alt", "") for figure in elements(written / "report.pdf", "/Figure")]
    assert any("interval" in text and "limit" in text for text in figures)
    assert any(
        text.startswith(("Dots with intervals", "Bars of a distribution")) for text in figures
    )
    assert all(len(text) > 20 or text == "symbol" for text in figures)


def test_papers_and_chapters_are_links(written: Path) -> None:
    page = (written / "report.html").read_text()
    for address in ("https://arxiv.org/abs/2406.03182", "#limits", "#countermeasures"):
        assert f'<a href="{address}">' in page


def test_the_same_page_and_files_give_the_same_bytes_on_another_day(tmp_path: Path) -> None:
    page = PAGE.format(head=DATED, body="<h1>Same</h1>")
    files = [
        Attachment(name, name.encode(), "application/json", "Data", name)
        for name in ("b.json", "a.json")
    ]
    first = pdf(page, files)
    pdf(PAGE.format(head="", body="<p>Another one</p>"))
    assert pdf(page, files[::-1]) == first
    assert pdf(page, files[:1]) != first


def test_a_drawing_has_its_description_as_alternative_text(tmp_path: Path) -> None:
    told = drawn(tmp_path, CROSS.format("role=img aria-label='A cross'"))
    assert ([figure["/Alt"] for figure in elements(told, "/Figure")], failures(told)) == (
        ["A cross"],
        [],
    )
    assert failures(drawn(tmp_path, CROSS.format("aria-hidden=true"))) == []
    (failure,) = failures(drawn(tmp_path, CROSS.format("")))
    assert "Figure" in failure


def test_letters_that_no_font_has_are_written_as_numbers(tmp_path: Path) -> None:
    path = drawn(tmp_path, "<h1>model \ue000 \U000e0100\u9818\u53ce, ε ≤ 1 → 2</h1>")
    assert failures(path) == []
    text = printed.texts(path)[0]
    assert "[U+E000]" in text
    assert "ε ≤ 1 → 2" in text
    assert "\u9818" in text or "[U+9818]" in text


def test_sources_are_escaped_and_only_addresses_become_links() -> None:
    assert linked("<b> (arXiv:2407.08707), https://a.example/x?y=1&z=2.") == (
        '&lt;b&gt; (<a href="https://arxiv.org/abs/2407.08707">arXiv:2407.08707</a>), '
        '<a href="https://a.example/x?y=1&amp;z=2">https://a.example/x?y=1&amp;z=2</a>.'
    )
    assert (
        linked("javascript:alert(1) http://a.example arXiv:1")
        == "javascript:alert(1) http://a.example arXiv:1"
    )


def test_a_report_whose_page_one_runs_over_is_drawn_with_less_on_it_until_it_fits(
    tmp_path: Path,
) -> None:
    def page(n_lines: int) -> str:
        body = "<p>line</p>" * n_lines + '<h1 id="scope" style="break-before: page">Scope</h1>'
        return PAGE.format(head="", body=body)

    path = tmp_path / "report.pdf"
    path.write_bytes(pdf(page(90), shorter=[page(80), page(3), page(2)]))
    first, second = printed.texts(path)
    assert first.split().count("line") == 3
    assert "Scope" in second
