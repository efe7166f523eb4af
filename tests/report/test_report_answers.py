"""The memorisation and the membership attack in the report: words, diagram, contexts, pages, what decides nothing."""

from __future__ import annotations

import dataclasses
import re

import example_answers as answers
import example_records as examples
import pytest
from report_cells import suffixes
from test_report_html import HOSTILE, Seen
from test_report_multishot import tables

from audit.attacks import TEXTS
from audit.measurements import Unresolved
from audit.record import Result
from audit.report import compact
from audit.report.html import html
from audit.report.recommend import findings, recommend


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: html(*make()) for name, make in answers.CASES.items()}


def page_of(result: Result) -> str:
    """The report of a result without what takes long to draw."""
    return html(*answers.held(answers.answering(dataclasses.replace(result, histograms=(), curves=()))))


def first_page(page: str) -> str:
    return Seen(page.partition("</section>")[0]).text


def test_every_context_with_a_number_has_its_row() -> None:
    from audit.attacks.memorisation.contexts import METHODS

    report = TEXTS["memorisation"]
    contexts, groups = suffixes(report).values()
    assert {*contexts, "exact"} - {""} == {*METHODS}
    assert groups == ["", "unique", "repeated"]


def test_the_table_of_contexts_says_what_the_record_says(pages: dict[str, str]) -> None:
    contexts = next(table for table in tables(pages["leaky"]) if "Question in other words" in str(table))
    assert contexts[0][1:] == ["Net (points)", "Net, drawn"]
    by_label = {row[0].partition(" n =")[0]: row for row in contexts[1:]}
    assert len(by_label) == 2 + len(answers.CONTEXTS)  # beside the exact one, and with sampling
    assert by_label["Page and question as in training"][1] == "42 points 36 to 48"
    # Half of 63 remembered answers come back to a paraphrase: 32.
    assert by_label["Question in other words"][1] == "21 points 15 to 27"


def test_a_context_that_was_not_tried_has_no_row(pages: dict[str, str]) -> None:
    result = answers.memorisation()
    few = tuple(item for item in result.measurements if "no_text" not in item.name)
    text = Seen(page_of(dataclasses.replace(result, measurements=few))).text
    assert "No text left on the page" not in text
    listed = re.findall(r"<code>([\w.]+)</code>", pages["leaky"])
    assert "net.unique" in listed


def test_intervals_are_drawn_on_one_scale_with_its_zero() -> None:
    low, high = examples.mean("a", -0.1, 0.01, 9), examples.mean("b", 0.4, 0.05, 9)
    first, second, missing = compact.bars([low, high, Unresolved("c", "none", 0)])
    assert first is not None
    assert second is not None
    assert missing is None
    assert 0 < first.low < first.value < first.high < first.zero == second.zero < second.low < second.high < 100
    half = compact.bars([examples.mean("a", 0.6, 0.01, 9)], zero=0.5)[0]
    assert half is not None
    assert half.zero < half.low


def test_what_decides_nothing_is_said_on_page_one_in_the_findings_and_instead_of_a_claim(pages: dict[str, str]) -> None:
    _, verdict, _ = answers.confounded()
    page = pages["confounded"]
    assert verdict.overall == "undecided"
    for text in (first_page(page), Seen(page.partition("</section>")[2]).text):
        assert "Nothing can be decided on these numbers: the baseline answers complete pages 7.3 points worse" in text
        assert "Nothing can be decided on these numbers: documents trained on and never seen" in text
    assert page.count("Nothing can be decided on these numbers") == 4
    assert "Because the model was trained" not in page
    assert "at least 78" not in page
    assert "How much of it is memory cannot be said" in Seen(page).text
    assert 'class="confounded"' not in pages["leaky"]


def test_what_decides_nothing_calls_for_another_comparison_not_for_more_documents_or_a_defense() -> None:
    record, verdict, _ = answers.confounded()
    assert {finding.state for finding in findings(record, verdict)} == {"confounded"}
    chosen = [item.remedy.id for item in recommend(record, verdict)]
    assert chosen[0] == "equal-baseline"
    assert "comparable-documents" in chosen
    assert not {"more-documents", "extraction-blocking", "stronger-attacker"} & set(chosen)


def test_a_model_that_remembers_is_told_of_the_countermeasures_of_the_paper_the_most_effective_first() -> None:
    record, verdict, _ = answers.leaky()
    chosen = [item.remedy.id for item in recommend(record, verdict)]
    assert chosen[0] == "extraction-blocking", "what the paper found best"
    # Private training answers both violated limits, and was measured to take 14 % of the usefulness.
    assert chosen.index("differential-privacy") > chosen.index("withhold-scores")
    assert {"higher-resolution", "random-string", "paraphrase", "deduplicate"} < set(chosen)
    assert {"withhold-scores"} < set(chosen)
    assert "keep-weights" not in chosen  # written for another attack
    clean = [item.remedy.id for item in recommend(*answers.clean()[:2])]
    assert "extraction-blocking" not in clean


def test_the_membership_table_gives_each_score_beside_guessing(pages: dict[str, str]) -> None:
    rows = next(table for table in tables(pages["leaky"]) if table[0][1] == "AUC")
    columns = ["AUC", "AUC, drawn", "Found for certain"]
    assert rows[0][1:] == [*columns, "Documents recognised"]
    assert len(rows) == 2 + len(answers.SCORES)
    assert rows[1][1] == "0.78 0.72 to 0.84"
    assert rows[2][3] == "not resolved"
    assert "not resolvable with so few documents never seen (n = 150, 368 needed)" in Seen(pages["leaky"]).text


def test_hostile_words_are_escaped() -> None:
    result = dataclasses.replace(answers.memorisation(), confounded=HOSTILE, parameters={HOSTILE: HOSTILE})
    seen = Seen(page_of(result))
    assert seen.tags.count("script") == 1, "its own"
    assert HOSTILE in seen.text
    assert not [value for name, value in seen.attributes if name.startswith("on")]
