"""Confounded attacks: a control decides whether a leak is confirmed, and nothing passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_policy import completed, judge, limit, normal
from test_policy_passes import area

from audit.attacks.blind_baseline import Blind, blind_controls, reference_control
from audit.measurements import ALPHAS, Check, Control, Estimate, Unresolved
from audit.policy import Decision
from audit.record import Result
from audit.stats.roc import auc_interval
from audit.targets.utility import estimate

WHY = "the blind check is too weak to rule it out"
TOLD_APART = "they can be told apart without the model"
FOUND = Check("blind", 0.001, "confounded", TOLD_APART, "divide them by lot")
OTHER = Check("held-out gain", 0.001, "confounded", "the held-out documents look trained on", "keep others aside")


def blind(value: float, error: float = 0.06, *checks: Check) -> Blind:
    return Blind(replace(area("blind_auc", value, error), null=0.5), (), checks, WHY)


def reference(difference: float, error: float = 0.04, metric: str = "leak") -> tuple[Control, ...]:
    return reference_control([metric], replace(normal(metric, difference, error), null=0.0, null_kind="held-out"))


def decided(number: Estimate, *controls: Control, top: float, checks: tuple[Check, ...] = ()) -> Decision:
    found = replace(completed(number), confounded=WHY, controls=controls, checks=checks)
    (decision,) = judge([found], limit(max=top)).decisions
    return decision


def test_a_memoriser_is_violated_though_the_blind_check_is_too_weak() -> None:
    # Donut: 1.000 [0.921, 1.000] against 0.65 was undecided, for its importer wrote assigned = "official".
    separated = auc_interval(np.arange(60.0) + 100, np.arange(45.0), alphas=ALPHAS)
    number = estimate("leak", separated, "documents", 0.5, "chance")
    assert number.low < 0.95
    decision = decided(number, *blind_controls(blind(0.6), ["leak"]), top=0.65)
    assert (decision.outcome, decision.reason) == ("violated", "the leak is confirmed over the limit")
    assert decided(number, top=0.65).outcome == "undecided", "without any control nothing is known"


def test_an_area_that_the_blind_check_may_reach_stays_undecided_and_names_the_setting() -> None:
    decision = decided(area("leak", 0.72), *blind_controls(blind(0.6), ["leak"]), top=0.65)
    assert (decision.outcome, decision.cause, decision.reason) == ("undecided", "confounded", WHY)
    assert 'assigned = "random"' in decision.remedy
    assert "manifest.toml" in decision.remedy


def test_nothing_passes_over_a_control() -> None:
    for number, top in ((area("leak", 0.5), 0.65), (normal("leak", 0.0, 0.01), 0.15)):
        controls = (*reference(0.0), *blind_controls(blind(0.5), ["leak"]))
        assert decided(number, *controls, top=top).outcome == "undecided"


def test_a_reference_that_scores_both_sides_alike_confirms_a_leak() -> None:
    leaky = normal("leak", 0.5, 0.04)
    assert decided(leaky, *reference(0.0), top=0.15).outcome == "violated"
    assert decided(leaky, *reference(0.0, 0.2), top=0.15).outcome == "undecided", "too wide an interval shows nothing"


@pytest.mark.parametrize("difference", [0.3, -0.3])
def test_a_reference_that_scores_them_apart_confirms_nothing(difference: float) -> None:
    assert decided(normal("leak", 0.5, 0.04), *reference(difference), top=0.15).outcome == "undecided"


def test_an_area_under_chance_is_held_against_its_controls_too() -> None:
    for value, outcome in ((0.05, "violated"), (0.3, "undecided")):
        assert decided(area("leak", value), *blind_controls(blind(0.62), ["leak"]), top=0.65).outcome == outcome


def test_documents_that_are_told_apart_need_both_controls() -> None:
    leaky = area("leak", 0.95)
    by_blind = blind_controls(blind(0.62, 0.03, FOUND), ["leak"])
    by_reference = reference_control(["leak"], area("leak", 0.5))
    assert decided(leaky, *by_blind, *by_reference, top=0.65, checks=(FOUND,)).outcome == "violated"
    for one in (by_blind, by_reference):
        assert decided(leaky, *one, top=0.65, checks=(FOUND,)).outcome == "undecided"


def test_no_control_answers_another_reason() -> None:
    controls = (*reference(0.0), *blind_controls(blind(0.5), ["leak"]))
    assert decided(normal("leak", 0.9, 0.02), *controls, top=0.15, checks=(OTHER,)).outcome == "undecided"


def test_a_share_is_held_against_the_most_that_a_ranking_allows() -> None:
    (control,) = blind_controls(blind(0.6, 0.05), [], ["leak"])
    upper = {bound.alpha: bound.upper for bound in control.bounds}
    assert upper[0.025] == pytest.approx(2 * (0.1 + stats.norm.isf(0.025) * 0.05))
    assert decided(normal("leak", 0.755, 0.07), control, top=0.15).outcome == "violated"
    assert decided(normal("leak", 0.4, 0.03), control, top=0.15).outcome == "undecided"


def test_a_check_that_could_not_be_made_is_no_control() -> None:
    unchecked = replace(blind(0.5), estimate=Unresolved("blind_auc", "too few documents", 3))
    assert blind_controls(unchecked, ["leak"]) == ()
    assert blind_controls(replace(blind(0.5), confounded=None), ["leak"]) == (), "nothing is in doubt"
    assert reference_control(["leak"], Unresolved("leak", "too few", 3)) == ()


def test_documents_that_explain_the_number_are_called_a_leak_in_one_of_twenty() -> None:
    """Numbers that are just what the control explains: the violation's error rate holds."""
    rng = np.random.default_rng(5)
    audits = 2000
    for controlled in ("blind", "reference"):
        wrong = 0
        for _ in range(audits):
            seen = rng.normal(0.2, 0.03)
            number = normal("leak", rng.normal(0.2 if controlled == "blind" else 0.35, 0.04), 0.04)
            if controlled == "reference":
                controls = reference(seen, 0.03)
            else:
                controls = blind_controls(blind(0.5 + seen / 2, 0.015), [], ["leak"])
            wrong += decided(number, *controls, top=0.15).outcome == "violated"
        assert wrong <= stats.binom.ppf(0.999, audits, 0.05), controlled


def test_a_least_value_of_a_confounded_attack_is_not_violated() -> None:
    found: Result = replace(completed(normal("leak", 0.1, 0.02)), confounded=WHY)
    (decision,) = judge([found], limit(min=0.5)).decisions
    assert decision.outcome == "undecided"
