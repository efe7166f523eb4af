"""Checks and controls: all checks of a scan share 5 %, and a control decides whether a confounded leak is confirmed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from judged import area, completed, judge, limit, normal
from scipy import stats

from audit.attacks.blind_baseline import Blind, blind_controls, heldout_condition, reference_control
from audit.measurements import WAY_OF_WRITING, Check, Condition, Control, Estimate, Unresolved
from audit.policy import Decision
from audit.policy.checks import LEVEL, SettledRecord, settle
from audit.stats.estimates import estimate
from audit.stats.p_values import holm
from audit.stats.roc import auc_interval

BOTH = ("reconstruction", "membership")
QUIET = normal("leak", 0.0, 0.02)
LEAKING = normal("leak", 0.5, 0.02)
"""Numbers without a null, so that no check looks at their wrong side."""


def check(name: str, p_value: float, cause: str = "alarm", **more: Any) -> Check:
    return Check(name, p_value, cause, f"{name} speaks against it", f"mend {name}", **more)


def quiet(count: int) -> list[Check]:
    return [check(f"quiet {number}", 1.0) for number in range(count)]


@pytest.mark.parametrize(
    ("number", "n_quiet", "check_result", "outcome"),
    [
        pytest.param(QUIET, 0, check("fair", 0.04), "undecided", id="alone, under five per cent"),
        pytest.param(QUIET, 0, check("fair", 0.06), "passed", id="alone, over five per cent"),
        # A check fires less easily beside others, and a heavier one has a larger share.
        pytest.param(
            QUIET, 9, check("fair", 0.04), "passed", id="not as easily beside nine others"
        ),
        pytest.param(
            QUIET,
            9,
            check("fair", 0.005),
            "undecided",
            id="beside nine others, far under five per cent",
        ),
        pytest.param(
            QUIET,
            4,
            check("fair", 0.02, weight=4.0),
            "undecided",
            id="a heavier one has a larger share: 0.02 / 4 * (4 + 4) = 0.04",
        ),
        pytest.param(
            QUIET, 4, check("fair", 0.02), "passed", id="the same with the weight of the others"
        ),
        pytest.param(
            QUIET,
            0,
            check("fair", 0.001, metrics=("leak",)),
            "undecided",
            id="a check of this metric",
        ),
        pytest.param(
            QUIET,
            0,
            check("fair", 0.001, metrics=("other",)),
            "passed",
            id="a check of another metric",
        ),
        pytest.param(
            LEAKING,
            0,
            check("fair", 0.001, "confounded"),
            "undecided",
            id="confounding keeps a violation from being confirmed",
        ),
        pytest.param(LEAKING, 0, check("fair", 0.001, "alarm"), "violated", id="an alarm does not"),
        pytest.param(
            LEAKING,
            0,
            check("fair", 0.001, "wrong side"),
            "violated",
            id="nor does a check of the wrong side",
        ),
    ],
)
def test_a_check_fires_at_five_per_cent_among_all_of_its_scan(
    number, n_quiet, check_result, outcome
):
    (decision,) = judge(
        [completed(number, checks=(check_result, *quiet(n_quiet)))], limit(max=0.2)
    ).decisions
    assert decision.outcome == outcome
    if outcome == "undecided":
        assert (decision.reason, decision.remedy) == ("fair speaks against it", "mend fair")


def settled(*of_attacks: tuple[Check, ...], whole: tuple[Check, ...] = ()) -> SettledRecord:
    """A settled record with checks of its attacks, and of the whole scan."""
    results = [
        completed(QUIET, attack=name, checks=own)
        for name, own in zip(BOTH, of_attacks, strict=True)
    ]
    return settle(replace(tiny.record(*results, battery=BOTH), checks=whole), ())


def adjusted(settled: SettledRecord) -> list[float | None]:
    results = settled.record.completed.values()
    return [check.p_adjusted for result in results for check in result.checks]


def explanations(settled: SettledRecord) -> set[str | None]:
    return {settled.confounded(attack) for attack in settled.record.completed}


def test_checks_of_other_attacks_and_of_the_whole_scan_count():
    certain = (check("certain documents", 1.0),)
    epsilon = (check("epsilon", 0.02),)
    assert adjusted(settled(epsilon, certain)) == [pytest.approx(0.04), 1.0]
    fit = check("held-out fit", 0.5, "confounded")
    assert adjusted(settled(epsilon, certain, whole=(fit,)))[0] == pytest.approx(0.06)
    firing = settled((), (), whole=(replace(fit, p_value=0.001),))
    assert explanations(firing) == {"held-out fit speaks against it"}
    # The same blind check of several attacks is one test.
    blind = settled(*2 * [(check("blind", 0.03, "confounded"),)])
    assert adjusted(blind) == [0.03, 0.03]
    assert explanations(blind) == {"blind speaks against it"}


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4)), min_size=1, max_size=8))
def test_a_check_of_weight_w_is_adjusted_as_w_equal_checks_are(rows):
    """A test of weight w and p stands for w tests of weight 1 and p / w, of which the last one decides."""
    weighted = holm(
        {i: p for i, (p, _) in enumerate(rows)}, {i: float(w) for i, (_, w) in enumerate(rows)}
    )
    copies = {(i, copy): p / w for i, (p, w) in enumerate(rows) for copy in range(w)}
    plain = holm(copies)
    for i, (p, w) in enumerate(rows):
        assert weighted[i] == pytest.approx(min(1.0, max(plain[i, copy] for copy in range(w))))
        assert weighted[i] >= p - 1e-12


def test_settling_twice_changes_nothing():
    limits = (limit(max=0.2),)
    checks = (check("blind", 0.01, "confounded"), check("epsilon", 0.3))
    once = settle(tiny.record(completed(normal("leak", -0.4, 0.04, 0.0), checks=checks)), limits)
    assert settle(once.record, limits) == once
    (result,) = once.record.attacks
    assert {one.name for one in result.checks} == {"blind", "epsilon", "wrong side"}


def test_leak_free_audits_are_left_undecided_by_their_checks_in_one_of_twenty():
    """Twelve independent checks at their exact level, and three limited numbers around their null."""
    rng = np.random.default_rng(11)
    audits = 400
    undecided = 0
    limits = tuple(limit(name, max=0.2) for name in ("a", "b", "c"))
    for _ in range(audits):
        numbers = [normal(name, rng.normal(0, 0.02), 0.02, 0.0) for name in ("a", "b", "c")]
        checks = tuple(
            check(f"check {number}", float(p)) for number, p in enumerate(rng.uniform(size=12))
        )
        settled_record = settle(tiny.record(completed(*numbers, checks=checks)), limits)
        undecided += any(p is not None and p <= LEVEL for p in adjusted(settled_record))
    assert 0 < undecided <= stats.binom.ppf(0.999, audits, LEVEL)


def test_a_check_of_the_scan_bears_on_the_attacks_that_it_names() -> None:
    knows = check("reference", 0.001, "confounded", attacks=("membership",))
    concerned = settled((), (), whole=(knows,))
    assert concerned.confounded("membership") == "reference speaks against it"
    assert concerned.confounded("reconstruction") is None
    alarm = replace(knows, cause="alarm")
    results = [completed(QUIET, attack=name) for name in BOTH]
    limits = [limit(max=0.2, attack=name) for name in BOTH]
    outcomes = {
        one.limit.attack: one.outcome for one in judge(results, *limits, checks=(alarm,)).decisions
    }
    assert outcomes == {"membership": "undecided", "reconstruction": "passed"}


@pytest.mark.parametrize(
    ("spares", "outcome"),
    [
        (("reconstruction.leak",), "violated"),
        (("membership.leak",), "undecided"),
        ((), "undecided"),
    ],
)
def test_what_a_check_spares_confirms_a_violation_and_passes_nothing(
    spares: tuple[str, ...], outcome: str
) -> None:
    knows = check("reference", 0.001, "confounded", spares=spares)
    (decision,) = judge([completed(LEAKING, checks=(knows,))], limit(max=0.2)).decisions
    assert decision.outcome == outcome
    (decision,) = judge([completed(QUIET, checks=(knows,))], limit(max=0.2)).decisions
    assert (decision.outcome, decision.cause) == ("undecided", "confounded")


def test_a_spared_measurement_is_still_held_against_the_blind_check() -> None:
    knows = check("reference", 0.001, "confounded", spares=("reconstruction.leak",))
    blind_fires = check("blind", 0.001, "confounded")
    (decision,) = judge([completed(LEAKING, checks=(knows, blind_fires))], limit(max=0.2)).decisions
    assert (decision.outcome, decision.cause) == ("undecided", "confounded")


# Conditions


def condition(state: str, name: str = "fair", **more: Any) -> Condition:
    more = {
        "attacks": ("reconstruction",),
        "reason": f"{name} was not shown",
        "remedy": f"show {name}",
        **more,
    }
    return Condition(name, state, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conditions", "outcome", "cause"),
    [
        pytest.param([condition("met")], "passed", None, id="shown"),
        pytest.param([condition("unmet")], "undecided", "weak", id="measured and not shown"),
        pytest.param([condition("unmeasured")], "undecided", "unmeasured", id="not measured"),
        pytest.param(
            [condition("unmeasured", attacks=("membership",))],
            "passed",
            None,
            id="of another attack",
        ),
        pytest.param(
            [condition("unmeasured", attacks=())], "passed", None, id="only stands in for others"
        ),
    ],
)
@pytest.mark.parametrize("undecided", ["fail", "warn"])
def test_a_pass_needs_its_conditions_and_a_violation_does_not(
    conditions: list[Condition], outcome: str, cause: str | None, undecided: str
) -> None:
    verdict = judge(
        [completed(QUIET)], limit(max=0.2), conditions=tuple(conditions), undecided=undecided
    )
    (decision,) = verdict.decisions
    assert (decision.outcome, decision.cause) == (outcome, cause)
    assert verdict.exit_code == (0 if outcome == "passed" else 11), (
        "a missing proof is no wide interval"
    )
    if outcome == "undecided":
        assert (decision.reason, decision.remedy) == ("fair was not shown", "show fair")
    (decision,) = judge(
        [completed(LEAKING)], limit(max=0.2), conditions=tuple(conditions)
    ).decisions
    assert decision.outcome == "violated"


@pytest.mark.parametrize(
    ("gain", "reading", "outcome"),
    [("met", "met", "passed"), ("met", "unmet", "undecided"), ("unmeasured", "met", "undecided")],
)
def test_all_substitutes_together_stand_in_for_a_condition(
    gain: str, reading: str, outcome: str
) -> None:
    refit = condition("unmeasured", substitutes=("gain", "reading"))
    found = completed(
        QUIET,
        conditions=(condition(gain, "gain", attacks=()), condition(reading, "reading", attacks=())),
    )
    (decision,) = judge([found], limit(max=0.2), conditions=(refit,)).decisions
    assert decision.outcome == outcome


def test_an_alarm_is_named_before_a_condition_that_nothing_shows() -> None:
    found = completed(QUIET, checks=(check("certain", 0.001),))
    (decision,) = judge([found], limit(max=0.2), conditions=(condition("unmeasured"),)).decisions
    assert (decision.reason, decision.cause) == ("certain speaks against it", "alarm")


# Controls

WHY = "the blind check is too weak to exclude this"
FOUND = Check(
    "blind", 0.001, "confounded", "they can be told apart without the model", "divide them by lot"
)
UNFIT = Check(
    "held-out gain",
    0.001,
    "confounded",
    "the held-out documents look trained on",
    "keep others aside",
)


def blind(value: float, error: float = 0.06, *checks: Check) -> Blind:
    return Blind(area("blind_auc", value, error), (), checks, WHY, "official")


def blinded(value: float, error: float = 0.06, *checks: Check) -> tuple[Control, ...]:
    return blind_controls(blind(value, error, *checks), ["leak"])


def reference(difference: float, error: float = 0.04, metric: str = "leak") -> tuple[Control, ...]:
    return reference_control([metric], normal(metric, difference, error, 0.0))


def decided(
    number: Estimate, *controls: Control, top: float = 0.65, checks: tuple[Check, ...] = ()
) -> Decision:
    found = completed(number, confounded=WHY, unvouched=True, controls=controls, checks=checks)
    (decision,) = judge([found], limit(max=top)).decisions
    return decision


# Donut: 1.000 [0.921, 1.000] against 0.65 was undecided, for its importer wrote assigned =
# "official".
SEPARATED = estimate(
    "leak", auc_interval(np.arange(60.0) + 100, np.arange(45.0)), "documents", 0.5, "chance"
)
LEAKY = normal("leak", 0.5, 0.04)
APART = blinded(0.62, 0.03, FOUND)
ALIKE = reference_control(["leak"], area("leak", 0.5))
RANKED = blind_controls(blind(0.6, 0.05), [], ["leak"])
TWO = (*reference(0.0), *blinded(0.5))


@pytest.mark.parametrize(
    ("number", "controls", "outcome", "settings"),
    [
        pytest.param(
            SEPARATED, blinded(0.6), "violated", None, id="the blinded model separates less"
        ),
        pytest.param(SEPARATED, (), "undecided", None, id="without any control nothing is known"),
        pytest.param(
            area("leak", 0.72),
            blinded(0.6),
            "undecided",
            None,
            id="the leak is as small as that of the blinded model",
        ),
        pytest.param(
            area("leak", 0.5), blinded(0.5), "undecided", None, id="nothing passes over a control"
        ),
        pytest.param(
            normal("leak", 0.0, 0.01),
            TWO,
            "undecided",
            {"top": 0.15},
            id="two controls answer no estimate near the limit",
        ),
        pytest.param(
            LEAKY, reference(0.0), "violated", {"top": 0.15}, id="a reference model leaks nothing"
        ),
        pytest.param(
            LEAKY,
            reference(0.0, 0.2),
            "undecided",
            {"top": 0.15},
            id="too wide an interval of the reference shows nothing",
        ),
        pytest.param(
            LEAKY,
            reference(0.3),
            "undecided",
            {"top": 0.15},
            id="the reference model leaks as much",
        ),
        pytest.param(
            LEAKY,
            reference(-0.3),
            "undecided",
            {"top": 0.15},
            id="the reference model leaks as much the other way",
        ),
        pytest.param(
            area("leak", 0.05),
            blinded(0.62),
            "violated",
            None,
            id="an area below the limit, seen from the other side",
        ),
        pytest.param(
            area("leak", 0.3),
            blinded(0.62),
            "undecided",
            None,
            id="an area too near to the blinded one",
        ),
        # Documents that are told apart without the model need both controls.
        pytest.param(
            area("leak", 0.95),
            (*APART, *ALIKE),
            "violated",
            {"checks": (FOUND,)},
            id="told apart without the model, both controls",
        ),
        pytest.param(
            area("leak", 0.95),
            APART,
            "undecided",
            {"checks": (FOUND,)},
            id="told apart without the model, the other control lacks",
        ),
        pytest.param(
            area("leak", 0.95),
            ALIKE,
            "undecided",
            {"checks": (FOUND,)},
            id="told apart without the model, only the other control",
        ),
        pytest.param(
            normal("leak", 0.9, 0.02),
            TWO,
            "undecided",
            {"top": 0.15, "checks": (UNFIT,)},
            id="no control answers another reason",
        ),
        pytest.param(
            normal("leak", 0.755, 0.07),
            RANKED,
            "violated",
            {"top": 0.15},
            id="a share over the most that a ranking allows",
        ),
        pytest.param(
            normal("leak", 0.4, 0.03),
            RANKED,
            "undecided",
            {"top": 0.15},
            id="a share under the most that a ranking allows",
        ),
    ],
)
def test_a_control_decides_whether_a_leak_is_confirmed(number, controls, outcome, settings):
    decision = decided(number, *controls, **(settings or {}))
    assert (decision.outcome, decision.cause) == (
        outcome,
        "confounded" if outcome == "undecided" else None,
    )


@pytest.mark.parametrize(
    ("state", "checks", "outcome"),
    [
        pytest.param("met", (FOUND,), "violated", id="reads alike"),
        pytest.param("unmet", (FOUND,), "undecided", id="reads otherwise"),
        pytest.param("unmeasured", (FOUND,), "undecided", id="not compared"),
        pytest.param("unmet", (), "violated", id="the blind check alone bounds the documents"),
    ],
)
def test_a_reference_shows_what_documents_explain_only_where_it_reads_alike(
    state: str, checks: tuple[Check, ...], outcome: str
) -> None:
    of_reference = replace(reference(0.0)[0], condition="alike")
    controls = (of_reference, *blind_controls(blind(0.55, 0.02), [], ["leak"]))
    found = completed(LEAKY, confounded=WHY, controls=controls, checks=checks)
    (decision,) = judge(
        [found], limit(max=0.15), conditions=(condition(state, "alike", attacks=()),)
    ).decisions
    assert decision.outcome == outcome


@pytest.mark.parametrize(
    ("value", "error", "state"),
    [(0.0, 0.03, "met"), (0.0, 0.06, "unmet"), (0.3, 0.03, "unmet"), (-0.3, 0.03, "unmet")],
)
def test_target_and_reference_are_shown_to_do_alike_within_ten_points(
    value: float, error: float, state: str
) -> None:
    gaps = [normal("quiet", 0.0, 0.01), normal("gap", value, error)]
    assert heldout_condition("alike", gaps, "an attack").state == state
    assert heldout_condition("alike", [], "an attack").state == "unmeasured"


def test_what_a_weak_blind_check_leaves_open_names_the_setting_that_would_decide_it():
    decision = decided(area("leak", 0.72), *blinded(0.6))
    assert decision.reason == WHY
    assert 'assigned = "random"' in decision.remedy
    assert SEPARATED.low < 0.95
    (control,) = RANKED
    upper = {bound.alpha: bound.upper for bound in control.bounds}
    assert upper[0.025] == pytest.approx(2 * (0.1 + stats.norm.isf(0.025) * 0.05))


def test_a_check_that_could_not_be_made_is_no_control():
    unchecked = replace(blind(0.5), estimate=Unresolved("blind_auc", "too few documents", 3))
    assert blind_controls(unchecked, ["leak"]) == ()
    assert blind_controls(replace(blind(0.5), confounded=None), ["leak"]) == (), (
        "nothing is in doubt"
    )
    assert reference_control(["leak"], Unresolved("leak", "too few", 3)) == ()


def test_documents_that_explain_the_number_are_called_a_leak_in_one_of_twenty():
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


def test_a_least_value_of_a_confounded_attack_is_not_violated():
    (decision,) = judge(
        [completed(normal("leak", 0.1, 0.02), confounded=WHY)], limit(min=0.5)
    ).decisions
    assert decision.outcome == "undecided"


def test_pages_that_are_written_otherwise_are_named_before_a_model_that_fails_at_its_task():
    """The model fails because its boxes are wrong, and asking it as in training would help nobody."""
    useless = normal("entity_f1", 0.0, 0.01, null=0.02)
    scaled = Check(
        WAY_OF_WRITING, 0.0, "alarm", "boxes scaled by 2 fit the model better", "scale the boxes"
    )
    (decision,) = judge(
        [completed(QUIET)], limit(max=0.2), utility=(useless,), checks=(scaled,)
    ).decisions
    assert (decision.cause, decision.reason, decision.remedy) == (
        "alarm",
        scaled.reason,
        scaled.remedy,
    )
    (decision,) = judge([completed(QUIET)], limit(max=0.2), utility=(useless,)).decisions
    assert decision.cause == "useless"
