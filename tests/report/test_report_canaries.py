"""The canary attack in the report: what a compliance officer reads, what decides nothing, no secret."""

from __future__ import annotations

import dataclasses

import example_canaries as examples
import planted_canaries as planted
import pytest
from report_cells import cells
from test_report_html import Seen
from test_report_multishot import tables

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.attacks.canaries.epsilon import EPSILON, GAUSSIAN, RECORD
from audit.attacks.text import HistogramFigure
from audit.corpus.canaries.schema import PATTERNS
from audit.record import Completed
from audit.report.html import html
from audit.report.recommend import recommend

ATTACK = "canaries"
TEXT = TEXTS[ATTACK]


def page_of(result: Completed) -> str:
    """The report of a result without what takes long to draw."""
    return html(*examples.held(dataclasses.replace(result, histograms=())))


def first_page(page: str) -> str:
    return Seen(page.partition("</section>")[0]).text


def section(page: str) -> str:
    """The pages after page one, up to the limits of the policy."""
    return Seen(page.partition("</section>")[2].partition('id="limits"')[0]).text


@pytest.fixture(scope="module")
def leaky() -> str:
    return page_of(examples.canaries())


@pytest.fixture(scope="module")
def clean() -> str:
    return page_of(examples.canaries(0.0))


def test_the_report_knows_every_pattern_and_epsilon() -> None:
    measured = {EPSILON, RECORD, GAUSSIAN, *(f"excess.{pattern}" for pattern in PATTERNS)}
    assert measured <= TEXT.known - {*TEXT.names}


def test_the_tables_and_the_figure_show_what_the_attack_measures() -> None:
    assert {*TEXT.names} <= cells(*TEXT.parts)
    (figure,) = TEXT.figures
    (histogram,) = examples.canaries().histograms
    assert isinstance(figure, HistogramFigure)
    assert figure.histogram == histogram.name
    assert set(histogram.counts) == set(figure.labels) - {""}
    assert {item.name for item in examples.canaries().measurements} <= TEXT.known


def test_page_one_says_how_many_came_out_beside_control_and_chance(leaky: str) -> None:
    text = first_page(leaky)
    found = next(item for item in examples.canaries().measurements if item.name == "extracted")
    hits = round(found.value * found.n)
    assert "Of made-up secrets that were planted in the training data (10 times each), an attacker" in text
    assert f"recovers {hits} of {found.n} whole" in text
    assert f"of secrets that were never planted 0 of {64 - found.n}" in text
    assert "guessing recovers 0.010 %" in text
    text = section(leaky)
    assert f"Whoever may try three times gets {hits} of {found.n}" in text
    assert "each bit halves what is left to guess" in text
    assert "bits more than of secrets that were never planted" in text


def test_a_model_that_gives_nothing_away_is_not_accused(clean: str) -> None:
    assert "were not found to come out again: an attacker who holds the model recovers 0 of" in first_page(clean)
    assert examples.held(examples.canaries(0.0))[1].overall == "passed"
    assert examples.held(examples.canaries())[1].overall == "violated"


def test_the_section_explains_canaries_control_exposure_and_the_cap_of_epsilon(leaky: str) -> None:
    text = section(leaky)
    for said in (
        "A canary is a made-up secret",
        "64 were made up, of 4 words (or digits) each.",
        "the other",
        "show what an attacker recovers by luck (the control)",
        "every possible secret was tried",
        "A secret that the model holds likelier than all others has 10 bits",
        "it is one of the first three by luck in 0.30 % of all cases",
        "What planted secrets give away beyond those that were never planted.",
        "for the 10 copies of a secret together, so at least",
        "for a single document",
        "at delta 1e-05",
        "could not have shown more than 2.3",
        "no policy can be met by it",
        "by it. If the training is a Gaussian mechanism, which is an assumption and not measured",
        "came out wrong; guessing gets 90 % wrong",
    ):
        assert said in text, said


def test_an_epsilon_of_nothing_is_no_praise(clean: str) -> None:
    text = section(clean)
    assert "That shows nothing: epsilon may be anything from 0 up." in text
    assert "Epsilon is at least" not in text


def test_the_control_stands_in_the_table_and_epsilon_not_among_the_intervals(leaky: str) -> None:
    (shown,) = (table for table in tables(leaky) if any("control" in cell for row in table for cell in row))
    assert [row[0] for row in shown if row][-3:] != []
    assert "epsilon.record" not in leaky.partition('id="measurements"')[2].partition("What was done and left out")[0]


def test_without_coins_or_canaries_the_reasons_are_given() -> None:
    page = page_of(examples.canaries(design="paper", n=10))
    text = section(page)
    assert "none was held back, so there is no control" in text
    assert "There is no such number here: the canaries were not put in by the toss of a coin (paper design)" in text
    assert "No coin decided whether it was put in" in page
    assert "A fair coin, tossed for each" not in page
    none = page_of(examples.canaries(unasked=64))
    assert "Whether planted secrets come out again could not be measured: no canary that was put in could be" in (
        first_page(none)
    )
    assert "Not asked for: 64 canaries whose completion holds a word that is not one token" in section(none)
    one = section(page_of(examples.canaries(repeat=1)))
    assert "in one document each" in one
    assert "for a single document (95 % confidence; at delta 1e-05)" in one


def test_no_secret_and_no_prefix_stands_in_the_report(leaky: str) -> None:
    drawn = planted.canary_set(64, 4, seed=3)
    text = Seen(leaky).text
    for canary in drawn.canaries:
        assert canary.prefix[2] not in text
        assert " ".join(canary.completion) not in text.replace("4 0 7 1", "")


def test_a_leak_calls_for_countermeasures_that_the_paper_measured() -> None:
    record, verdict, _ = examples.held(examples.canaries())
    chosen = [item.remedy.id for item in recommend(record, verdict)]
    assert {"differential-privacy", "dropout-and-early-stopping"} <= {*chosen}


def test_parameters_named_in_the_method_exist() -> None:
    assert "n_restarts" in dataclasses.asdict(Canaries())
