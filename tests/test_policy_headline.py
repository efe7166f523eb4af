"""The headline of a verdict: how much was examined, by which policy, and who answers for what it accepts."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tiny
from test_policy import (
    INAPPLICABLE,
    LEAKY,
    OTHER_LEAKY,
    OTHER_SAFE,
    SAFE,
    SECOND,
    TODAY,
    completed,
    judge,
    limit,
    waiver,
)

from audit.cards import DeclaredPolicy
from audit.errors import PolicyError
from audit.policy import Counts, Policy, evaluate, load
from audit.policy.identity import identify
from audit.record import AuditRecord

BATTERY = ("reconstruction", "membership")
TOML = """schema = 1
name = "mine"

[[limits]]
attack = "reconstruction"
metric = "leak"
max = 0.05
rationale = "because"
"""


def test_a_verdict_counts_what_became_of_its_limits() -> None:
    verdict = judge([INAPPLICABLE, OTHER_SAFE], limit(), SECOND, battery=BATTERY)
    assert verdict.counts == Counts(met=1, inapplicable=1)
    assert verdict.counts.sentence == "1 of 2 limits met, 1 not applicable"
    assert verdict.reason == "1 of 2 limits met, 1 not applicable (reconstruction)"


def test_the_counts_name_the_worst_first() -> None:
    counts = Counts(met=3, waived=2, violated=1, undecided=4, not_tested=3, inapplicable=2)
    assert counts.sentence == (
        "1 of 15 limits violated, 4 undecided, 2 violated and waived, 3 met, 3 not tested, 2 not applicable"
    )
    assert (counts.limits, counts.examined) == (15, 6)
    assert Counts().sentence == "0 of 0 limits met"


def test_a_waived_verdict_has_a_stamp_of_its_own() -> None:
    one = judge([completed(LEAKY)], waivers=(waiver(9),))
    assert (one.stamp, one.exit_code) == ("PASSED WITH 1 WAIVER", 0)
    assert one.reason == "1 of 1 limits violated and waived"
    both = judge(
        [completed(LEAKY), OTHER_LEAKY],
        limit(),
        SECOND,
        battery=BATTERY,
        waivers=(waiver(9), replace(waiver(40), attack="membership")),
    )
    assert both.stamp == "PASSED WITH 2 WAIVERS"
    assert judge([completed(SAFE)]).stamp == "PASSED"
    assert judge([completed(LEAKY)]).stamp == "VIOLATED"


@pytest.mark.parametrize(
    ("days", "state", "said"),
    [
        (31, "in force", "holds until 2026-04-02"),
        (30, "ending", "ends in 30 days, on 2026-04-01"),
        (1, "ending", "ends in 1 day, on 2026-03-03"),
        (-1, "expired", "expired on 2026-03-01 and has no effect"),
        (367, "too long", "ends on 2027-03-04, more than 12 months ahead, and has no effect"),
    ],
)
def test_the_register_says_what_each_waiver_does(days: int, state: str, said: str) -> None:
    (entry,) = judge([completed(LEAKY)], waivers=(waiver(days),)).waivers
    assert (entry.state, entry.days) == (state, days)
    assert entry.sentence == f"reconstruction leak: the waiver of A. Officer (head of data) {said}"


def test_the_register_lists_waivers_that_nothing_needs() -> None:
    (entry,) = judge([completed(SAFE)], waivers=(waiver(9),)).waivers
    assert entry.state == "not needed"


def test_a_waiver_without_an_end_in_sight_hides_no_valid_one() -> None:
    verdict = judge([completed(LEAKY)], waivers=(waiver(9), waiver(999)))
    assert verdict.overall == "waived"
    assert [entry.state for entry in verdict.waivers] == ["ending", "too long"]


def scanned(*results: Any, policy: Policy | None) -> AuditRecord:
    """A record of a scan that declared a policy."""
    record = tiny.record(*results, battery=BATTERY)
    if policy is None or policy.origin is None:
        return record
    declared = DeclaredPolicy(policy.name, policy.origin.sha256, policy.origin.shipped, policy.origin.toml)
    return replace(record, policy=declared)


def own(tmp_path: Path, text: str = TOML, name: str = "own.toml") -> Policy:
    path = tmp_path / name
    path.write_text(text)
    return load(str(path))


def test_the_declared_policy_is_named_with_its_hash(tmp_path: Path) -> None:
    policy = own(tmp_path)
    assert policy.origin is not None
    identity = evaluate(scanned(completed(SAFE), policy=policy), policy, TODAY).identity
    assert identity is not None
    assert (identity.state, identity.warning, identity.sha256) == ("declared", "", policy.origin.sha256)
    assert identity.sentence == (
        f"mine (the owner's own, SHA-256 {policy.origin.sha256[:12]}, declared before the scan)"
    )


def test_a_shipped_policy_is_told_from_a_changed_one() -> None:
    policy = load("default")
    identity = evaluate(scanned(policy=policy), policy, TODAY).identity
    assert identity is not None
    assert identity.sentence.startswith("default (shipped with docaudit, unchanged, SHA-256 ")


def test_another_policy_than_the_declared_one_is_said_even_under_its_name(tmp_path: Path) -> None:
    declared, laxer = own(tmp_path), own(tmp_path, TOML.replace("0.05", "0.9"), "laxer.toml")
    verdict = evaluate(scanned(completed(LEAKY), policy=declared), laxer, TODAY)
    assert verdict.identity is not None
    assert declared.origin is not None
    assert (verdict.overall, verdict.identity.state) == ("passed", "another")
    assert verdict.identity.warning == (
        "the policy that was declared before the scan is another one of the same name: mine (SHA-256 "
        f"{declared.origin.sha256[:12]})"
    )


def test_a_record_without_a_declared_policy_says_so(tmp_path: Path) -> None:
    identity = evaluate(scanned(completed(SAFE), policy=None), own(tmp_path), TODAY).identity
    assert identity is not None
    assert identity.state == "undeclared"
    assert "nothing shows that this one was chosen before the results were known" in identity.warning


def test_a_waiver_under_a_shipped_name_is_refused_with_what_to_do(tmp_path: Path) -> None:
    shipped = load("default").origin
    assert shipped is not None
    path = tmp_path / "policy.toml"
    path.write_text(
        f'{shipped.toml}\n[[waivers]]\nattack = "membership"\nmetric = "auc"\nowner = "A"\nrole = "B"\nreason = "C"\n'
        f'measure = "D"\nexpires = {dt.date(2026, 12, 31)}\n'
    )
    with pytest.raises(PolicyError, match="one that differs from it, as by waivers, needs another name") as it:
        load(str(path))
    assert it.value.hint == 'say name = "default-own" in it, and give --policy FILE'


@pytest.mark.parametrize(
    ("oldest", "same_policy", "late"),
    [
        (None, False, False),
        ("2026-03-02T09:15:00+00:00", False, False),
        ("2026-02-20T10:00:00+00:00", False, True),
        ("2026-02-20T10:00:00+00:00", True, False),
    ],
)
def test_a_policy_that_was_declared_after_the_outcomes_says_so(
    oldest: str | None, same_policy: bool, late: bool, tmp_path: Path
) -> None:
    policy = own(tmp_path)
    declared = scanned(policy=policy).policy
    timing = SimpleNamespace(
        started="2026-03-02T09:15:00+00:00",
        oldest=oldest,
        resumed=0 if oldest is None else 1,
        same_policy=same_policy,
    )
    identity = identify(cast("AuditRecord", SimpleNamespace(policy=declared, timing=timing)), policy)
    assert identity.state == "declared"
    assert bool(identity.warning) is late
    assert ("declared before the scan" in identity.sentence) is not late
    if late:
        assert identity.warning.startswith("outcomes were computed on 2026-02-20, before the scan of 2026-03-02")


def test_a_policy_beside_outcomes_of_an_unknown_time_says_so(tmp_path: Path) -> None:
    policy = own(tmp_path)
    record = scanned(policy=policy)
    unknown = replace(record, timing=replace(record.timing, outcomes=9, resumed=4, newest=record.timing.started))
    warning = identify(unknown, policy).warning
    assert warning.startswith("nothing says when the 4 outcomes that were read from a journal were computed")
    assert "nothing shows that it was chosen before the results were known" in warning
