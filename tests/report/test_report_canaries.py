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
from audit.attacks.figure_text import HistogramFigure
from audit.record import Result
from audit.report.html import html
from audit.report.recommend import recommend

ATTACK = "canaries"
TEXT = TEXTS[ATTACK]


def page_of(result: Result) -> str:
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


def test_the_tables_and_the_figure_show_what_the_attack_measures() -> None:
    assert {*TEXT.names} <= cells(*TEXT.parts)
    (figure,) = TEXT.figures
    (histogram,) = examples.canaries().histograms
    assert isinstance(figure, HistogramFigure)
    assert figure.histogram == histogram.name
    assert set(histogram.counts) == set(figure.labels) - {""}
    assert {item.name for item in examples.canaries().measurements} <= TEXT.known


def test_a_model_that_gives_nothing_away_is_not_accused(clean: str) -> None:
    assert "were not found to come out again: an attacker who holds the model recovers 0 of" in first_page(clean)
    assert examples.held(examples.canaries(0.0))[1].overall == "passed"
    assert examples.held(examples.canaries())[1].overall == "violated"


def test_the_control_stands_in_the_table_and_epsilon_not_among_the_intervals(leaky: str) -> None:
    (shown,) = (table for table in tables(leaky) if any("control" in cell for row in table for cell in row))
    assert [row[0] for row in shown if row][-3:] != []
    assert (
        "Epsilon is at least" not in leaky.partition('id="measurements"')[2].partition("What was done and left out")[0]
    )


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
