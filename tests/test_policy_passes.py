"""Ways in which a leak could pass: each of these gave "passed" once, and must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from test_policy import (
    FAILED,
    INAPPLICABLE,
    LEAKY,
    SAFE,
    completed,
    estimate,
    judge,
    limit,
    measured,
    normal,
    power,
)

from audit.cli import console
from audit.measurements import ALPHAS, Bound, Check, Coverage, Estimate, Measurement, Unresolved
from audit.policy import load
from audit.record import Reason, Result


def area(name: str, value: float, error: float = 0.02) -> Estimate:
    """An area under the curve: chance is 0.5."""
    return replace(normal(name, value, error), null=0.5, null_kind="chance")


def test_an_area_far_under_chance_is_a_leak() -> None:
    # Swapped splits gave AUC 0.071 [0.040, 0.121], an unlearned model 0.015, and both passed "at most 0.65".
    for value in (0.071, 0.015):
        verdict = judge([completed(area("leak", value))], limit(max=0.65))
        assert verdict.exit_code == 10
        assert "opposite sign" in verdict.decisions[0].reason


def test_an_area_a_little_under_chance_is_not_passed() -> None:
    (decision,) = judge([completed(area("leak", 0.45))], limit(max=0.65)).decisions
    assert decision.outcome == "undecided"
    assert "an area under chance tells members as well" in decision.reason


def test_an_area_around_chance_passes() -> None:
    for value in (0.48, 0.5, 0.53):
        assert judge([completed(area("leak", value))], limit(max=0.65)).overall == "passed"


def test_an_area_that_may_lie_beyond_the_mirrored_limit_is_undecided() -> None:
    (decision,) = judge([completed(area("leak", 0.5, 0.1))], limit(max=0.65)).decisions
    assert (decision.outcome, decision.reason) == ("undecided", "the interval reaches over the limit")


def test_a_negative_excess_is_not_passed() -> None:
    # Members and held-out documents exchanged: -0.427 [-0.504, -0.346] passed "at most 0.05".
    swapped = replace(normal("leak", -0.427, 0.04), null=0.0, null_kind="held-out")
    (decision,) = judge([completed(swapped)], limit(max=0.05)).decisions
    assert decision.outcome == "undecided"
    assert "the held-out documents look trained on, unless this is chance" in decision.reason
    assert "draw other held-out documents" in decision.remedy


def test_a_null_that_was_measured_counts_as_zero_where_it_is_above() -> None:
    below_its_null = replace(normal("leak", 0.0, 0.005), null=0.02, null_kind="held-out")
    assert judge([completed(below_its_null)], limit(max=0.05)).overall == "passed"


@given(st.floats(-0.5, 0.5), st.floats(0.001, 0.1))
def test_nothing_wholly_on_the_wrong_side_of_its_null_is_passed(value: float, error: float) -> None:
    measured = replace(normal("leak", value, error), null=0.0, null_kind="held-out")
    verdict = judge([completed(measured)], limit(max=0.05))
    if measured.high < 0:
        assert verdict.overall == "undecided"
    elif measured.high <= 0.05:
        assert verdict.overall == "passed"


ANLS = Estimate("anls", 0.0, 0.0, 0.05, 100, "questions", 50, "made up", 0.02, "chance")


@pytest.mark.parametrize(
    ("utility", "reason"),
    [
        ((ANLS,), "the model does not answer as it is asked: held-out ANLS 0.000 [0.000, 0.050]"),
        ((replace(ANLS, value=0.5, low=0.02, high=0.9),), "always saying the commonest gives 0.020"),
        ((tiny.USEFUL, replace(ANLS, name="intent_accuracy")), "share of held-out intents"),
        ((Unresolved("entity_f1", "no labelled entity", 0),), "could not be measured (held-out entity F1: no labelled"),
        ((), "what the model is good for was not measured"),
    ],
)
def test_a_model_that_does_not_do_its_task_passes_nothing(utility: tuple[Measurement, ...], reason: str) -> None:
    # A wrong prompt or random weights: nothing is remembered, for nothing is said.
    (decision,) = judge([completed(SAFE)], utility=utility).decisions
    assert decision.outcome == "undecided"
    assert reason in decision.reason


def test_a_useless_model_can_still_be_shown_to_leak() -> None:
    assert judge([completed(LEAKY)], utility=(ANLS,)).overall == "violated"


def methods(*names: str) -> dict[str, tuple[str, ...]]:
    return {"leak": names}


def test_the_strongest_method_decides() -> None:
    # Areas of 1.000 stood in the record beside a primary method of 0.497, which passed.
    strong = replace(LEAKY, name="leak.strong")
    found = replace(completed(SAFE, strong), methods=methods("leak", "leak.strong"))
    (decision,) = judge([found]).decisions
    assert decision.outcome == "violated"
    assert decision.measured == strong
    assert judge([replace(found, methods={})]).overall == "passed"


def test_every_method_must_be_within_the_limit() -> None:
    wide = estimate("leak.other", 0.0, 0.06)
    found = replace(completed(SAFE, wide), methods=methods("leak", "leak.other"))
    (decision,) = judge([found]).decisions
    assert (decision.outcome, decision.measured) == ("undecided", wide)


def test_a_method_that_this_case_cannot_have_is_left_out() -> None:
    found = replace(
        completed(SAFE, Unresolved("leak.lira", "no split models", 0)), methods=methods("leak", "leak.lira")
    )
    assert judge([found]).overall == "passed"
    alone = replace(completed(SAFE, Unresolved("leak.lira", "no split models", 0)), methods=methods("leak.lira"))
    assert judge([alone]).decisions[0].measured == SAFE


def test_methods_are_corrected_for_their_number() -> None:
    barely = [estimate(f"leak.{index}", 0.04, 0.3, lower_p=0.05) for index in range(4)]
    assert judge([replace(completed(SAFE, barely[0]), methods=methods("leak.0"))]).overall == "violated"
    found = replace(completed(SAFE, *barely), methods=methods(*(item.name for item in barely)))
    assert judge([found]).overall == "undecided"


numbers = st.builds(normal, st.just("x"), st.floats(-0.1, 0.4), st.floats(0.001, 0.1))


@given(st.lists(numbers, min_size=1, max_size=5), st.floats(0.0, 0.3))
def test_more_methods_never_make_a_pass(chosen: list[Estimate], edge: float) -> None:
    named = [replace(item, name="leak" if not index else f"leak.{index}") for index, item in enumerate(chosen)]
    alone = judge([completed(named[0])], limit(max=edge))
    together = judge([replace(completed(*named), methods=methods(*(item.name for item in named)))], limit(max=edge))
    if together.overall == "passed":
        assert alone.overall == "passed"
        assert all(item.high <= edge for item in named)


def test_an_attack_that_broke_down_is_undecided_whatever_the_policy_does_without() -> None:
    # A MemoryError of the canary attack let a model pass that gives 28 of 34 secrets away.
    safe = completed(SAFE, attack="membership")
    verdict = judge([FAILED, safe], limit(required=False), limit(attack="membership"), battery=BOTH)
    assert verdict.exit_code == 11


BOTH = ("reconstruction", "membership")


@pytest.mark.parametrize(
    ("left_out", "overall"),
    [
        (
            Result(
                "membership",
                status="left out",
                reason=Reason("left out", "this attack was not run", "scan without --only"),
            ),
            "undecided",
        ),
        (
            Result("membership", status="left out", reason=Reason("data", "no canaries", "scan without --only")),
            "passed",
        ),
        (Result("membership", status="left out", reason=Reason("model", "no such head")), "undecided"),
    ],
)
def test_an_attack_left_out_is_excused_by_the_data_set_alone(left_out: Result, overall: str) -> None:
    # --only and a limit that is not required passed, though the data set could have fed the attack.
    asked = limit(attack="membership", required=False)
    assert judge([completed(SAFE)], limit(), asked, battery=BOTH, left_out=(left_out,)).overall == overall


def test_an_inapplicable_attack_needs_a_gap_in_the_policy() -> None:
    other = completed(SAFE, attack="membership")
    results = [INAPPLICABLE, other]
    assert judge(results, limit(), limit(attack="membership"), battery=BOTH).overall == "passed"
    verdict = judge(results, limit(), limit(attack="membership"), battery=BOTH, gaps=())
    assert verdict.overall == "undecided"
    assert "the policy permits no such gap: no such head" in verdict.decisions[0].reason
    assert "[[gaps]]" in verdict.decisions[0].remedy


def test_an_alarm_keeps_its_attack_from_passing() -> None:
    # A one-run bound on epsilon at its cap stood in the record beside "passed".
    found = replace(
        completed(SAFE), checks=(Check("epsilon", 0.001, "alarm", "epsilon is at least 2.32", "train again"),)
    )
    (decision,) = judge([found]).decisions
    assert (decision.outcome, decision.reason) == ("undecided", "epsilon is at least 2.32")
    assert judge([replace(found, measurements=(LEAKY,))]).overall == "violated"


COVERAGE = (Coverage("all", 32, 100), Coverage("location", 3, 100), Coverage("amount", 60, 100))


@pytest.mark.parametrize(
    ("settings", "outcome", "reason"),
    [
        ({"min_coverage": 0.3}, "passed", ""),
        ({"min_coverage": 0.4}, "undecided", "all: 32 of 100 fields"),
        ({"min_category_coverage": 0.03}, "passed", ""),
        ({"min_category_coverage": 0.1}, "undecided", "(location: 3 of 100 fields), the policy asks for 10%"),
    ],
)
def test_a_pass_rests_on_enough_of_what_could_leak(settings: dict[str, float], outcome: str, reason: str) -> None:
    # On real receipts 18 of 623 addresses were tried, and "passed" did not say so.
    (decision,) = judge([replace(completed(SAFE), coverage=COVERAGE)], limit(**settings)).decisions
    assert decision.outcome == outcome
    assert reason in decision.reason


def test_a_pass_says_what_it_rests_on() -> None:
    (decision,) = judge([replace(completed(SAFE), coverage=COVERAGE)]).decisions
    assert "for 32 of 100 fields in documents of training; only 3 of 100 of category location" in decision.reason


def test_a_limit_on_unique_values_rests_on_the_unique_ones_that_were_attacked() -> None:
    number = measured("leak.unique", 0.0, -0.01, 0.01, 100, "fields", 50, "normal")
    found = replace(completed(number), coverage=(Coverage("all", 90, 100, unique=20),))
    asked = limit(metric="leak.unique", min_coverage=0.3)
    (decision,) = judge([found], asked).decisions
    assert (decision.outcome, decision.cause) == ("undecided", "uncovered")
    assert "all: 20 of 100 fields" in decision.reason
    assert "--budget full" in decision.remedy
    (decision,) = judge([found], limit(metric="leak.unique", min_coverage=0.2)).decisions
    assert decision.outcome == "passed"
    assert "for 20 of 100 fields" in decision.reason


def test_coverage_that_is_asked_for_and_not_recorded_is_undecided() -> None:
    assert judge([completed(SAFE)], limit(min_coverage=0.1)).overall == "undecided"


def test_strength_may_be_more_than_one() -> None:
    asked = limit(min_power=5)
    for value, outcome in ((4.9, "undecided"), (5.0, "passed")):
        questions = measured("power", value, value, value, 100, "providers", 50, "counted")
        assert judge([completed(SAFE, questions)], asked).overall == outcome


def counted(name: str, low: float, high: float) -> Estimate:
    bounds = tuple(Bound(alpha, low, high) for alpha in ALPHAS)
    return Estimate(
        name, (low + high) / 2, low, high, 4654, "questions", 900, "made up", 0.0, "held-out", bounds=bounds
    )


def test_a_count_is_limited_by_its_lower_bound() -> None:
    # 168 answers of 4,654 are a share of 3.6 %, and 100 people.
    asked = limit(max=10, holds="lower")
    assert judge([completed(counted("leak", 60, 160))], asked).overall == "violated"
    assert judge([completed(counted("leak", 2, 40))], asked).overall == "passed"


def test_what_the_text_gives_away_is_no_verdict_on_the_model() -> None:
    text = replace(completed(LEAKY, attack="redaction"), about_text=("leak",))
    own = completed(SAFE)
    for setting, code in (("report", 0), ("fail", 10)):
        verdict = judge(
            [own, text], limit(), limit(attack="redaction"), battery=("reconstruction", "redaction"), text=setting
        )
        assert (verdict.overall, verdict.text, verdict.exit_code) == ("passed", "violated", code)
        assert verdict.text_reason == "1 of 1 limits violated"
    alone = judge([text], limit(attack="redaction"), battery=("redaction",))
    assert (alone.overall, alone.text) == ("undecided", "violated")


def test_the_text_is_judged_whatever_the_model_is_good_for() -> None:
    text = Result("redaction", measurements=(SAFE,), about_text=("leak",))
    verdict = judge([text], limit(attack="redaction"), battery=("redaction",), utility=(ANLS,))
    assert verdict.text == "passed"


@pytest.mark.parametrize("changes", [{"n": 0}, {"n": -7}, {"clusters": 0}])
def test_a_number_rests_on_something(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        replace(SAFE, **changes)


def test_a_record_cannot_write_a_verdict_of_its_own_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    # ESC [2J and "PASSED ... exit code 0" in a reason, or a newline and "PASSED", looked like a verdict.
    false = "\x1b[2J\nPASSED  every limit that applies is met  (policy default, exit code 0)"
    results = [replace(INAPPLICABLE, reason=Reason("model", false))]
    console.show_verdict(replace(judge(results, gaps=()), policy=f"mine{false}"))
    printed = capsys.readouterr().out
    assert "\x1b[2J" not in printed
    assert not any(line.startswith("PASSED") for line in printed.splitlines())
    assert "UNDECIDED" in printed


def test_the_default_policy_limits_values_of_several_documents() -> None:
    # Regular customers' values, 0.151 [0.109, 0.193] over those of held-out documents, were gated by nothing.
    asked = [item for item in load("default").limits if item.metric == "excess_pr.repeated"]
    measured = replace(normal("excess_pr.repeated", 0.151, 0.0214), null=0.0, null_kind="held-out")
    found = Result("reconstruction", measurements=(measured, power(0.9)), power="power")
    assert judge([found], *asked).overall in ("violated", "undecided")
