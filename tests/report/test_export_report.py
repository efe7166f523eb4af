"""Every output of an export says whether it leaks more than the audited model, in one wording."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import example_records as examples
import printed
import pytest
from example_records import Case, mean
from shown_pages import Seen, check_text, decision, page_one

from audit.cards import DerivedFrom, ExportNumber
from audit.measurements import Unresolved
from audit.report.exports import export_view
from audit.report.files import pdf
from audit.report.html import html
from audit.report.verdicts import Judged
from audit.report.verdicts.words import as_markdown

FOUND = "excess_pr.unique"
TITLE = '<h2 class="title">Compared with the audited model</h2>'


def number(outcome: str, before: float, after: float, reason: str = "") -> ExportNumber:
    """A number of reconstruction, and its change."""
    return ExportNumber(
        "reconstruction",
        FOUND,
        (FOUND,),
        outcome,  # type: ignore[arg-type]
        before=mean(FOUND, before, 0.02, 600, 0.0, "held-out"),
        after=mean(FOUND, after, 0.02, 600, 0.0, "held-out"),
        difference=mean(FOUND, after - before, 0.01, 600, 0.0, "held-out"),
        p_adjusted=0.01,
        paired=True,
        margin=0.025,
        reason=reason,
    )


def lost() -> ExportNumber:
    """A number that the export lacks."""
    reason = "not resolved in the export: too few documents"
    unresolved = Unresolved(FOUND, "too few documents", 3, 20)
    measured = number("undecided", 0.02, 0.02, reason)
    return replace(measured, after=unresolved, difference=None, is_lost=True)


def exported(leak: float, numbers: Sequence[ExportNumber], **more: object) -> Case:
    """The record of an export that leaks so much."""
    derived = DerivedFrom(
        "c" * 64,
        "receipts-model",
        "d" * 64,
        "2026-02-27T10:00:00+00:00",
        "0.14.0",
        numbers=tuple(numbers),
        **more,  # type: ignore[arg-type]
    )
    record = examples.record(
        examples.reconstruction(leak, n=600), name="receipts-int8", documents=600
    )
    return examples.judged(replace(record, derived_from=derived))


WIDE = "too few documents to exclude that it grew by more"
WAY_ON = "To decide, scan the audited model with --budget standard, then this export again"
CASES = {
    "more": exported(0.0, [number("more", 0.0, 0.03)]),
    "no-more": exported(0.0, [number("no more", 0.03, 0.02)]),
    "wide": exported(0.0, [number("undecided", 0.0, 0.02, WIDE)], notes=(WAY_ON,)),
    "lost": exported(0.0, [lost()]),
    "incomparable": exported(
        0.0, [], incomparable="the seed differs: the audited model 3, the export 0"
    ),
}


def section_of(page: str) -> str:
    """The section of a page on the audited model."""
    assert page.count(TITLE) == 1
    return (
        '<section id="export">'
        + page.partition('<section id="export">')[2].partition("</section>")[0]
    )


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", CASES)
def test_both_reports_have_the_section_word_for_word(name: str) -> None:
    sections = {section_of(html(*CASES[name])), section_of(decision(CASES[name]))}
    assert len({Seen(section).text for section in sections}) == 1
    check_text(f"export-{name}", sections.pop())


@pytest.mark.parametrize("name", CASES)
def test_terminal_and_markdown_say_the_same_sentence(name: str) -> None:
    record, verdict, _ = CASES[name]
    view = export_view(record)
    assert view is not None
    assert view.sentence in as_markdown(Judged(record, verdict))
    assert view.lines[0] == f"Export of {view.sentence}"
    check_text(f"export-{name}-terminal", "\n".join(view.lines))


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [("more", 10), ("no-more", 0), ("wide", 0), ("lost", 11), ("incomparable", 11)],
)
def test_a_page_has_the_verdict_that_follows(name: str, exit_code: int) -> None:
    record, verdict, _ = CASES[name]
    alone = examples.judged(replace(record, derived_from=None))[1]
    assert (alone.exit_code, verdict.exit_code) == (0, exit_code)
    first = page_one(CASES[name])
    more = "This export leaks more than the model that was audited."
    assert (more in first) == (name == "more")


@pytest.mark.slow
def test_the_pdf_has_the_section(tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(pdf(decision(CASES["wide"])))
    text = " ".join(" ".join(printed.texts(path)).split())
    assert "Compared with the audited model" in text
    assert WAY_ON in text


def test_a_model_on_its_own_has_no_such_section() -> None:
    assert TITLE not in html(*examples.passed())
    assert TITLE not in decision(examples.passed())
