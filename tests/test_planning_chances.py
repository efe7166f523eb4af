"""`docaudit plan`: what a limit cannot show, the chance to pass a whole policy, and models too slow for a trial."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import redacted
from test_planning import AUC, EXCESS, GIVEN, NET, checked, corpus, limit, pages, planned, providers

from audit.attacks.redaction import RedactionContext
from audit.cli.plan_tables import costs_table, limits_table
from audit.corpus import manifest
from audit.policy import Demand, Gap, Policy
from audit.stats.power import pass_power
from audit.workflows.plan import timing
from audit.workflows.plan.costs import Cost, at_most
from audit.workflows.plan.limits import Blocker, plan_limits
from audit.workflows.plan.summary import as_json, conclusion, joint, total_time

ROOT = Path(__file__).parents[1]
LIFT = limit("redaction", "lift_over_length", max=0.10, required=False)
SHARE = replace(LIFT, metric="lift_share", max=0.20)
WORST = replace(LIFT, metric="worst_class", max=0.30)
GAIN = replace(LIFT, metric="target_gain", max=0.10)


def lopsided():
    """Letters with 551 dates and 43 personal traits."""
    data, found, documents = manifest.load(ROOT / "sample_models" / "letters" / "data"), 0, []
    for document in data.documents:
        entities = []
        for entity in document.entities:
            rare = entity.category == "demographic" and found < 43
            found += rare
            entities.append(replace(entity, attack=rare or entity.category == "datetime"))
        documents.append(replace(document, entities=tuple(entities)))
    return replace(data, documents=tuple(documents))


def test_limits_on_the_text_rest_on_what_a_common_kind_leaves():
    found = planned(lopsided(), LIFT, SHARE, WORST, GAIN)
    _, share, worst, gain = found.limits
    assert [one.metric for one in found.limits if one.about_text] == ["lift_over_length", "lift_share", "worst_class"]
    assert share.resolution.effect == pytest.approx(0.30)
    assert share.resolution.members == worst.resolution.members == 33
    assert not gain.about_text
    assert planned(manifest.load(ROOT / "sample_models" / "letters" / "data"), LIFT).limits[0].outcome == "decides"


def test_all_methods_of_a_question_must_pass(monkeypatch):
    made = manifest.load(ROOT / "sample_models" / "letters" / "data")
    units = RedactionContext.units

    def resolution(methods):
        several = lambda attack, data: tuple(replace(unit, methods=methods) for unit in units(attack, data))  # noqa: E731
        monkeypatch.setattr(RedactionContext, "units", several)
        return planned(made, SHARE).limits[0].resolution

    one, four = resolution(1), resolution(4)
    assert (one.methods, four.methods) == (1, 4)
    assert (one.at_least, four.at_least) == (False, True)
    assert four.pass_power == pytest.approx(1 - 4 * (1 - one.pass_power))
    assert four.power <= one.power
    assert four.needed >= one.needed
    for methods, least in ((1, False), (4, True)):
        resolution(methods)
        row = limits_table(planned(redacted.texts(20, told=True), SHARE))[2][0]
        assert row[3].startswith(">= ") == least


def test_areas_pass_on_both_sides_of_chance_and_forests_pass_more_often_than_said():
    made = corpus(providers(35, 34), assigned="by-provider")
    accuracy, auc = (limit("provider_membership", metric, max=0.65) for metric in ("balanced_accuracy", "auc"))
    found = planned(made, accuracy, auc).limits
    assert [one.resolution.at_least for one in found] == [True, True]
    assert "in at least " in found[0].reason
    # On one side of chance 0.88.
    assert pass_power("auc", 70, 70, 0.65) == pytest.approx(0.763, abs=0.001)


def test_the_chance_to_pass_the_whole_policy_is_one_number_with_the_checks_share():
    made = corpus(pages(150, 150), "token-classification")
    found = planned(made, AUC, EXCESS, limit("reconstruction", "excess_hamming.unique", max=0.1))
    chances = [one.resolution.pass_power for one in found.limits]
    whole = joint(found)
    assert whole.chance == pytest.approx(0.95 * chances[0] * chances[1] * chances[2])
    assert not whole.blocked
    said = f"A leak-free model would pass all 3 limits in about {100 * whole.chance:.0f} % of audits."
    assert conclusion(found).count("of audits") == conclusion(found).count(said) == 1
    # More documents cure width, and no false alarm.
    many = joint(planned(corpus(pages(3_000, 3_000), "token-classification"), AUC))
    assert many.chance == pytest.approx(0.95 * many.limits[0].resolution.pass_power)
    assert many.chance <= 0.95


def test_what_the_text_gives_away_is_not_part_of_it():
    made = replace(manifest.load(ROOT / "sample_models" / "letters" / "data"))
    found = planned(made, GAIN, SHARE, WORST)
    assert [one.metric for one in joint(found).limits] == ["target_gain"]


def test_a_policy_that_no_model_passes_here_is_said_to_be_one():
    made = corpus(pages(150, 150), "token-classification", references=replace(GIVEN, auxiliary=None, pretrained=None))
    found = planned(made, AUC, EXCESS, limit("canaries", "excess", max=0.2, required=False))
    assert [one.attack for one in joint(found).blocked] == ["reconstruction"]
    assert "As it is, no model passes the whole policy: see reconstruction excess_pr.unique." in conclusion(found)
    assert (
        f"Once that is mended, a leak-free model would pass all 2 limits that the data set has units for in about "
        f"{100 * joint(found).chance:.0f} % of audits."
    ) in conclusion(found)


def test_an_attack_that_models_of_a_task_go_without_blocks_nothing_where_the_policy_permits_it():
    made = corpus(pages(150, 150), "token-classification")
    for gaps, outcome, blocked in (
        ((), "lacks", 1),
        ((Gap("memorisation", ("token-classification",), "r"),), "inapplicable", 0),
    ):
        unasked = replace(made, documents=tuple(replace(one, questions=()) for one in made.documents))
        policy = checked(Policy(1, "mine", (AUC, NET), gaps=gaps))
        found = plan_limits(unasked, policy, "standard", at_most(unasked, "standard"), {})
        assert found.limits[1].outcome == outcome
        assert len(joint(found).blocked) == blocked
    asked = planned(corpus(pages(150, 150)), EXCESS)
    assert [one.attack for one in joint(asked).blocked] == ["reconstruction"]


def test_a_plan_says_what_a_pass_needs_to_be_able_to_ask():
    made = corpus(pages(150, 150), "intent-slots")
    canary = limit("canaries", "excess", max=0.2, required=False)
    demand = Demand("what the model gives back", ("reconstruction", "canaries"), "r")
    gaps = (Gap("reconstruction", ("intent-slots",), "r"),)
    for demands, blocked in (((), []), ((demand,), ["canaries"])):
        policy = checked(Policy(1, "mine", (AUC, EXCESS, canary), gaps=gaps, demands=demands))
        found = plan_limits(made, policy, "standard", at_most(made, "standard"), {})
        assert [one.attack for one in joint(found).blocked] == blocked
    assert found.limits[2].reason == (
        "the data set holds no canaries; a pass needs to show what the model gives back: reconstruction or canaries"
    )
    policy = checked(
        Policy(
            1, "mine", (AUC, EXCESS, canary), gaps=(*gaps, Gap("canaries", ("intent-slots",), "r")), demands=(demand,)
        )
    )
    assert not joint(plan_limits(made, policy, "standard", at_most(made, "standard"), {})).blocked


def test_the_json_holds_what_is_required_all_that_blocks_and_the_time_of_all():
    made = corpus(providers(20, 20), assigned="by-provider", references=replace(GIVEN, baselines=(), pretrained=None))
    asked = limit("provider_membership", "auc", max=0.65, required=False)
    costs = [replace(cost, seconds=60.0) if cost.attack == "membership" else cost for cost in at_most(made, "standard")]
    found = planned(made, asked, NET, costs=costs)
    written = json.loads(as_json(found))
    auc, net = written["limits"]
    assert [auc["required"], net["required"]] == [False, True]
    assert [one["outcome"] for one in auc["blockers"]] == ["too small", "cannot pass"]
    assert found.limits[0].blockers[1] == Blocker("cannot pass", auc["blockers"][1]["reason"])
    assert auc["reason"] == "; ".join(one["reason"] for one in auc["blockers"])
    assert written["time"] == {"seconds": 60.0, "least": False}
    assert set(written["joint"]) == {"limits", "chance", "blocked"}
    assert json.loads(as_json(planned(made, NET)))["time"] is None


def test_a_metric_without_units_has_a_row_that_says_so():
    made = corpus(pages(50, 50), "token-classification")
    found = planned(
        made, limit("membership", "tpr_at_fpr_10", max=0.2), limit("reconstruction", "pr.member.attack", max=0.9)
    )
    assert [one.outcome for one in found.limits] == ["no plan", "no plan"]
    assert all(one.blockers == (Blocker("no plan", "no plan for this metric"),) for one in found.limits)
    _, columns, rows = limits_table(found)
    assert all(len(row) == len(columns) for row in rows)
    assert joint(found).limits == ()


class Slow:
    """Work whose trials take so many seconds."""

    def __init__(self, seconds):
        self.seconds, self.trials = seconds, 0

    def attempt(self, trial):
        self.trials += 1
        time.sleep(self.seconds)
        return {}
        yield


TRIALS = [timing.Trial(f"t{number}", f"t{number}", ("member", "heldout")[number % 2]) for number in range(40)]


def test_a_trial_of_hours_is_stopped_and_its_least_time_is_said():
    began = time.perf_counter()
    seconds, least = timing.estimate(Slow(30.0), TRIALS, 8, 0.3)
    assert time.perf_counter() - began < 5
    assert (seconds, least) == (12.0, True)
    cost = Cost("reconstruction", 40, True, (20, 20), seconds=seconds, least=True)
    assert total_time([cost, replace(cost, seconds=1.0, least=False)]) == (13.0, True)
    text = costs_table(replace(planned(corpus(pages(5, 5)), AUC), costs=(cost,)))[2][0][2]
    assert text == "more than 12 s"


@pytest.mark.parametrize("limit", [0.5, 2.0, 20.0])
def test_about_ten_trials_or_as_many_as_fit_are_run_and_multiplied(limit):
    work = Slow(0.05)
    seconds, least = timing.estimate(work, TRIALS, 8, limit)
    assert 40 * 0.05 <= seconds < 2 * 40 * 0.05
    assert not least
    assert 1 <= work.trials <= 2 + timing.TRIALS
    assert work.trials == 2 + timing.TRIALS or limit < 1
