"""The countermeasure recommended for each finding."""

from __future__ import annotations

import dataclasses
from typing import get_args

import example_records as examples
import pytest

from audit.policy import Gap, Limit, Policy
from audit.record import Inapplicable, Skipped
from audit.report.recommend import ORDER, FindingState, findings, recommend, remedies


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("violated", "sanitise"),
        ("passed", "provide-what-lacks"),
        ("weak", "stronger-attacker"),
        ("wide", "more-documents"),
        ("unresolved", "more-documents"),
        ("skipped", "provide-what-lacks"),
        ("failed", "provide-what-lacks"),
        ("inapplicable", "policy-that-applies"),
        ("waived", "keep-weights"),
    ],
)
def test_the_first_recommendation_answers_the_finding(case: str, first: str) -> None:
    record, verdict, _ = examples.CASES[case]()
    assert recommend(record, verdict)[0].remedy.id == first


def test_nothing_that_changes_the_model_is_recommended_when_nothing_was_violated() -> None:
    record, verdict, _ = examples.passed()
    assert [item.remedy.id for item in recommend(record, verdict)] == ["provide-what-lacks"], (
        "membership was not decided"
    )


def test_a_leak_of_repeated_values_calls_for_deduplication_though_no_limit_names_it() -> None:
    record, verdict, _ = examples.violated()
    found = {item.remedy.id: item.findings for item in recommend(record, verdict)}
    expected = {"excess_pr.repeated"}
    assert {finding.metric for finding in found["deduplicate"]} == expected
    assert {finding.state for finding in found["deduplicate"]} == {"above"}


def test_what_a_policy_does_without_calls_for_nothing() -> None:
    absent = Limit("canaries", "excess", "r", max=0.2, required=False)
    skipped = Skipped("canaries", ("excess",), "the data set holds no canaries", "put some in", by_data=True)
    policy = Policy(schema=1, name="p", limits=(*examples.policy().limits, absent))
    kept = examples.record(examples.reconstruction(0.0), skipped, battery=("reconstruction", "canaries"))
    record, verdict, _ = examples.judged(kept, policy)
    assert verdict.overall == "passed"
    assert [item.remedy.id for item in recommend(record, verdict)] == ["provide-what-lacks"], (
        "membership was not decided"
    )


def test_a_violation_comes_before_everything_else() -> None:
    wide = Limit("reconstruction", "excess_pr.repeated", "r", max=0.7, min_power=0.99)
    policy = Policy(schema=1, name="p", limits=(wide, *examples.policy().limits))
    record, verdict, _ = examples.judged(examples.record(examples.reconstruction(0.6)), policy)
    assert {finding.state for finding in findings(record, verdict)} == {"violated", "weak"}
    assert recommend(record, verdict)[0].remedy.id == "sanitise"


def test_the_shipped_countermeasures_are_complete_and_every_state_has_an_answer() -> None:
    shipped = remedies()
    assert len({item.id for item in shipped}) == len(shipped)
    assert all(all((item.name, item.does, item.cost, item.check, item.source)) for item in shipped)
    # What a policy does not limit is answered by what answers a violation.
    assert {state for item in shipped for answer in item.answers for state in answer.finding} == set(
        get_args(FindingState)
    ) - {"outside"}
    assert set(ORDER) == set(get_args(FindingState))


def test_any_attack_that_could_not_be_examined_has_an_answer() -> None:
    result = Inapplicable("reconstruction", examples.METRICS, "no loss")
    limits = (*examples.policy().limits, Limit("canaries", "epsilon", "r", max=1.0))
    gaps = (Gap("reconstruction", ("mlm",), "memorisation asks them"),)
    for permitted, expected in ((gaps, ["provide-what-lacks"]), ((), ["provide-what-lacks", "policy-that-applies"])):
        policy = Policy(schema=1, name="p", limits=limits, gaps=permitted)
        record, verdict, _ = examples.judged(examples.record(result, battery=("reconstruction", "canaries")), policy)
        assert [item.remedy.id for item in recommend(record, verdict)] == expected


def test_commands_name_a_policy_that_there_is() -> None:
    record, verdict, _ = examples.violated()
    assert any("--policy default " in item.command for item in recommend(record, verdict))
    own = dataclasses.replace(verdict, policy="receipts-team")
    commands = [item.command for item in recommend(record, own) if "--policy" in item.command]
    assert commands
    assert all("--policy POLICY.toml" in command for command in commands)
