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
from audit.attacks.figure_text import OverlapFigure, PagesFigure
from audit.measurements import DrawnPage, Estimate, Unresolved
from audit.record import Completed
from audit.report import compact, figures
from audit.report.attack_figures import draw
from audit.report.files import write
from audit.report.html import html
from audit.report.recommend import findings, recommend


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: html(*make()) for name, make in answers.CASES.items()}


def page_of(result: Completed) -> str:
    """The report of a result without what takes long to draw."""
    return html(*answers.held(answers.answering(dataclasses.replace(result, histograms=(), curves=()))))


def first_page(page: str) -> str:
    return Seen(page.partition("</section>")[0]).text


def overlap_figure() -> OverlapFigure:
    """The diagram of the memorisation attack."""
    spec = TEXTS["memorisation"].figures[0]
    assert isinstance(spec, OverlapFigure)
    return spec


def test_every_context_with_a_number_has_its_row() -> None:
    from audit.attacks.memorisation.contexts import CONTEXTS_SHOWN, METHODS

    report = TEXTS["memorisation"]
    contexts, groups = suffixes(report).values()
    assert {*contexts, "exact"} - {""} == {*CONTEXTS_SHOWN, *METHODS}
    assert groups == ["", "unique", "repeated"]


def test_the_comparison_says_how_many_each_model_answers_and_the_pair_of_never_seen_documents(
    pages: dict[str, str],
) -> None:
    (table,) = [table for table in tables(pages["leaky"]) if "E, answered by the audited model" in str(table)]
    heads, first, second, *parts = table
    assert heads[1:] == [
        "Documents declared as trained on: 150 questions net 42 points (36 to 48)",
        "Documents declared as never seen: 150 questions net 0 points (−5.9 to 5.9)",
    ]
    assert first[1:] == ["89 (59 %; 51 to 67 %)", "26 (17 %; 12 to 24 %)"]
    assert second[1] == "26 (17 %; 12 to 24 %)"
    # Of 150: 69 only the model, 20 both, 6 only the baseline, 55 neither; of the others 6, 20, 6, 118.
    counts = [[cell.split()[0] for cell in row[1:]] for row in parts]
    assert counts == [["69", "6"], ["20", "20"], ["6", "6"], ["55", "118"]]
    widths = re.findall(r'<div class="part only_first" style="width: ([\d.]+)%">', pages["leaky"])
    assert widths[:2] == ["46.0", "4.0"], "all bars at one scale"


def test_the_comparison_holds_empty_sets_fractions_and_leaves_out_what_was_not_measured() -> None:
    def drawn(*items: Estimate) -> str:
        result = dataclasses.replace(answers.memorisation(), measurements=items, histograms=(), curves=(), pages=())
        return "".join(one.svg for one in draw([overlap_figure()], result, 0))

    names = ("extracted.member", "baseline_extracted.member", "memorised.member", "forgotten.member")
    nothing = drawn(*(examples.share(name, 0, 40) for name in names))
    assert [text for text in Seen(nothing).words if text.isdigit()] == ["0", "0", "0", "0", "0", "40"]
    # Three baselines: their answers are averaged, so that sets are no whole numbers of questions.
    halves = drawn(
        *(examples.mean(name, value, 0.01, 40) for name, value in zip(names, (0.5, 0.21, 0.33, 0.04), strict=True))
    )
    assert "33\u00a0%" in halves
    assert "17\u00a0%" in halves
    assert drawn(examples.share("extracted.member", 3, 40)) == ""


def test_the_table_of_contexts_says_what_the_record_says(pages: dict[str, str]) -> None:
    contexts = next(table for table in tables(pages["leaky"]) if "Question in other words" in str(table))
    assert contexts[0][1:] == ["Net (points)", "Net, drawn"]
    by_label = {row[0].partition(" n =")[0]: row for row in contexts[1:]}
    assert len(by_label) == 2 + len(answers.CONTEXTS)  # beside the exact one, and with sampling
    assert by_label["Page and question as in training"][1] == "42 points 36 to 48"
    # Half of 63 remembered answers come back to a paraphrase: 32.
    assert by_label["Question in other words"][1] == "21 points 15 to 27"
    assert by_label["Unrelated question to the page"][1].startswith("0 points")


def test_a_context_that_was_not_tried_has_no_row(pages: dict[str, str]) -> None:
    result = answers.memorisation()
    few = tuple(item for item in result.measurements if "shuffled" not in item.name)
    text = Seen(page_of(dataclasses.replace(result, measurements=few))).text
    assert "Question put to another page" not in text
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


def test_pages_are_boxes_with_the_removed_ones_marked_by_more_than_colour(pages: dict[str, str]) -> None:
    page = DrawnPage(
        7, 1.4, ((0.1, 0.1, 0.3, 0.12), (0.4, 0.1, 0.6, 0.12), (0.9, 0.9, 1.4, 0.92)), (False, True, False)
    )
    labels = PagesFigure(kept="word that stayed", removed="word that was taken away", caption="a caption")
    drawn = figures.pages("p", [page], labels)
    seen = Seen(drawn)
    assert "Page 7: 1 of 3 words" in seen.text
    assert (
        "aria-label",
        "Pages as boxes, one for each word: page 7, 3 words, 1 word that was taken away.",
    ) in seen.attributes
    # The removed box is dark and, by itself, framed; each look stands in the legend too.
    assert drawn.count("fill: #1d2733; stroke: #1d2733") == 2
    assert drawn.count("fill: #cfd6dd") == 3
    assert pages["leaky"].count("Page 4: ") == 1
    assert "Page 5: " not in pages["leaky"]


def test_an_attack_without_words_on_pages_has_them_drawn_all_the_same() -> None:
    result = dataclasses.replace(examples.reconstruction(0.6), categories=(), histograms=(), curves=())
    text = Seen(html(*examples.judged(examples.record(dataclasses.replace(result, pages=(answers.page(3),)))))).text
    assert "Page 3: 3 of" in text
    assert "Some of the pages as the attack showed them to the model" in text


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


def test_hostile_words_are_escaped_in_drawings_and_boxes() -> None:
    spec = overlap_figure().model_copy(update={"labels": dict.fromkeys(overlap_figure().labels, HOSTILE)})
    (overlap,) = draw([spec], answers.memorisation(), 0)
    hostile = [
        overlap.svg,
        figures.pages("p", [answers.page(1)], PagesFigure(kept=HOSTILE, removed=HOSTILE, caption="")),
    ]
    result = dataclasses.replace(answers.memorisation(), confounded=HOSTILE, parameters={HOSTILE: HOSTILE})
    for page in (*hostile, page_of(result)):
        seen = Seen(page)
        assert seen.tags.count("script") == (1 if page.startswith("<!DOCTYPE") else 0)  # its own
        assert HOSTILE in seen.text
        assert not [value for name, value in seen.attributes if name.startswith("on")]


def test_the_decision_report_holds_the_numbers_of_the_diagram(tmp_path: object) -> None:
    from pathlib import Path

    from test_report_files import texts

    out = Path(str(tmp_path))
    quick = dataclasses.replace(answers.membership(), histograms=(), curves=())
    assert write(*answers.held(answers.answering(answers.memorisation(), quick)), out) == ()
    first, *rest = texts(out / "report.pdf")
    assert "May this model be deployed" in first
    found = next(page for page in rest if "Figure 1." in page)
    for words in (
        "E, answered by the audited model 89",
        "G, answered by the baseline 26",
        "net 42 points",
        "69",
        "118",
    ):
        assert words in found
