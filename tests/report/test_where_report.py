"""Where values leak, as the annex and leaks.csv show it: numbers of the facts, and no text."""

import csv
import dataclasses
import io

import example_records as examples
import pytest
from shown_pages import Seen

from audit.attacks.figure_text import CurveFigure, CurvePanel
from audit.measurements import (
    Breakdown,
    Curve,
    CurvePoint,
    Estimate,
    Group,
    Histogram,
    Share,
)
from audit.record import Result
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import PeopleFacts
from audit.report.figures import draw, of_method
from audit.report.files import csv_text
from audit.report.html import html
from audit.report.templates import ResultIndex
from audit.report.where import COLUMNS, csv_rows, divisions_of, people_sentence, where_views


def test_kinds_come_with_numerator_and_denominator_of_both_sides_most_first():
    record, verdict, _ = examples.divided()
    (view,) = where_views(facts_of(record, verdict))
    kinds = view.divisions[0]
    assert [(bar.label, bar.trained.words, bar.unseen.words) for bar in kinds.bars] == [
        ("people", "37 of 43 (86\xa0%)", "0 of 41 (0\xa0%)"),
        ("amounts of money", "2 of 50 (4.0\xa0%)", "1 of 48 (2.1\xa0%)"),
    ]
    assert [bar.trained.percent for bar in kinds.bars] == [86.0, 4.0]


def test_a_side_without_values_has_no_bar():
    record, verdict, _ = examples.divided()
    (view,) = where_views(facts_of(record, verdict))
    copies = view.divisions[1]
    assert (copies.bars[1].unseen.words, copies.bars[1].unseen.percent) == ("–", None)


@pytest.mark.parametrize(
    ("attack", "declared", "expected"),
    [
        ("reconstruction", True, ["value back: 30 of 40", "whose a document"]),
        ("attribute_inference", False, ["picked rightly: 30 of 40", "distinct names stand"]),
        ("membership", False, ["nine in ten unseen ones: 30 of 40", "distinct names stand"]),
    ],
)
def test_a_sentence_says_how_many_people_and_what_counts_as_one(attack, declared, expected):
    trained = examples.share("people.member", 30, 40)
    recognised = attack == "membership"
    said = people_sentence(PeopleFacts(attack, recognised, declared, trained, None))
    assert all(words in said for words in expected), said
    assert "95 % CI" in said
    few = people_sentence(PeopleFacts(attack, recognised, declared, None, trained))
    assert "too few to count" in few
    assert "Of unseen documents: 30 of 40" in few


def test_the_table_for_spreadsheets_holds_every_group_and_the_people():
    record, verdict, _ = examples.divided()
    text = csv_text(COLUMNS, csv_rows(facts_of(record, verdict)))
    rows = [tuple(row.values()) for row in csv.DictReader(io.StringIO(text))]
    assert rows == [
        ("reconstruction", "kind", "amount", "2", "50", "1", "48", "fields", "lowest_loss"),
        ("reconstruction", "kind", "person", "37", "43", "0", "41", "fields", "lowest_loss"),
        ("reconstruction", "copies", "1", "37", "80", "0", "80", "fields", "lowest_loss"),
        ("reconstruction", "copies", "over 10", "3", "3", "0", "0", "fields", "lowest_loss"),
        ("reconstruction", "people", "names", "37", "43", "13", "600", "people", "lowest_loss"),
    ]


def test_the_annex_shows_groups_and_people_and_says_so_where_there_are_none():
    record, verdict, policy = examples.divided()
    seen = Seen(html(record, verdict, policy)).text
    assert "37 of 43 (86 %)" in seen
    assert "People of training documents with at least one value back: 37 of 43" in seen
    older = tuple(dataclasses.replace(one, breakdowns=(), people=()) for one in record.attacks)
    without = dataclasses.replace(record, attacks=older)
    assert "No attack ran that divides what it finds." in Seen(html(without, verdict, policy)).text
    assert not [
        item
        for item in record.completed["reconstruction"].people
        if not isinstance(item.member, Estimate)
    ]


def scored(limit_decides: str) -> Histogram:
    """The histogram that the annex draws of a result with scores of two methods."""
    edges = (0.0, 0.5, 1.0)
    bare = Histogram("primary_score", "calibrated", edges, {"member": (1, 9), "held-out": (9, 1)})
    loss = Histogram("primary_score.loss", "loss", edges, {"member": (5, 5), "held-out": (5, 5)})
    other = Histogram("other.name", "alone", edges, {"member": (1, 1)})
    result = Result("membership", histograms=(bare, loss, other))
    drawn = of_method(result, limit_decides)
    assert [histogram.name for histogram in drawn.histograms] == ["primary_score", "other.name"]
    return drawn.histograms[0]


@pytest.mark.parametrize(
    ("method", "quantity"),
    [("", "calibrated"), (".loss", "loss"), (".calibrated", "calibrated")],
)
def test_figures_are_of_the_method_that_decides(method, quantity):
    assert scored(method).quantity == quantity


def test_the_curve_of_false_alarms_shows_the_limit_beyond_guessing():
    points = tuple(CurvePoint(x, x, x, x, 9) for x in (0.0, 0.5, 1.0))
    curve = Curve("roc", "false alarms", "found", {"members": points})
    panel = CurvePanel(
        curve="roc", diagonal=True, beyond="low_fpr_advantage", form="share", x_scale=100
    )
    spec = CurveFigure(panels=(panel,), caption="")
    result = Result("membership", curves=(curve,))
    (without,) = draw([spec], result, 0)
    (drawn,) = draw([spec], result, 0, {"low_fpr_advantage": 0.1})
    assert "#8f1d1d" not in without.svg
    assert str(drawn.svg).count("#8f1d1d") == 1


def test_sentences_show_the_number_that_decides_whatever_the_outcome():
    record, verdict, _ = examples.divided()
    result = record.completed["reconstruction"]
    deciding = facts_of(record, verdict).rows[0].measured
    index = ResultIndex(result, {}, verdict)
    assert index.decisive("excess_pr.unique") == deciding
    met = tuple(dataclasses.replace(one, outcome="passed") for one in verdict.decisions)
    passed = dataclasses.replace(verdict, decisions=met)
    assert ResultIndex(result, {}, passed).decisive("excess_pr.unique") == deciding
    assert ResultIndex(result, {}, None).decisive("excess_pr.unique") != deciding


def test_values_that_are_picked_from_a_list_do_not_come_back():
    record, verdict, _ = examples.divided()
    (row,) = facts_of(record, verdict).rows
    groups = (
        Group("0", Share(9.0, 10), Share(10.0, 10)),
        Group("1", Share(1.0, 10), Share(0.0, 10)),
    )
    documents = Breakdown("documents", "", "documents", groups)
    heads = {}
    for attack in ("reconstruction", "attribute_inference"):
        divided = dataclasses.replace(row, attack=attack, groups={"documents": documents})
        (division,) = divisions_of(divided)
        heads[attack] = division.head
    assert heads == {
        "reconstruction": "Values that came back",
        "attribute_inference": "Values picked rightly",
    }


def test_bars_of_documents_are_counted_by_the_method_that_decides():
    other = Histogram(
        "returned", "values", (-0.5, 0.5, 1.5), {"member": (3, 7), "held-out": (10, 0)}
    )
    groups = (
        Group("0", Share(2.0, 10), Share(9.0, 10)),
        Group("1", Share(7.0, 10), Share(1.0, 10)),
        Group("2", Share(1.0, 10), Share(0.0, 10)),
    )
    documents = Breakdown("documents", ".near", "documents", groups)
    (bars,) = of_method(Result("x", histograms=(other,)), ".near", documents).histograms
    assert bars.counts == {"member": (2, 7, 1), "held-out": (9, 1, 0)}
    assert bars.edges == (-0.5, 0.5, 1.5, 2.5)
