"""A pass rests on enough: questions that a policy wants answered, and what a policy that warns lets through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from test_policy import (
    FAILED,
    INAPPLICABLE,
    LEAKY,
    NO_DATA,
    NONE,
    OTHER_LEAKY,
    OTHER_SAFE,
    SAFE,
    SECOND,
    SKIPPED,
    TODAY,
    WEAK,
    WIDE,
    completed,
    estimate,
    judge,
    limit,
)

from audit.cards import NO_MODEL
from audit.errors import PolicyError
from audit.measurements import Check, Coverage, Estimate
from audit.policy import Demand, Gap, Policy, evaluate, load
from audit.record import Reason, Result

EXTRACTS = Demand("what the model gives back", ("reconstruction", "memorisation", "canaries"), "why")
RECOGNISES = Demand("whom it was trained on", ("membership",), "why")
BATTERY = ("reconstruction", "memorisation", "membership", "canaries")
LIMITS = (
    limit(),
    limit(attack="memorisation"),
    SECOND,
    limit(attack="canaries", required=False),
    limit("other", attack="canaries", required=False),
)
GAPS = (Gap("reconstruction", ("mlm",), "no such head"), Gap("memorisation", ("mlm",), "no answers"))
NO_ANSWERS = Result("memorisation", status="inapplicable", reason=Reason("model", "the model answers nothing"))
NO_CANARIES = Result("canaries", status="skipped", reason=Reason("data", "no canaries", "docaudit canary insert"))
CANARIES = completed(estimate("leak", -0.01, 0.05), estimate("other", -0.01, 0.05), attack="canaries")
CANARIES_LEAK = completed(estimate("leak", 0.2, 0.3, lower_p=0.001), estimate("other", -0.01, 0.05), attack="canaries")


def demand(*results: Any, gaps: tuple[Gap, ...] = GAPS, **settings: Any) -> Any:
    """A verdict under a policy that asks for one attack that extracts and one that recognises."""
    asked = {"demands": (EXTRACTS, RECOGNISES), "gaps": gaps, "battery": BATTERY, **settings}
    return judge([INAPPLICABLE, NO_ANSWERS, *results], *LIMITS, **asked)


def test_recognition_alone_is_no_pass_where_something_could_have_been_extracted() -> None:
    verdict = demand(OTHER_SAFE, NO_CANARIES)
    assert (verdict.overall, verdict.exit_code) == ("undecided", 11)
    open_ones = [one for one in verdict.decisions if one.outcome == "undecided"]
    assert {one.limit.attack for one in open_ones} == {"canaries"}
    assert {(one.cause, one.remedy) for one in open_ones} == {("unmeasured", "docaudit canary insert")}
    assert "a pass needs to show what the model gives back: reconstruction or memorisation or canaries" in (
        open_ones[0].reason
    )
    assert verdict.reason == "2 of 5 limits undecided, 1 met, 2 not applicable"


def test_without_demands_the_same_record_passes() -> None:
    assert demand(OTHER_SAFE, NO_CANARIES, demands=()).exit_code == 0


def test_extraction_alone_is_no_pass_either() -> None:
    absent = Result(
        "membership", status="skipped", reason=Reason("data", "no public documents", "add public documents")
    )
    limits = (*LIMITS[:2], replace(SECOND, required=False), *LIMITS[3:])
    verdict = judge(
        [INAPPLICABLE, NO_ANSWERS, absent, CANARIES],
        *limits,
        demands=(EXTRACTS, RECOGNISES),
        gaps=GAPS,
        battery=BATTERY,
    )
    (decision,) = (one for one in verdict.decisions if one.outcome == "undecided")
    assert (decision.limit.attack, decision.remedy) == ("membership", "add public documents")
    assert verdict.exit_code == 11


@pytest.mark.parametrize("canaries", [CANARIES, CANARIES_LEAK])
def test_a_decided_limit_answers_a_demand_whatever_became_of_it(canaries: Result) -> None:
    verdict = demand(OTHER_SAFE, canaries)
    assert not [one for one in verdict.decisions if one.outcome == "undecided"]
    assert verdict.overall == ("passed" if canaries is CANARIES else "violated")


def test_a_number_of_too_few_units_answers_no_demand() -> None:
    few = Result("canaries", measurements=(NONE, replace(NONE, name="other")))
    assert demand(OTHER_SAFE, few).exit_code == 11


def test_a_violation_stays_one() -> None:
    assert demand(OTHER_LEAKY, NO_CANARIES).exit_code == 10


def test_what_no_attack_can_ask_is_no_demand_and_the_headline_says_so() -> None:
    gaps = (*GAPS, Gap("canaries", ("mlm",), "ranks nothing"))
    absent = Result("canaries", status="inapplicable", reason=Reason("model", "ranks nothing"))
    for canaries in (absent, NO_CANARIES):
        verdict = demand(OTHER_SAFE, canaries, gaps=gaps)
        assert verdict.exit_code == 0
        assert "no attack can ask a model of this kind what the model gives back, as the policy permits" in (
            verdict.reason
        )


def test_every_missing_attack_has_to_be_a_gap_of_its_own() -> None:
    absent = Result("canaries", status="inapplicable", reason=Reason("model", "ranks nothing"))
    verdict = demand(OTHER_SAFE, absent)
    assert verdict.exit_code == 11
    assert {one.cause for one in verdict.decisions if one.outcome == "undecided"} == {"gap"}


def test_the_first_attack_that_can_be_asked_names_the_remedy() -> None:
    answers = Result(
        "memorisation", status="skipped", reason=Reason("data", "no questions", "give documents questions")
    )
    limits = (LIMITS[0], replace(LIMITS[1], required=False), *LIMITS[2:])
    verdict = judge(
        [INAPPLICABLE, answers, OTHER_SAFE, NO_CANARIES],
        *limits,
        demands=(EXTRACTS,),
        gaps=GAPS[:1],
        battery=BATTERY,
    )
    assert {one.remedy for one in verdict.decisions if one.outcome == "undecided"} == {"give documents questions"}


def test_a_text_alone_is_asked_for_no_model() -> None:
    policy = Policy(1, "mine", (limit("told", attack="redaction"), *LIMITS), demands=(EXTRACTS,))
    told = replace(completed(replace(SAFE, name="told"), attack="redaction"), about_text=("told",))
    absent = [Result(name, status="inapplicable", reason=Reason("model", "no model was audited")) for name in BATTERY]
    record = tiny.record(told, *absent, battery=("redaction", *BATTERY), utility=())
    verdict = evaluate(replace(record, target=replace(record.target, family=NO_MODEL)), policy, TODAY)
    assert (verdict.overall, verdict.exit_code) == ("passed", 0)


def test_the_headline_names_what_was_not_examined() -> None:
    verdict = demand(OTHER_SAFE, CANARIES)
    assert verdict.reason == ("3 of 5 limits met, 2 not applicable (reconstruction, memorisation)")
    partly = completed(estimate("leak", -0.01, 0.05), replace(NONE, name="other"), attack="canaries")
    assert "1 not tested (canaries in part: fewer than two documents (n = 1; 20 would be needed))" in (
        demand(OTHER_SAFE, partly).reason
    )
    assert "2 not tested (canaries: no canaries)" in demand(OTHER_SAFE, NO_CANARIES, demands=()).reason
    assert demand(OTHER_LEAKY, CANARIES).reason == "1 of 5 limits violated, 2 met, 2 not applicable"


def test_an_attack_that_was_left_out_names_what_the_data_lacks() -> None:
    left_out = Result("canaries", status="left out", reason=Reason("data", "no canaries", "scan without --only"))
    verdict = demand(OTHER_SAFE, left_out=(left_out,))
    assert (verdict.exit_code, verdict.overall) == (11, "undecided")


@pytest.mark.parametrize("name", ["default", "strict"])
def test_the_shipped_policies_ask_for_extraction_and_recognition(name: str) -> None:
    extracts, recognises = load(name).demands
    assert {*extracts.any_of} == {"reconstruction", "memorisation", "canaries", "attribute_inference"}
    assert {*recognises.any_of} == {"membership", "provider_membership"}


def written(tmp_path: Path, demands: str) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(
        'schema = 1\nname = "mine"\n\n[[limits]]\nattack = "membership"\nmetric = "auc"\nmax = 0.65\n'
        f'rationale = "because"\n\n[[demands]]\n{demands}'
    )
    return str(path)


@pytest.mark.parametrize(
    ("demands", "said"),
    [
        ('question = "q"\nany_of = ["canaries"]\nrationale = "r"\n', r"demands.0.any_of: no limit on canaries"),
        ('question = "q"\nany_of = []\nrationale = "r"\n', "any_of"),
        ('question = "q"\nany_of = ["membership"]\n', "rationale"),
        ('question = " "\nany_of = ["membership"]\nrationale = "r"\n', "question"),
        ('question = "q\\u202e"\nany_of = ["membership"]\nrationale = "r"\n', "cannot be seen"),
    ],
)
def test_a_demand_that_nothing_can_answer_is_refused(demands: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=said):
        load(written(tmp_path, demands))
    assert load(written(tmp_path, 'question = "q"\nany_of = ["membership"]\nrationale = "r"\n')).demands


# undecided = "warn"

CONFOUNDED = replace(completed(SAFE), confounded="the members look different")
ALARMED = replace(completed(SAFE), checks=(Check("epsilon", 0.001, "alarm", "something leaks", "train again"),))
UNCOVERED = replace(completed(SAFE), coverage=(Coverage("all", 1, 100),))
WRONG = completed(estimate("leak", -0.3, -0.1, upper_p=0.0001, edge=-0.1))
OVER = completed(estimate("leak", 0.06, 0.3, lower_p=0.1))


@pytest.mark.parametrize(
    ("result", "asked", "cause"),
    [
        (CONFOUNDED, limit(), "confounded"),
        (WRONG, limit(), "confounded"),
        (replace(completed(SAFE), ablations=("no image",)), limit(), "weakened"),
        (completed(SAFE, WEAK), limit(min_power=0.5), "weak"),
        (ALARMED, limit(), "alarm"),
        (UNCOVERED, limit(min_coverage=0.3), "uncovered"),
        (SKIPPED, limit(), "unmeasured"),
        (NO_DATA, limit(), "unmeasured"),
        (FAILED, limit(), "unmeasured"),
        (INAPPLICABLE, limit(), "gap"),
        (completed(replace(SAFE, name="other")), limit(), "unmeasured"),
        (OVER, limit(), "the interval lies over the limit"),
    ],
)
def test_a_policy_that_warns_lets_nothing_through_but_width(result: Any, asked: Any, cause: str) -> None:
    verdict = judge([result], asked, undecided="warn", gaps=())
    assert (verdict.overall, verdict.exit_code) == ("undecided", 11)
    assert verdict.reason.endswith(f'; undecided = "warn" covers width alone, not reconstruction leak ({cause})')


def test_a_useless_model_is_not_let_through() -> None:
    useless = Estimate("anls", 0.1, 0.0, 0.2, 50, "questions", 20, "m", 0.3, "chance")
    verdict = judge([completed(SAFE)], undecided="warn", utility=(useless,))
    assert verdict.exit_code == 11
    assert "(useless)" in verdict.reason


@pytest.mark.parametrize("result", [completed(WIDE), completed(NONE)])
def test_a_policy_that_warns_lets_width_through(result: Result) -> None:
    verdict = judge([result], undecided="warn")
    assert (verdict.overall, verdict.exit_code) == ("undecided", 0)
    assert "warn" not in verdict.reason


def test_one_cause_beside_width_keeps_the_gate_shut() -> None:
    verdict = judge(
        [completed(WIDE), replace(OTHER_SAFE, confounded="easier")],
        limit(),
        SECOND,
        battery=("reconstruction", "membership"),
        undecided="warn",
    )
    assert verdict.exit_code == 11
    assert "not membership leak (confounded)" in verdict.reason


def test_an_audit_that_decides_nothing_is_not_let_through() -> None:
    verdict = judge([INAPPLICABLE], undecided="warn")
    assert (verdict.overall, verdict.exit_code) == ("undecided", 11)
    assert "covers width alone, not an audit that decides nothing" in verdict.reason


def test_a_question_that_a_pass_needs_is_not_let_through() -> None:
    assert demand(OTHER_SAFE, NO_CANARIES, undecided="warn").exit_code == 11


def test_violations_stay_violations_under_a_policy_that_warns() -> None:
    assert judge([completed(LEAKY)], undecided="warn").exit_code == 10


# counts


def counted(n: int) -> Result:
    return completed(replace(estimate("leak", 0.0, 3.0, edge=10.0), n=n, clusters=n, unit="values"))


@pytest.mark.parametrize(("n", "outcome"), [(10, "not run"), (11, "passed")])
def test_a_count_that_could_not_exceed_its_limit_meets_it_not(n: int, outcome: str) -> None:
    asked = limit(max=10.0, holds="lower", required=False)
    (decision,) = judge([counted(n)], asked).decisions
    assert decision.outcome == outcome
    if outcome == "not run":
        assert decision.reason == "10 values were tried, so that the count can not exceed 10"


def test_a_required_count_that_could_not_exceed_its_limit_is_undecided() -> None:
    (decision,) = judge([counted(10)], limit(max=10.0, holds="lower")).decisions
    assert (decision.outcome, decision.cause) == ("undecided", "unresolved")
    assert decision.remedy
