"""What a pass needs of the numbers: the one-sided bounds of every method."""

import datetime as dt
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import tiny
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audit.measurements import ALPHAS, CAUTIOUS_PASS_ALPHA, PASS_ALPHA, Bound, Estimate
from audit.policy import Gap, Limit, Policy, evaluate
from audit.record import Result
from audit.stats import rates

TODAY = dt.date(2026, 11, 22)
ERROR = 0.02


def normal(name: str, value: float, pass_alpha: float | None = PASS_ALPHA) -> Estimate:
    """Make an estimate with normal bounds of standard error `ERROR`."""
    z = NormalDist().inv_cdf
    bounds = tuple(
        Bound(alpha, value - z(1 - alpha) * ERROR, value + z(1 - alpha) * ERROR) for alpha in ALPHAS
    )
    reach = z(0.975) * ERROR
    numbers = (value, value - reach, value + reach, 100, "documents", 100, "normal")
    return Estimate(name, *numbers, bounds=bounds, pass_alpha=pass_alpha)


def outcome(*estimates: Estimate, limit: float = 0.15) -> tuple[str, str]:
    """Hold estimates of one metric, all of them its methods, against a limit."""
    names = tuple(estimate.name for estimate in estimates)
    result = Result(
        "membership",
        measurements=estimates,
        methods={"low": names},
    )
    policy = Policy(
        schema=1,
        name="test",
        limits=(Limit("membership", "low", "because", max=limit),),
        gaps=(Gap("membership", ("mlm",), "made up"),),
    )
    record = tiny.record(result, battery=("membership",))
    (decision,) = evaluate(record, policy, TODAY).decisions
    return decision.outcome, decision.reason


def test_a_pass_needs_the_one_sided_bound_and_not_the_whole_interval_within_the_limit() -> None:
    estimate = normal("low", 0.114)
    assert estimate.high > 0.15 > estimate.pass_bound.upper
    assert outcome(estimate) == ("passed", "the one-sided 95 % bound, 0.147, is within the limit")


def test_a_number_with_short_bounds_needs_the_farther_bound_within_the_limit() -> None:
    assert outcome(normal("low", 0.114, CAUTIOUS_PASS_ALPHA))[0] == "undecided"
    assert outcome(normal("low", 0.110, CAUTIOUS_PASS_ALPHA))[0] == "passed"


def test_a_record_of_an_older_version_passes_by_its_two_sided_interval() -> None:
    assert outcome(normal("low", 0.114, None))[0] == "undecided"


def test_an_area_needs_both_bounds_within_the_limit_and_its_mirror_image() -> None:
    area = replace(normal("low", 0.5), null=0.5, null_kind="chance")
    assert outcome(area, limit=0.54) == (
        "passed",
        "the one-sided 95 % bounds, 0.467 and 0.533, are within the limit",
    )
    assert (
        outcome(replace(normal("low", 0.49), null=0.5, null_kind="chance"), limit=0.54)[0]
        == "undecided"
    )


def test_of_models_at_a_limit_one_in_twenty_passes() -> None:
    values = np.random.default_rng(0).normal(0.15, ERROR, 4000)
    passed = np.mean([normal("low", value).pass_bound.upper <= 0.15 for value in values])
    assert passed == pytest.approx(0.05, abs=0.011)


def test_a_pass_needs_every_method_within_the_limit() -> None:
    assert outcome(normal("low", 0.1), normal("low.calibrated", 0.14))[0] == "undecided"
    assert outcome(normal("low", 0.1), normal("low.calibrated", 0.114))[0] == "passed"


def test_one_method_confirms_a_violation() -> None:
    assert outcome(normal("low", 0.1), normal("low.calibrated", 0.4))[0] == "violated"


SIDES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


def columns_of(side: list[tuple[bool, bool]], flip: bool = False) -> rates.Columns:
    """Return attack, baseline and document of each value; one document holds two values."""
    attack = np.array([found for found, _ in side], float)
    baseline = np.array([found for _, found in side], float)
    if flip:
        attack = 1 - attack
        baseline = 1 - baseline
    return attack, baseline, np.arange(len(side)) // 2


@settings(deadline=None, max_examples=60)
@example([(False, False), (True, False), (True, False)], [(False, False), (False, False)])
@given(SIDES, SIDES)
def test_whether_a_baseline_is_taken_off_never_depends_on_the_sign_of_the_difference(
    member: list[tuple[bool, bool]], heldout: list[tuple[bool, bool]]
) -> None:
    """The choice is the same where sides are exchanged, and where all hits become misses."""
    chosen = rates.needs_baseline([columns_of(member), columns_of(heldout)], by_lot=True)
    assert rates.needs_baseline([columns_of(heldout), columns_of(member)], by_lot=True) == chosen
    flipped = [columns_of(member, flip=True), columns_of(heldout, flip=True)]
    assert rates.needs_baseline(flipped, by_lot=True) == chosen


@settings(deadline=None, max_examples=60)
@given(SIDES, SIDES)
def test_of_a_baseline_that_finds_as_much_on_both_sides_the_spread_alone_decides(
    member: list[tuple[bool, bool]], heldout: list[tuple[bool, bool]]
) -> None:
    """The choice is the same where the hits of one side become misses."""
    balanced = [*member, *((attack, not baseline) for attack, baseline in member)]
    others = [*heldout, *((attack, not baseline) for attack, baseline in heldout)]
    chosen = rates.needs_baseline([columns_of(balanced), columns_of(others)], by_lot=True)
    flipped = [columns_of(balanced, flip=True), columns_of(others)]
    assert rates.needs_baseline(flipped, by_lot=True) == chosen


def test_a_baseline_that_finds_more_in_one_split_is_taken_off_although_a_lot_is_said_to_have_drawn() -> (
    None
):
    rng = np.random.default_rng(5)
    documents = np.arange(100)
    attack = (rng.random(100) < 0.3).astype(float)
    seldom: rates.Columns = (attack, (rng.random(100) < 0.1).astype(float), documents)
    often: rates.Columns = (attack, (rng.random(100) < 0.4).astype(float), documents)
    assert rates.choose_columns([often, seldom], by_lot=True) == [often, seldom]
    assert rates.choose_columns([seldom, often], by_lot=True) == [seldom, often]


def test_a_lot_keeps_a_needless_baseline_out_in_nearly_all_audits() -> None:
    rng = np.random.default_rng(6)
    documents = np.arange(100)
    n_taken_off = 0
    for _ in range(400):
        sides: list[rates.Columns] = []
        for _ in range(2):
            attack, baseline = (rng.random((2, 100)) < 0.2).astype(float)
            sides.append((attack, baseline, documents))
        n_taken_off += rates.needs_baseline(sides, by_lot=True)
    assert n_taken_off <= 12


def test_a_baseline_that_guesses_the_same_values_is_taken_off_and_one_that_guesses_others_is_not() -> (
    None
):
    rng = np.random.default_rng(2)
    documents = np.arange(100)
    guesses = (rng.random(100) < 0.3).astype(float)
    others = (rng.random(100) < 0.3).astype(float)
    alike: rates.Columns = (guesses, guesses, documents)
    apart: rates.Columns = (guesses, others, documents)
    assert rates.choose_columns([alike, alike], by_lot=True) == [alike, alike]
    assert [baseline for _, baseline, _ in rates.choose_columns([apart, apart], by_lot=True)] == [
        None,
        None,
    ]


def test_where_no_lot_chose_the_members_the_baseline_is_always_taken_off() -> None:
    apart: rates.Columns = (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.arange(2))
    assert rates.choose_columns([apart, apart], by_lot=False) == [apart, apart]
