"""The bound on epsilon of the canary attack, and its false alarms."""

import numpy as np
import pytest
from attempts import counts, diagnostics, measured, run
from planted_canaries import LIMIT, QUICK, Knowing, canary_set, case_of, outcomes_of, remembering

from audit.attacks import TEXTS
from audit.attacks.canaries import measures
from audit.attacks.canaries.attack import (
    NOT_FAIR,
    NOT_RANKED,
    SHOWN_LEVEL,
    checks_of,
    measure_privacy,
    scores_of,
)
from audit.measurements import Estimate, Unresolved
from audit.stats.epsilon import lower_bound, needed_canaries
from benchmarks.calibration.simulated_audits import fired

LIMITS = (LIMIT, LIMIT, 2.0)
"""On the excess of what comes out, of the first three, and of exposure in bits."""


def bound(drawn, outcomes, seed=0, delta=1e-5):
    found = measure_privacy(drawn, drawn.canaries, outcomes, np.random.default_rng(seed), delta)
    return found.epsilon, found


def test_a_model_that_knows_all_it_saw_reaches_nearly_the_most_that_64_canaries_show():
    drawn = canary_set(64, 4, seed=3)
    epsilon, privacy = bound(drawn, outcomes_of(drawn, np.random.default_rng(0), 1.0))
    assert isinstance(epsilon, Estimate)
    cap = lower_bound(32, 32, 32, delta=1e-5)
    assert (epsilon.null, epsilon.n, epsilon.unit, epsilon.high) == (
        0.0,
        64,
        "canaries",
        pytest.approx(cap),
    )
    assert 1.5 < epsilon.low <= cap < 2.33
    assert epsilon.value == epsilon.low
    assert "10 copies" in epsilon.method
    assert "delta 1e-05" in epsilon.method
    values = {item.name: item.value for item in privacy.diagnostics}
    assert (values["epsilon_cap"], values["epsilon_delta"]) == (pytest.approx(cap), 1e-5)
    number = {count.name: count.value for count in privacy.counts}
    assert (
        number["epsilon: right"] <= number["epsilon: guessed"] <= number["epsilon: evaluated"] == 32
    )


@pytest.mark.parametrize("side", [True, False])
def test_coins_that_all_fell_one_way_are_refused_where_they_cannot_be_fair(tmp_path, side):
    drawn = canary_set(40, included=40 * [side])
    found, _ = bound(drawn, outcomes_of(drawn, np.random.default_rng(0), 1.0))
    assert found.reason == NOT_FAIR
    few = canary_set(4, included=4 * [side])
    findings = run(QUICK, case_of(tmp_path, few, Knowing()))[-1]
    missing = measured(findings, "excess")
    assert ("no planted" if not side else "no unplanted") in missing.reason
    assert missing.needed
    small = measured(findings, "epsilon")
    assert (small.n, small.needed) == (4, needed_canaries(1e-5))
    assert isinstance(measured(findings, "extracted"), Estimate if side else Unresolved)


def test_canaries_that_could_not_be_asked_for_stand_in_the_middle():
    drawn = canary_set(64, 4, seed=3)
    outcomes = outcomes_of(drawn, np.random.default_rng(0), 1.0)
    outcomes[::5] = [measures.Outcome("split")] * len(outcomes[::5])
    scores = scores_of(outcomes)
    known = np.delete(scores, np.arange(0, 64, 5))
    assert set(scores[::5]) == {np.median(known)}
    found, _ = bound(drawn, outcomes)
    assert found.n == 64
    assert found.low > 0.5
    nothing, _ = bound(drawn, [measures.Outcome("split")] * 64)
    assert nothing.reason == NOT_RANKED


def lower_of(estimate, alpha=0.05):
    return next(one.lower for one in estimate.bounds if one.alpha == alpha)


def test_leak_free_audits_are_seldom_stopped_and_never_accused():
    """A small version of benchmarks/calibration/canary_calibration.py."""
    rng = np.random.default_rng(17)
    n_audits = 100
    stopped = 0
    passed = 0
    accused = 0
    beyond = 0
    covered = 0
    shown = 0
    for seed in range(n_audits):
        drawn = canary_set(64, 4, seed=seed)
        outcomes = outcomes_of(drawn, rng, 0.0, n_references=9_999)
        table = measures.table_of(drawn.canaries, outcomes)
        sides = table.where(table.included), table.where(~table.included)
        measured = [
            measure(*sides, rng)
            for measure in (
                measures.excess_of,
                measures.excess_top3_of,
                measures.excess_exposure_of,
            )
        ]
        epsilon, privacy = bound(drawn, outcomes, seed)
        alarms = fired(checks_of([*measured, epsilon], privacy.p_value, 10, 1e-5))
        within = all(one.high <= limit for one, limit in zip(measured, LIMITS, strict=True))
        stopped += bool(alarms)
        passed += within and not alarms
        accused += any(lower_of(one) > limit for one, limit in zip(measured, LIMITS, strict=True))
        beyond += lower_of(measured[2], SHOWN_LEVEL) > 0
        shown += epsilon.low > 0
        exposure = measures.exposure_of("exposure", table, rng)
        covered += exposure.low <= exposure.null <= exposure.high
    assert accused == 0
    assert (
        stopped <= 0.14 * n_audits
    )  # 5 % by the bound on epsilon and 1 % by exposure, and their own chance
    assert passed >= 0.86 * n_audits
    # Of skewed values a resampled bound alone is too near: 2.6 % lie beyond that of 1 %.
    assert beyond <= 3  # 1 % and its own chance: 4 or more of 100 in 2 % of such runs
    assert shown <= 0.11 * n_audits  # 5 % and their own chance
    assert covered >= 0.89 * n_audits


def test_a_trained_in_leak_is_found_through_the_whole_attack(tmp_path):
    drawn = canary_set(48, 3, seed=6)
    target = remembering(drawn, [canary for canary in drawn.canaries if canary.included])
    findings = run(QUICK, case_of(tmp_path, drawn, target))[-1]
    assert measured(findings, "epsilon").low > 1.0
    assert counts(findings)["copies"] == 10
    assert diagnostics(findings)["epsilon_cap"] == pytest.approx(measured(findings, "epsilon").high)
    assert not [
        name for name in TEXTS["canaries"].names if name.startswith("epsilon")
    ]  # no policy may limit it
    assert run(QUICK, case_of(tmp_path, drawn, target))[-1] == findings
