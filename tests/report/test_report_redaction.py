"""Redaction-context leakage in the report: words for every number, what page one says, what a record lacks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import example_answers as answers
import pytest
import redacted
from PIL import Image
from test_report_html import Seen

from audit.attacks.redaction import RedactionContext
from audit.corpus.documents import Document, Entity, Word
from audit.measurements import Count
from audit.policy import Limit, Policy
from audit.record import Result
from audit.report.attack_text import ResultIndex
from audit.report.html import html

ATTACK = "redaction"
LIMIT = Limit(ATTACK, "lift_share", "What a redacted copy tells.", max=0.1, required=False)


def completed(data, target=None) -> Result:
    found = redacted.findings(data, target)
    return Result(
        ATTACK,
        parameters=dataclasses.asdict(RedactionContext()),
        measurements=found.measurements,
        counts=found.counts,
        diagnostics=found.diagnostics,
    )


def page_of(result: Result) -> str:
    record = answers.answering(result)
    held = dataclasses.replace(record, battery=(*record.battery, ATTACK))
    return html(*answers.judged(held, Policy(1, "redacted", (LIMIT,), description="A limit.")))


def first_page(page: str) -> str:
    return Seen(page.partition("</section>")[0]).text


def section(page: str) -> str:
    return Seen(page.partition("</section>")[2].partition('id="limits"')[0]).text


@pytest.fixture(scope="module")
def telling() -> Result:
    data = redacted.texts(12, told=True)
    return completed(data, redacted.Tagging(known=data.of("member")))


def test_page_one_says_what_is_told_and_what_guessing_tells(telling: Result) -> None:
    text = first_page(page_of(telling))
    told = ResultIndex(telling).get("accuracy")
    assert told is not None
    assert "an attacker tells the kind (a name, a date, a place) of" in text
    assert "of every 100 redacted values" in text
    assert "always naming the commonest kind is right for" in text
    assert "Who sees only how long the values are is right for" in section(page_of(telling))
    assert "was not found" not in text


def test_the_section_compares_text_length_and_the_model(telling: Result) -> None:
    text = section(page_of(telling))
    for said in (
        "Nothing but the length of the values",
        "as this data set says, and its kind is predicted: bars of one length .",
        "72 values in 12 documents were looked at, in their sentences.",
        "Such a number counts as a fault of the comparison until it is explained",
        "The model was asked about 72 hidden values",
        "Documents declared as trained on",
    ):
        assert said.replace(" .", ".") in text.replace(" .", "."), said
    assert "Bars on page images" not in text


def test_what_the_model_adds_to_members_is_said_on_page_one() -> None:
    data = redacted.texts(24, told=False, seed=2)
    text = first_page(page_of(completed(data, redacted.Tagging(known=data.of("member")))))
    assert "on documents declared as trained on, asking it tells" in text.partition("The model adds to it")[2]
    assert "than on documents declared as never seen" in text.partition("asking it tells")[2]


def test_what_the_text_tells_is_said_of_the_text_and_not_of_the_model(telling: Result) -> None:
    silent = completed(redacted.texts(40, told=True), redacted.Tagging())
    text = first_page(page_of(silent))
    assert "The text gives it away, without any model: from what stays readable" in text
    more = section(page_of(silent))
    assert "Best told are" in more
    assert "No sign was found that the model adds to it because it was trained on these documents" in more
    assert "asking it tells" not in text
    assert "What is the text's, and what the model's." in Seen(page_of(telling)).text


def test_a_context_that_tells_nothing_is_not_made_a_finding() -> None:
    text = first_page(page_of(completed(redacted.texts(30, told=False, seed=3))))
    assert "The text around redacted values was not found to give away their kind" in text
    assert "an attacker tells the kind" not in text


def test_text_under_the_box_is_reported(tmp_path: Path) -> None:
    Image.new("RGB", (400, 100), "black").save(tmp_path / "page.png")
    documents = []
    for number in range(20):
        kind, value = (("person", "Zylkander"), ("amount", "9.00"))[number % 2]
        texts = (("Total", 0.0, 0.0), (value, 100.0, 0.0), (f"{number}", 0.0, 80.0))
        words = tuple(Word(text, (x, y, x + 10.0 * len(text), y + 10)) for text, x, y in texts)
        entities = (Entity("e", kind, kind, (1,)),)
        documents.append(Document(f"d{number}", "member", words, image="page.png", size=(400, 100), entities=entities))
    data = dataclasses.replace(redacted.corpus(documents, "length", "mlm"), root=tmp_path)
    page = page_of(completed(data))
    assert "The text of 20 of 20 values that are painted over in the page images still stands" in first_page(page)
    text = section(page)
    assert "take the words out as well" in text
    assert "20 of them on pages with boxes" in text
    assert "Zylkander" not in page


def test_a_record_without_numbers_is_rendered_all_the_same(telling: Result) -> None:
    bare = dataclasses.replace(telling, measurements=(), counts=(Count("values", 3, "values"),), diagnostics=())
    assert "What the text around redacted values gives away was not measured." in first_page(page_of(bare))
