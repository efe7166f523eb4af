"""The remedies recommended for each finding, and their ranking by what was measured here, else elsewhere."""

import dataclasses
import re
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import example_records as examples
import pytest

from audit.compare.defended import Effect, LimitChange, LimitUse, MeasuredDefense
from audit.defenses.remedy import Evidence, FindingState, Remedy
from audit.errors import RecordError
from audit.measurements import Estimate
from audit.policy import Gap, Limit, Policy, grounds
from audit.record import Result
from audit.report.action import first_action
from audit.report.commands import Called, Commands
from audit.report.facts.actions import STATE_LABELS
from audit.report.facts.build import facts_of
from audit.report.facts.recommend import (
    Recommendation,
    effect_sentence,
    findings,
    recommend,
)
from audit.report.remedies import remedies
from audit.workflows.report import refuse_other_audit

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OWN = [(remedy.id, one) for remedy in remedies() for one in remedy.evidence if one.by == "docaudit"]
UNIQUE = ("excess_pr.unique", "excess_hamming.unique")


def compared(name: str, outcome: str, after: str, low: float) -> MeasuredDefense:
    """A countermeasure measured on the model of the violated example."""
    change = Estimate(
        "excess_pr.unique",
        low + 0.1,
        low,
        low + 0.2,
        150,
        "fields",
        150,
        "made up",
        0.0,
        "held-out",
    )
    limits = tuple(
        LimitChange("reconstruction", one, LimitUse("violated"), LimitUse(outcome))
        for one in UNIQUE
    )
    effects = (Effect("reconstruction", "excess_pr.unique", None, None, change),)
    return examples.comparison(name, limits=limits, effects=effects, verdict_after=after)


def ranked(*comparisons: MeasuredDefense) -> dict[str, Recommendation]:
    record, verdict, _ = examples.violated()
    return {item.remedy.id: item for item in recommend(record, verdict, comparisons)}


def lost(before: float, after: float) -> Effect:
    sides = [examples.share("entity_f1", round(100 * value), 100) for value in (before, after)]
    return Effect("", "entity_f1", *sides)


def test_what_cannot_lift_a_violation_stands_behind_what_can() -> None:
    ids = list(ranked())
    assert ids.index("differential-privacy") < ids.index("sanitise"), "it was measured elsewhere"
    assert ids.index("sanitise") < ids.index("train-less"), "that is no remedy alone"
    assert ids.index("train-less") < ids.index("keep-weights"), "that changes no verdict"


def test_a_remedy_that_was_measured_to_stop_the_leak_stands_first_whatever_its_price() -> None:
    stopped = dataclasses.replace(
        compared("scrub", "undecided", "undecided", -0.7), usefulness=(lost(1.0, 0.76),)
    )
    items = ranked(stopped)
    assert next(iter(items)) == "sanitise"
    assert items["sanitise"].verdict.startswith("Open. Measured on this model")
    assert "fields found (F1) 100 % → 76 %" in items["sanitise"].effect.replace("\u00a0", " ")


def test_no_countermeasure_that_destroys_a_model_stands_before_another() -> None:
    items = ranked(compared("scrub", "passed", "passed", -0.7))
    assert next(iter(items)) == "sanitise"
    assert "goes from “limits exceeded” to “limits met”" in items["sanitise"].verdict
    assert items["sanitise"].measured
    useless = dataclasses.replace(
        compared("scrub", "passed", "passed", -0.7), usefulness=(lost(1.0, 0.31),)
    )
    ids = list(ranked(useless))
    assert ids.index("differential-privacy") < ids.index("sanitise") < ids.index("keep-weights")
    harmless = dataclasses.replace(
        compared("scrub", "passed", "passed", -0.7), usefulness=(lost(1.0, 0.91),)
    )
    assert next(iter(ranked(harmless))) == "sanitise"


def test_a_remedy_against_every_exceeded_attack_stands_before_one_against_a_part() -> None:
    """Blocking is against answers, so that no verdict changes by it while documents are known."""
    answers = examples.mean("net", 0.51, 0.02, 160, 0.0, "held-out")
    documents = examples.mean("auc", 0.95, 0.02, 320, 0.5, "chance")
    limits = (
        Limit("memorisation", "net", "made up", max=0.05),
        Limit("membership", "auc", "made up", max=0.65),
    )
    results = (
        Result("memorisation", measurements=(answers,)),
        Result("membership", measurements=(documents,)),
    )
    record = examples.record(*results, battery=("memorisation", "membership"))
    policy = dataclasses.replace(examples.policy(), limits=limits)
    record, verdict, _ = examples.judged(record, policy)
    outcomes = [decision.outcome for decision in verdict.decisions]
    assert outcomes == ["violated", "violated"]
    ids = [item.remedy.id for item in recommend(record, verdict)]
    assert ids.index("differential-privacy") < ids.index("extraction-blocking")


@pytest.mark.parametrize("remedy_id", [item.id for item in remedies()])
def test_no_remedy_is_recommended_by_a_leak_that_rose(remedy_id: str) -> None:
    """A share of wrong words rises where the leak falls, and was read the wrong way round."""
    risen = []
    for evidence in remedy(remedy_id).evidence:
        before, after = evidence.leaks
        if after >= before:
            risen.append(evidence)
    assert risen == []


def test_the_cost_in_usefulness_is_printed_beside_the_effect_by_every_measure() -> None:
    effects = ranked()["differential-privacy"].expected
    assert "usefulness there: hidden words predicted 66.3 → 56.7 %" in effects[0].replace(
        "\u00a0", " "
    )
    (excess,) = (one for one in remedy("differential-privacy").evidence if one.metric == "excess")
    assert [one.measure for one in excess.useful] == ["entity F1", "intent accuracy"]
    assert effects[0].startswith("Measured by docaudit on receipts")
    assert effects[0].endswith("Measured once, on another model")


def remedy(name: str) -> Remedy:
    return next(one for one in remedies() if one.id == name)


MEASURES = {
    "entity_f1": "entity F1",
    "intent_accuracy": "intent accuracy",
    "masked_token_accuracy": "hidden words predicted",
    "anls": "ANLS on unseen documents",
}
SECTIONS = {
    "receipts": "receipts, epsilon 8",
    "utterances": "utterances, epsilon 8",
    "a small Donut": "questions, epsilon 8",
}


@pytest.mark.parametrize(
    "evidence",
    [one for _, one in OWN if one.source == "benchmarks/calibration/dp_samples"],
    ids=lambda one: f"{one.attack}-{one.metric}",
)
def test_every_measure_of_usefulness_that_a_benchmark_took_is_told(evidence: Evidence) -> None:
    text = (BENCHMARKS.parent / evidence.source / "README.md").read_text(encoding="utf-8")
    section = next(name for start, name in SECTIONS.items() if evidence.setting.startswith(start))
    _, _, own = text.partition(f"## {section}")
    rows = re.findall(r"\| (\w+) \| ([\d.]+) [^|]*\| ([\d.]+) ", own.partition("## ")[0])
    told = {
        (MEASURES[name], float(before), float(after))
        for name, before, after in rows
        if name in MEASURES
    }
    assert told == {(one.measure, one.before, one.after) for one in evidence.useful}


def test_whether_the_verdict_can_change_is_answered_with_yes_no_or_not_known() -> None:
    cases = [examples.violated(), examples.waived(), examples.passed(), examples.wide()]
    comparisons = (
        compared("scrub", "passed", "passed", -0.7),
        compared("dp", "violated", "violated", -0.1),
    )
    found = [item.verdict for record, verdict, _ in cases for item in recommend(record, verdict)]
    found += [item.verdict for item in recommend(*cases[0][:2], comparisons)]
    assert {
        next(
            (
                one
                for one in ("Yes", "No", "Not yet measured", "Open", "Estimate")
                if text.startswith(one)
            ),
            text,
        )
        for text in found
    } == {"Yes", "No", "Open", "Estimate"}


def test_what_the_attacker_is_not_hindered_by_says_no() -> None:
    item = ranked()["keep-weights"]
    assert item.verdict.startswith("No. The audited attacker holds the model")
    assert (item.expected, item.command) == ((), "")


def test_a_countermeasure_that_changed_nothing_here_falls_behind_one_nobody_measured() -> None:
    ids = list(ranked(compared("dp", "violated", "violated", -0.1)))
    assert ids.index("sanitise") < ids.index("differential-privacy") < ids.index("keep-weights"), (
        "no cost was measured here"
    )


def test_a_countermeasure_is_tried_with_the_arguments_of_the_scan() -> None:
    record, verdict, _ = examples.violated()
    commands = [item.command for item in recommend(record, verdict) if item.remedy.id == "sanitise"]
    assert commands == ["docaudit fix SCAN_DIR --try scrub"]


def test_a_command_repeats_the_policy_the_budget_and_the_seed_of_the_scan() -> None:
    record, verdict, _ = examples.weak()
    other = dataclasses.replace(record, seed=7, budget="quick")
    commands = [item.command for item in recommend(other, verdict)]
    scans = [command for command in commands if command.startswith("docaudit scan ")]
    repeated = "docaudit scan MODEL_DIR DATA_DIR --policy default --budget full --seed 7 --out OUT"
    assert repeated in scans


def test_every_command_that_a_remedy_names_can_be_written() -> None:
    record, verdict, _ = examples.violated()
    commands = Commands(record, verdict, Called())
    for remedy in remedies():
        if remedy.command or remedy.measured_by:
            assert commands.of_remedy(remedy).startswith("docaudit "), remedy.id


def test_what_was_left_untried_is_the_first_thing_to_do_wherever_it_is_read() -> None:
    record, verdict, _ = examples.wide()
    decisions = tuple(
        dataclasses.replace(item, remedy_id=grounds.Remedy.ALL) for item in verdict.decisions
    )
    facts = facts_of(
        dataclasses.replace(record, budget="quick", share=0.25),
        dataclasses.replace(verdict, decisions=decisions),
    )
    assert facts.actions[0].remedy.id == "try-everything"
    step = first_action(facts)
    assert step is not None
    assert step.command == facts.actions[0].command


@pytest.mark.parametrize(
    ("remedy", "evidence"), OWN, ids=[f"{name}-{one.attack}-{one.metric}" for name, one in OWN]
)
def test_docaudits_own_evidence_stands_in_the_benchmark_that_it_names(
    remedy: str, evidence: Evidence
) -> None:
    text = (BENCHMARKS.parent / evidence.source / "README.md").read_text(encoding="utf-8")
    for value in (evidence.before, evidence.after):
        assert any(f"{value:.{digits}f}" in text for digits in (2, 3)), (remedy, value)


def test_own_evidence_stands_before_published_evidence() -> None:
    for remedy in remedies():
        authors = [one.by for one in remedy.evidence]
        assert authors == sorted(authors), remedy.id


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("violated", "differential-privacy"),
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


def test_what_a_policy_does_without_calls_for_nothing() -> None:
    absent = Limit("canaries", "excess", "r", max=0.2, required=False)
    skipped = examples.gone(
        "canaries", "skipped", "data", "the data set holds no canaries", "plant some before"
    )
    policy = Policy(schema=1, name="p", limits=(*examples.policy().limits, absent))
    kept = examples.record(
        examples.reconstruction(0.0), skipped, battery=("reconstruction", "canaries")
    )
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
    assert recommend(record, verdict)[0].remedy.id == "differential-privacy"


def test_the_shipped_countermeasures_are_complete_and_every_state_has_an_answer() -> None:
    shipped = remedies()
    assert len({item.id for item in shipped}) == len(shipped)
    assert all(all((item.name, item.does, item.cost, item.check, item.source)) for item in shipped)
    assert set(STATE_LABELS) == set(get_args(FindingState))
    # What a policy does not limit is answered by what answers a violation.
    assert {
        state for item in shipped for answer in item.answers for state in answer.finding
    } == set(get_args(FindingState)) - {"outside"}


def test_any_attack_that_could_not_be_examined_has_an_answer() -> None:
    result = examples.gone("reconstruction", "inapplicable", "model", "no loss")
    limits = (*examples.policy().limits, Limit("canaries", "epsilon", "r", max=1.0))
    gaps = (Gap("reconstruction", ("mlm",), "memorisation asks them"),)
    for permitted, expected in (
        (gaps, ["provide-what-lacks"]),
        ((), ["provide-what-lacks", "policy-that-applies"]),
    ):
        policy = Policy(schema=1, name="p", limits=limits, gaps=permitted)
        record, verdict, _ = examples.judged(
            examples.record(result, battery=("reconstruction", "canaries")), policy
        )
        assert [item.remedy.id for item in recommend(record, verdict)] == expected


def test_commands_name_a_policy_that_there_is() -> None:
    record, verdict, _ = examples.wide()
    assert any("--policy default" in item.command for item in recommend(record, verdict))
    own = dataclasses.replace(verdict, policy="receipts-team")
    commands = [item.command for item in recommend(record, own) if "--policy" in item.command]
    assert commands
    assert all("--policy POLICY.toml" in command for command in commands)


@pytest.mark.parametrize("changes", [{}, {"target": "0" * 64}, {"data": "0" * 64}])
def test_measured_effects_on_another_model_or_data_set_are_refused(changes: dict[str, str]) -> None:
    made = examples.comparison("scrub", **changes)
    record = examples.violated()[0]
    with pytest.raises(RecordError, match="was measured on another") if changes else nullcontext():
        refuse_other_audit(made, record)


def test_the_sentence_says_that_usefulness_was_not_measured() -> None:
    assert "usefulness was not measured" in effect_sentence(
        compared("scrub", "passed", "passed", -0.7), ()
    )


def test_the_leak_before_a_countermeasure_is_the_number_of_the_row() -> None:
    record, verdict, _ = examples.violated()
    (limit, *_) = [item.limit for item in verdict.decisions if item.outcome == "violated"]
    measured = verdict.decisions[0].measured
    assert measured is not None
    comparison = compared("scrub", "violated", "undecided", -0.7)
    before = LimitUse("violated", number=measured.value)
    after = LimitUse("passed", number=0.0)
    changes = (LimitChange(limit.attack, limit.metric, before, after),)
    comparison = dataclasses.replace(comparison, limits=changes)
    sanitise = {item.remedy.id: item for item in recommend(record, verdict, [comparison])}[
        "sanitise"
    ]
    assert "leak 60 points → 0 points" in sanitise.effect.replace("\u00a0", " ")
