"""Checks that can only leave limits undecided share one false-positive rate of 5 % in a scan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from test_policy import SAFE, completed, judge, limit, normal

from audit.measurements import Check
from audit.policy.checks import LEVEL, settle
from audit.policy.limits import Limit
from audit.record import AuditRecord
from audit.stats.multiplicity import holm

BOTH = ("reconstruction", "membership")
QUIET = replace(SAFE, null=None, null_kind=None)
"""A safe number without a null, so that no check looks at its wrong side."""
LEAK = Limit("reconstruction", "leak", "a limit", max=0.2)


def check(name: str, p_value: float, cause: str = "alarm") -> Check:
    return Check(name, p_value, cause, f"{name} speaks against it", f"mend {name}")


def outcome(*checks: Check) -> tuple[str, str, str]:
    (decision,) = judge([replace(completed(QUIET), checks=checks)], limit(max=0.2)).decisions
    return decision.outcome, decision.reason, decision.remedy


def test_one_check_alone_fires_at_five_per_cent() -> None:
    assert outcome(check("epsilon", 0.04)) == ("undecided", "epsilon speaks against it", "mend epsilon")
    assert outcome(check("epsilon", 0.06))[0] == "passed"


def test_a_check_fires_less_easily_beside_others() -> None:
    others = [check(f"quiet {number}", 1.0) for number in range(9)]
    assert outcome(check("epsilon", 0.04), *others)[0] == "passed"
    assert outcome(check("epsilon", 0.005), *others)[0] == "undecided"


def test_checks_of_other_attacks_and_of_the_whole_scan_count() -> None:
    results = [
        replace(completed(QUIET), checks=(check("epsilon", 0.02),)),
        replace(completed(QUIET, attack="membership"), checks=(check("certain documents", 1.0),)),
    ]
    record = tiny.record(*results, battery=BOTH)
    adjusted = {one.name: one.p_adjusted for one in _checks(settle(record, ()))}
    assert adjusted == {"epsilon": pytest.approx(0.04), "certain documents": 1.0}
    whole = replace(record, checks=(check("held-out fit", 0.5, "confounded"),))
    assert {one.name: one.p_adjusted for one in _checks(settle(whole, ()))}["epsilon"] == pytest.approx(0.06)


def test_the_same_blind_check_of_several_attacks_is_one_test() -> None:
    blind = check("blind", 0.03, "confounded")
    results = [replace(completed(QUIET, attack=name), checks=(blind,)) for name in BOTH]
    settled = settle(tiny.record(*results, battery=BOTH), ())
    assert [one.p_adjusted for one in _checks(settled)] == [0.03, 0.03]
    assert {one.confounded for one in settled.completed.values()} == {blind.reason}


def test_confounding_keeps_a_violation_from_being_confirmed_and_an_alarm_does_not() -> None:
    leaky = normal("leak", 0.5, 0.02)
    for cause, overall in (("confounded", "undecided"), ("alarm", "violated"), ("wrong side", "violated")):
        found = replace(completed(leaky), checks=(check("fair", 0.001, cause),))
        assert judge([found], limit(max=0.2)).overall == overall, cause


def test_a_confounding_check_of_the_whole_scan_leaves_every_attack_undecided() -> None:
    results = [completed(QUIET, attack=name) for name in BOTH]
    record = replace(tiny.record(*results, battery=BOTH), checks=(check("held-out fit", 0.001, "confounded"),))
    attacks = settle(record, ()).attacks
    assert {one.confounded for one in attacks if one.status == "completed"} == {"held-out fit speaks against it"}


def test_a_check_bears_on_the_limits_that_it_names() -> None:
    beside = normal("other", 0.0, 0.02)
    named = replace(check("rare category", 0.001), metrics=("leak",))
    found = replace(completed(QUIET, beside), checks=(named,))
    verdict = judge([found], limit(max=0.2), limit(metric="other", max=0.2))
    assert [decision.outcome for decision in verdict.decisions] == ["undecided", "passed"]


def test_a_heavier_check_has_a_larger_share() -> None:
    blind = replace(check("blind", 0.02, "confounded"), weight=4.0)
    others = [check(f"quiet {number}", 1.0) for number in range(4)]
    assert outcome(blind, *others)[1] == "blind speaks against it"  # 0.02 / 4 * (4 + 4) = 0.04
    assert outcome(replace(blind, weight=1.0), *others)[0] == "passed"


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4)), min_size=1, max_size=8))
def test_a_check_of_weight_w_is_adjusted_as_w_equal_checks_are(rows: list[tuple[float, int]]) -> None:
    """A test of weight w and p stands for w tests of weight 1 and p / w, of which the last one decides."""
    weighted = holm({i: p for i, (p, _) in enumerate(rows)}, {i: float(w) for i, (_, w) in enumerate(rows)})
    copies = {(i, copy): p / w for i, (p, w) in enumerate(rows) for copy in range(w)}
    plain = holm(copies)
    for i, (p, w) in enumerate(rows):
        assert weighted[i] == pytest.approx(min(1.0, max(plain[i, copy] for copy in range(w))))
        assert weighted[i] >= p - 1e-12


def test_settling_twice_changes_nothing() -> None:
    below = replace(normal("leak", -0.4, 0.04), null=0.0, null_kind="held-out")
    found = replace(completed(below), checks=(check("blind", 0.01, "confounded"), check("epsilon", 0.3)))
    once = settle(tiny.record(found, battery=BOTH), (LEAK,))
    assert settle(once, (LEAK,)) == once
    assert {one.name for one in _checks(once)} == {"blind", "epsilon", "wrong side"}


def test_leak_free_audits_are_left_undecided_by_their_checks_in_one_of_twenty() -> None:
    """Twelve independent checks at their exact level, and three limited numbers around their null."""
    rng = np.random.default_rng(11)
    audits, undecided = 400, 0
    limits = tuple(replace(LEAK, metric=name) for name in ("a", "b", "c"))
    for _ in range(audits):
        numbers = [
            replace(normal(name, rng.normal(0, 0.02), 0.02), null=0.0, null_kind="held-out") for name in ("a", "b", "c")
        ]
        checks = tuple(check(f"check {number}", float(p)) for number, p in enumerate(rng.uniform(size=12)))
        settled = settle(tiny.record(replace(completed(*numbers), checks=checks), battery=BOTH), limits)
        undecided += any(one.p_adjusted <= LEVEL for one in _checks(settled))
    assert 0 < undecided <= stats.binom.ppf(0.999, audits, LEVEL)


def _checks(record: AuditRecord) -> list[Check]:
    return [one for result in record.completed.values() for one in result.checks]
