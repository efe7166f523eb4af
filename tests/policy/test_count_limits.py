"""Limits on counts: a share of what is counted with floor and cap, printed as the number that applied."""

from dataclasses import replace

import numpy as np
import pytest
from judged import completed, judge, judged, measured

from audit.attacks import TEXTS
from audit.attacks.membership.scores import COMPARISON
from audit.errors import PolicyError
from audit.measurements import ALPHAS, Bound, Estimate
from audit.policy import Limit, Policy, load
from audit.policy.decision import count_range
from audit.policy.reading import identify
from audit.report import numbers
from audit.report.tables import decision_row
from audit.report.verdicts import compared
from audit.workflows.gate import check_meaning

COUNT = Limit(
    "reconstruction",
    "values_identified",
    "because",
    max=20,
    share=0.02,
    floor=5,
    holds="estimate",
    min_power=0.1,
)
POWER = measured("power", 0.8, 1.0)


def count(
    value: float, low: float, high: float, n: int = 204, total: int | None = 812, **more
) -> Estimate:
    """A count with the same bounds at every level."""
    bounds = tuple(Bound(alpha, low, high) for alpha in ALPHAS)
    return Estimate(
        "values_identified",
        value,
        low,
        high,
        n,
        "values",
        100,
        "made up",
        0.0,
        "held-out",
        bounds=bounds,
        total=total,
        **more,
    )


@pytest.mark.parametrize(
    ("total", "n", "maximum"),
    [
        pytest.param(812, 204, 16, id="2 % of all, not of what was tried"),
        pytest.param(100, 100, 5, id="the floor"),
        pytest.param(4000, 1000, 20, id="the cap"),
        pytest.param(None, 400, 8, id="an older record, of what was tried"),
    ],
)
def test_the_maximum_is_a_share_with_floor_and_cap(total, n, maximum):
    assert COUNT.applied(count(3, 1, 9, n, total)).max == maximum
    assert COUNT.applied(None) == COUNT
    fixed = replace(COUNT, share=None, floor=None)
    assert fixed.applied(count(3, 1, 9, n, total)) == fixed


@pytest.mark.parametrize(
    ("value", "low", "outcome"),
    [(16.0, 2.0, "passed"), (16.5, 2.0, "undecided"), (30.0, 16.5, "violated")],
)
def test_a_verdict_holds_and_prints_the_number_that_applied(value, low, outcome):
    record, verdict = judged([completed(POWER, count(value, low, 60))], COUNT)
    (decision,) = verdict.decisions
    assert (decision.outcome, decision.limit.max) == (outcome, 16)
    assert "limit at most 16" in compared(decision)
    assert decision_row(decision, TEXTS["reconstruction"]).limit == "at most 16"
    assert identify(record, Policy(schema=1, name="test", limits=(COUNT,))).looser == ""


@pytest.mark.parametrize("n", [51, 204, 812])
def test_a_budget_changes_neither_limit_nor_outcome(n):
    """The same model, tried at a sixteenth, a quarter and whole: the count is of all 812 values."""
    outcomes = {
        judge([completed(POWER, count(value, value - 3, value + 9, n))], COUNT).decisions[0].outcome
        for value in (14.0, 14.0)
    }
    assert outcomes == {"passed"}


def test_a_count_whose_bounds_lie_over_its_maximum_is_exceeded():
    tight = tuple(Bound(alpha, 18.0, 60.0) for alpha in ALPHAS)
    early = completed(POWER, replace(count(30, 18, 60), bounds=tight))
    assert judge([early], COUNT).decisions[0].outcome == "violated"
    assert judge([early], replace(COUNT, share=0.1, max=100)).decisions[0].outcome == "passed"


def test_a_count_of_so_few_units_that_none_could_exceed_it_decides_nothing():
    few = completed(POWER, count(0, 0, 2, 5, 5))
    assert judge([few], COUNT).decisions[0].outcome == "undecided"
    assert judge([few], replace(COUNT, required=False)).decisions[0].outcome == "not run"
    quick = completed(POWER, count(0, 0, 2, 5, 200))
    assert judge([quick], COUNT).decisions[0].outcome == "passed"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"metric": "excess_pr.unique", "holds": "interval", "max": 0.05, "floor": None},
            "is not a count",
        ),
        ({"share": None}, "floor: is the least that a share"),
        ({"floor": 21.0}, "floor 21: is over max 20"),
    ],
)
def test_a_share_without_a_meaning_is_refused(changes, problem):
    with pytest.raises(PolicyError, match=problem):
        check_meaning(Policy(schema=1, name="test", limits=(replace(COUNT, **changes),)))


@pytest.mark.parametrize("name", ["default", "strict"])
def test_each_shipped_limit_on_a_count_is_a_share_with_floor_cap_and_coverage(name):
    limits = [limit for limit in load(name).limits if limit.metric in TEXTS[limit.attack].tallies()]
    assert {limit.attack for limit in limits} >= {
        "reconstruction",
        "memorisation",
        "attribute_inference",
        "membership",
    }
    for limit in limits:
        assert limit.share is not None, limit.test
        assert limit.floor is not None, limit.test
        assert limit.min_coverage is not None, limit.test
        assert limit.holds == "estimate", limit.test


def test_strict_allows_no_more_than_default():
    default = {(limit.attack, limit.metric): limit for limit in load("default").limits}
    for limit in load("strict").limits:
        for total in (10, 100, 800, 4000):
            other = default.get((limit.attack, limit.metric))
            if limit.share is not None and other is not None:
                assert (
                    limit.applied(count(0, 0, 0, total, total)).max
                    <= other.applied(count(0, 0, 0, total, total)).max
                )


@pytest.mark.parametrize(
    ("estimate", "amount", "basis", "between", "shown"),
    [
        pytest.param(
            count(390, 350, 430.2),
            "about 390 of 812",
            "204 values tried",
            "350 to 430",
            "between 350 and 431",
            id="scaled",
        ),
        pytest.param(
            count(390, 350, 430, 812),
            "390 of 812",
            "812 values",
            "350 to 430",
            "between 350 and 430",
        ),
        pytest.param(
            count(0, 0, 812, 812, open_above=True),
            "0 of 812",
            "812 values",
            "at least 0",
            "at least 0",
            id="no upper end",
        ),
    ],
)
def test_counts_are_printed_from_one_place(estimate, amount, basis, between, shown):
    plain = {"\u00a0": " "}
    assert numbers.amount(estimate, "number") == amount
    assert numbers.basis(estimate).translate(str.maketrans(plain)) == basis
    assert numbers.between(estimate, "number") == between
    assert count_range(estimate) == shown


def test_two_odd_unseen_documents_hide_members_and_no_upper_end_is_printed():
    """Fifteen members lie six standard deviations out: nothing is shown, and nothing is excluded either."""
    members = np.r_[np.full(15, 6.0), np.linspace(-2, 2, 135)]
    others = np.r_[9.0, 9.0, np.linspace(-2, 2, 148)]
    found = COMPARISON.count_certain("documents_identified", (members, others), 150)
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.open_above, found.total) == (0, 0, True, 150)
    assert numbers.interval(found, "number") == "at least 0"
    assert count_range(found) == "at least 0"
