"""Each attack in the report: what its tables and figures show, what is escaped, what decides nothing, what is hidden.

The sentences of each attack stand in texts/, see test_report_texts.py.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import example_answers as answers
import example_canaries as canaries
import example_providers as providers
import example_records as records
import planted_canaries as planted
import pytest
from shown_pages import HOSTILE, Seen, check_text

from audit.attacks import TEXTS
from audit.attacks.figure_text import HistogramFigure
from audit.measurements import Count, Diagnostic, Unresolved
from audit.report.facts.recommend import findings, recommend
from audit.report.html import html
from audit.report.remedies import remedies
from audit.report.revealed import write_revealed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


def test_figures_name_the_series_of_the_record() -> None:
    results = {"canaries": canaries.canaries(), "reconstruction": records.reconstruction(0.6)}
    for name, done in results.items():
        report = TEXTS[name]
        (histogram,) = done.histograms
        drawn = (one for one in report.figures if isinstance(one, HistogramFigure))
        (figure,) = (one for one in drawn if one.histogram == histogram.name)
        kinds = {part for name in histogram.counts for part in (name, *name.split(", "))}
        assert set(figure.labels) - {""} <= kinds


CHOSEN: dict[str, tuple[Callable[[], records.Case], set[str], str, set[str]]] = {
    "memorised": (answers.leaky, {"violated"}, "differential-privacy", {"cap-providers"}),
    "nothing": (answers.clean, set(), "", {"extraction-blocking"}),
    "answers confounded": (
        answers.confounded,
        {"confounded"},
        "equal-baseline",
        {"more-documents"},
    ),
    "providers confounded": (
        providers.confounded,
        {"confounded"},
        "comparable-documents",
        {"cap-providers"},
    ),
    "few providers": (providers.few, {"wide"}, "more-documents", {"cap-providers"}),
    "no number": (providers.unresolved, {"unresolved"}, "more-documents", {"cap-providers"}),
    "weakened": (providers.unreferenced, {"weakened"}, "full-attacker", {"cap-providers"}),
    "canaries": (lambda: canaries.held(canaries.canaries()), {"violated"}, "", set()),
}
"""By case: states of its findings, the first remedy, and remedies that answer something else."""


@pytest.mark.parametrize("name", CHOSEN)
def test_findings_call_for_the_remedies_that_answer_them(name: str) -> None:
    make, states, first, others = CHOSEN[name]
    record, verdict, _ = make()
    chosen = [item.remedy.id for item in recommend(record, verdict)]
    assert not states or {item.state for item in findings(record, verdict)} == states
    assert not first or chosen[0] == first
    assert not others & {*chosen}
    if name == "canaries":
        assert {"differential-privacy", "dropout-and-early-stopping"} <= {*chosen}
    if name == "memorised":
        assert {
            "higher-resolution",
            "random-string",
            "paraphrase",
            "deduplicate",
            "withhold-scores",
        } < {*chosen}


def test_the_first_remedy_is_against_all_exceeded_attacks() -> None:
    """One against removed answers leaves membership exceeded, so that no verdict changes by it."""
    record, verdict, _ = answers.leaky()
    exceeded = {item.limit.attack for item in verdict.decisions if item.outcome == "violated"}
    first, second, *_ = recommend(record, verdict)
    assert exceeded == {"memorisation", "membership"}
    assert exceeded <= first.lifts_exceeded
    assert not exceeded <= second.lifts_exceeded


def test_where_no_remedy_is_against_all_exceeded_attacks_the_first_two_are(monkeypatch) -> None:
    """What is against another attack moves forward, whatever its rank."""
    partial = {"extraction-blocking", "higher-resolution", "train-less", "withhold-scores"}
    offered = [remedy for remedy in remedies() if remedy.id in partial]
    monkeypatch.setattr("audit.report.facts.recommend.remedies", lambda: offered)
    record, verdict, _ = answers.leaky()
    exceeded = {item.limit.attack for item in verdict.decisions if item.outcome == "violated"}
    first, second, *_ = recommend(record, verdict)
    assert (first.remedy.id, second.remedy.id) == ("extraction-blocking", "train-less")
    assert exceeded <= first.lifts_exceeded | second.lifts_exceeded


def test_the_provenance_counts_questions_and_names_the_ocr_and_lifted_settings() -> None:
    record, verdict, policy = providers.held(providers.providers())
    target = dataclasses.replace(
        record.target, max_tokens=48, resolution=(64, 96), lifted=("suppress_tokens",)
    )
    known = dataclasses.replace(
        record,
        target=target,
        environment=dataclasses.replace(record.environment, ocr="tesseract 5.3.0"),
    )
    page = html(known, verdict, policy).partition('id="provenance"')[2].partition("</section>")[0]
    check_text("annex-provenance", f'<section id="provenance"{page}')


def test_names_of_providers_are_revealed_in_the_evidence_and_nowhere_else(tmp_path: Path) -> None:
    providers.write_evidence(tmp_path)
    case = providers.held(providers.providers())
    shareable = html(*case)
    seen = Seen(write_revealed(*case, tmp_path).read_text()).text
    assert html(*case) == shareable
    assert "Zylkander" not in shareable
    # The evidence lies the other way round: the surest come first.
    places = [seen.index(name) for name in providers.NAMES]
    assert places == sorted(places)
    assert all(name not in Seen(shareable).text for name in providers.NAMES)


def test_no_secret_and_no_prefix_stands_in_the_report() -> None:
    text = Seen(html(*canaries.held(canaries.canaries()))).text
    for canary in planted.canary_set(64, 4, seed=3).canaries:
        assert canary.prefix[2] not in text
        assert " ".join(canary.completion) not in text.replace("4 0 7 1", "")


def test_hostile_words_are_escaped(tmp_path: Path) -> None:
    result = dataclasses.replace(
        providers.providers(),
        confounded=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        counts=(Count("left out: x", 2, HOSTILE),),
        diagnostics=(Diagnostic("blind_p", 0.5, HOSTILE),),
    )
    gone = dataclasses.replace(
        result, measurements=(Unresolved("balanced_accuracy", HOSTILE, 1),), confounded=None
    )
    providers.write_evidence(tmp_path)
    path = tmp_path / "evidence" / "recovered.jsonl"
    path.write_text(path.read_text().replace("Zylkander", HOSTILE.replace('"', '\\"')))
    revealed = write_revealed(*providers.held(result), tmp_path).read_text()
    for page in (html(*providers.held(result)), html(*providers.held(gone)), revealed):
        seen = Seen(page)
        assert seen.tags.count("script") == 1  # its own
        assert HOSTILE in seen.text
        assert not [value for name, value in seen.attributes if name.startswith("on")]


def test_a_limit_on_what_providers_give_away_calls_for_what_the_studies_support_the_strongest_first() -> (
    None
):
    record, verdict, _ = providers.leaky()
    alone = dataclasses.replace(record, attacks=record.attacks[:1])
    chosen = [item.remedy.id for item in recommend(alone, verdict)]
    assert chosen == ["provider-privacy", "cap-providers", "train-less", "withhold-scores"]
