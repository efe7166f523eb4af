"""The provider membership attack and the blind check in the report: words, tables, what decides nothing, no names."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import example_answers as answers
import example_providers as examples
import example_records as records
import numpy as np
import pytest
from report_cells import cells
from test_report_html import HOSTILE, Seen
from test_report_multishot import tables

from audit.attacks import TEXTS
from audit.attacks.figure_text import CurveFigure, HistogramFigure
from audit.measurements import Count, Diagnostic, Unresolved
from audit.record import Reason, Result
from audit.report import trend
from audit.report.checkpoints import Stop
from audit.report.html import html
from audit.report.recommend import findings, recommend
from audit.report.revealed import write_revealed

pytestmark = pytest.mark.slow

ATTACK = "provider_membership"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: page_of(make()[0].attacks[0]) for name, make in examples.CASES.items()}


def page_of(*results: object) -> str:
    """The report of results without what takes long to draw."""
    drawn = [dataclasses.replace(item, histograms=(), curves=()) for item in results if item.status == "completed"]
    return html(*examples.held(*drawn))


def first_page(page: str) -> str:
    return Seen(page.partition("</section>")[0]).text


def section(page: str) -> str:
    """The pages after page one, up to the limits of the policy."""
    return Seen(page.partition("</section>")[2].partition('id="limits"')[0]).text


def test_the_tables_leave_no_method_or_feature_out() -> None:
    from audit.attacks.provider_membership.methods import METHODS

    asked = cells(*TEXTS["provider_membership"].parts)
    assert {f"balanced_accuracy.{name}" for name in METHODS} < asked
    assert {"auc.loss", "auc.memory_similarity"} < asked
    assert {item.name for item in examples.providers().measurements} == {*TEXTS["provider_membership"].names}


def test_the_series_of_the_figures_are_those_that_the_attack_draws() -> None:
    from audit.attacks.provider_membership.measures import measure_table
    from audit.attacks.provider_membership.providers import FEATURES, ProviderTable
    from audit.engine.interface import SILENT

    rng = np.random.default_rng(3)
    member = np.arange(80) % 2 == 0
    made = {name: rng.random(80) + member for name in FEATURES}
    table = ProviderTable(tuple(map(str, range(80))), member, np.full(80, 9), np.full(80, 3), made, made["loss"])
    found = measure_table(table, rng, SILENT, n_seeds=1, share=0.3)
    curves, bars = TEXTS["provider_membership"].figures
    assert isinstance(curves, CurveFigure)
    assert isinstance(bars, HistogramFigure)
    assert {name for curve in found.curves for name in curve.series} == set(curves.series)
    assert {name for item in found.histograms for name in item.counts} == set(bars.labels) - {""}
    shown = {item.name for item in examples.providers().diagnostics if not item.name.startswith("blind")}
    assert shown >= {item.name for item in found.diagnostics}


def test_what_is_confounded_calls_for_comparable_documents(pages: dict[str, str]) -> None:
    record, verdict, _ = examples.confounded()
    assert verdict.overall == "undecided"
    for text in (first_page(pages["confounded"]), section(pages["confounded"])):
        assert f"Nothing can be decided on these numbers: {examples.TELLING}." in text
        assert "Naming one in ten" not in text
    assert [item.remedy.id for item in recommend(record, verdict)] == ["comparable-documents"]


def test_too_few_providers_leave_it_undecided_and_call_for_more() -> None:
    record, verdict, _ = examples.few()
    assert {item.state for item in findings(record, verdict)} == {"wide"}
    assert recommend(record, verdict)[0].remedy.id == "more-documents"


def test_what_has_no_number_at_all_is_unresolved() -> None:
    record, verdict, _ = examples.unresolved()
    assert {item.state for item in findings(record, verdict)} == {"unresolved"}


def test_without_a_model_to_compare_with_the_attacker_is_called_weakened(pages: dict[str, str]) -> None:
    record, verdict, _ = examples.unreferenced()
    assert verdict.overall == "undecided"
    assert {item.state for item in findings(record, verdict)} == {"weakened"}
    assert recommend(record, verdict)[0].remedy.id == "full-attacker"
    assert f"with the attacker weakened: {examples.NO_REFERENCE}" in section(pages["unreferenced"])
    rows = {row[0]: row for row in tables(pages["unreferenced"])[1]}
    assert rows["User inference"][1] == "not resolved"
    assert f"Not resolved: {examples.NO_REFERENCE} (n = 0)" in section(pages["unreferenced"])


def test_the_table_of_attacks_has_a_row_for_each(pages: dict[str, str]) -> None:
    heading, *rows = tables(pages["leaky"])[0]
    assert heading[1:] == ["Right", "Drawn"]
    assert [row[0] for row in rows] == [
        "Answers only (AZK)",
        "Partial knowledge (APK)",
        "Answers only, with memory tests (AZK++)",
        "Partial knowledge, with memory tests (APK++)",
    ]
    assert rows[0][1] == "62 % 58 to 66; n = 600"
    assert pages["leaky"].count('class="interval"') == 4 + 5 + 3


def test_names_of_providers_are_revealed_in_the_evidence_and_nowhere_else(tmp_path: Path) -> None:
    examples.write_evidence(tmp_path)
    result = dataclasses.replace(examples.providers(), histograms=(), curves=())
    case = examples.held(result)
    shareable = html(*case)
    text = write_revealed(*case, tmp_path).read_text()
    assert html(*case) == shareable
    seen = Seen(text).text
    for said in examples.NAMES:
        assert said in seen
        assert said not in Seen(shareable).text
    assert "Zylkander" not in shareable
    shown = Seen(text.partition('id="revealed"')[2]).text
    # The evidence lies the other way round: the surest come first.
    places = [shown.index(name) for name in examples.NAMES]
    assert places == sorted(places)


def test_hostile_words_are_escaped(tmp_path: Path) -> None:
    result = dataclasses.replace(
        examples.providers(),
        confounded=HOSTILE,
        counts=(Count("left out: x", 2, HOSTILE),),
        diagnostics=(Diagnostic("blind_p", 0.5, HOSTILE),),
    )
    gone = dataclasses.replace(result, measurements=(Unresolved("balanced_accuracy", HOSTILE, 1),), confounded=None)
    examples.write_evidence(tmp_path)
    path = tmp_path / "evidence" / "recovered.jsonl"
    path.write_text(path.read_text().replace("Zylkander", HOSTILE.replace('"', '\\"')))
    revealed = write_revealed(*examples.held(dataclasses.replace(result, curves=(), histograms=())), tmp_path)
    for page in (page_of(result), page_of(gone), revealed.read_text()):
        seen = Seen(page)
        assert seen.tags.count("script") == 1  # its own
        assert HOSTILE in seen.text
        assert not [value for name, value in seen.attributes if name.startswith("on")]


def test_the_report_says_how_providers_were_assigned(pages: dict[str, str]) -> None:
    assert "assigned: by-provider" in Seen(pages["leaky"]).text
    text = Seen(pages["leaky"]).text
    assert "whole providers were used for training or left out, and of those that were used some documents" in text
    assert "not at random" not in first_page(pages["leaky"])
    drawn = Seen(html(*answers.clean())).text
    assert "assigned: random" in drawn
    assert "here they were assigned at random." in drawn
    assert "whole providers were used for training or left out, and" not in drawn


def test_the_attack_is_not_tested_only_where_it_was_not() -> None:
    name = "Telling whose documents were used for training"

    def gaps(page: str) -> str:
        return Seen(page.partition('id="not-examined"')[2].partition("</section>")[0]).text

    assert name not in gaps(page_of(examples.providers()))
    skipped = Result(
        ATTACK,
        status="skipped",
        reason=Reason("missing", "all documents come from one provider", "add other providers"),
    )
    text = gaps(html(*examples.held(skipped)))
    assert name in text
    assert "All documents come from one provider. To examine it: add other providers." in text
    left_out = gaps(page_of(answers.membership())).partition(name)[2]
    assert left_out.index("Not asked for in this scan.") < left_out.index("To examine it: scan without --only.")
    older = gaps(html(*answers.clean())).partition(name)[2]
    assert older.index("Not in the version that scanned.") < older.index("To examine it: scan again.")


def test_a_violated_limit_calls_for_what_the_studies_support_the_strongest_first() -> None:
    record, verdict, _ = examples.leaky()
    alone = dataclasses.replace(record, attacks=record.attacks[:1])
    chosen = [item.remedy.id for item in recommend(alone, verdict)]
    assert chosen == ["cap-providers", "withhold-scores", "train-less", "provider-privacy"]  # the last cost usefulness


def test_terms_of_several_attacks_stand_in_the_glossary_once() -> None:
    page = page_of(examples.providers(), answers.membership())
    terms = re.findall(r"<dt>([^<]*)</dt>", page.partition('id="glossary"')[2])
    assert len(terms) == len(set(terms))
    assert {"Provider", "Kept aside", "Balanced accuracy", "Blind check"} <= set(terms)


def test_reasons_for_missing_numbers_are_said_once_each_with_all_that_they_leave_out() -> None:
    page = page_of(answers.membership())
    chapter = page.partition('id="measurements"')[2].partition('id="method"')[0]
    assert Seen(chapter).text.count("not resolvable with so few documents never seen (n = 150, 368 needed)") == 1
    (row,) = re.findall(r'<tr><th scope="row" class="problem">.*?</tr>', chapter, flags=re.DOTALL)
    assert set(re.findall(r"<code>([\w.]+)</code>", row)) == {f"low_fpr_advantage.{name}" for name in answers.SCORES}
    assert "Found for certain, beyond chance: by the loss low_fpr_advantage.loss , by" in Seen(row).text


def test_the_provenance_counts_questions_names_the_ocr_and_does_not_call_answers_pages() -> None:
    record, verdict, policy = examples.held(dataclasses.replace(examples.providers(), curves=(), histograms=()))
    target = dataclasses.replace(record.target, max_tokens=48, resolution=(64, 96))
    known = dataclasses.replace(
        record, target=target, environment=dataclasses.replace(record.environment, ocr="tesseract 5.3.0")
    )
    text = Seen(html(known, verdict, policy)).text
    assert "Questions heldout 4,800" in text
    assert "OCR tesseract 5.3.0" in text
    assert "rows of up to 48 word pieces or image patches, page images of 64 × 96 pixels" in text
    assert "Asked without" not in text
    lifted = dataclasses.replace(known, target=dataclasses.replace(target, lifted=("suppress_tokens",)))
    said = (
        "Asked without settings of its generation_config.json that would keep answers from being given: suppress_tokens"
    )
    assert said in Seen(html(lifted, verdict, policy)).text
    labelling = Seen(html(*records.skipped())).text
    assert re.search(r"pages of up to [\d,]+ tokens", labelling)
    assert "OCR" not in labelling


def test_checkpoints_are_drawn_by_what_is_told_of_providers() -> None:
    stops = []
    for place, gain in enumerate((0.0, 0.5, 1.0)):
        record, verdict, _ = examples.held(examples.providers(gain))
        target = dataclasses.replace(record.target, epoch=float(place), sha256=f"{place}" * 64)
        stops.append(Stop(float(place), f"c{place}", dataclasses.replace(record, target=target), verdict))
    text = Seen(trend.html(stops, "epoch")).text
    assert "is confirmed over its limit of 60 % at the last checkpoint, epoch 2" in text
    assert all(
        label in text for label in ("answers only (AZK)", "partial knowledge (APK)", "used from one that was not (AUC)")
    )
    assert "70 % 66 to 74" in text
