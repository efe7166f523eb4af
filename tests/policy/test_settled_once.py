"""A record is settled by the policy that judges it, and by no other one before."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from judged import BOTH, GAPS, LEAKY, OTHER_SAFE, SAFE, TODAY, completed, limit, normal

from audit import record as records
from audit.engine.interface import SILENT
from audit.measurements import Check
from audit.policy import Policy, Verdict, evaluate
from audit.policy.checks import settle
from audit.record import AuditRecord, Result
from audit.workflows.options import ScanOptions
from audit.workflows.scan import ScanResult, audit_checkpoint
from audit.workflows.session import Session

POLICY = Policy(schema=1, name="test", limits=BOTH)
BLIND = Check("blind", 0.001, "confounded", "they can be told apart", "divide them by lot")
SHIFT = Check("shift", 0.02, "confounded", "something else explains it", "mend it")
"""It fires alone, and not beside a check of a second and a third attack."""
ATTACKS = ("reconstruction", "membership", "memorisation")
NARROW = Policy(schema=1, name="narrow", limits=(limit(),), gaps=GAPS)
BROAD = Policy(
    schema=1,
    name="broad",
    limits=(limit(), limit(attack="membership"), limit(attack="memorisation")),
    gaps=GAPS,
)
"""Under it the checks of three wrong sides are adjusted together with those of the record."""


@pytest.fixture
def record() -> AuditRecord:
    leaky = completed(LEAKY, checks=(BLIND,))
    return tiny.record(leaky, OTHER_SAFE, battery=("reconstruction", "membership"))


@pytest.fixture
def shifted() -> AuditRecord:
    """A leak whose check fires under the narrow policy, and not under the broad one."""
    results = [
        completed(LEAKY, checks=(SHIFT,)),
        completed(SAFE, attack="membership"),
        completed(SAFE, attack="memorisation"),
    ]
    return tiny.record(*results, battery=ATTACKS)


def scan(record: AuditRecord, policy: Policy, out: Path) -> ScanResult:
    """Let a scan under a policy measure this record, judge it and write it into a folder."""
    options = ScanOptions(out / "model", out / "data", out / "out")
    session = cast("Session", SimpleNamespace(options=options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.workflows.scan.run_scan", lambda *_: record)
        patch.setattr("audit.workflows.scan.write_report", lambda *_, **__: [])
        return audit_checkpoint(session, policy, SILENT)


def test_a_check_that_fires_under_one_policy_binds_no_other_one(
    shifted: AuditRecord, tmp_path: Path
) -> None:
    narrow = scan(shifted, NARROW, tmp_path)
    assert (narrow.exit_code, narrow.verdict.decisions[0].cause) == (11, "confounded")
    written = records.read(tmp_path / "out")
    assert evaluate(shifted, BROAD, TODAY).exit_code == 10
    assert evaluate(written, BROAD, TODAY).exit_code == 10
    assert evaluate(narrow.verdict.settled.record, BROAD, TODAY).exit_code == 10


def test_a_scan_writes_what_it_measured_whatever_the_policy(
    shifted: AuditRecord, tmp_path: Path
) -> None:
    assert scan(shifted, NARROW, tmp_path).record == shifted
    assert records.read(tmp_path / "out") == shifted


@st.composite
def checks(draw: st.DrawFn, name: str) -> Check:
    cause = draw(st.sampled_from(["confounded", "alarm"]))
    p_value = draw(st.sampled_from([0.0, 0.01, 0.02, 0.04, 1.0]))
    return Check(name, p_value, cause, f"{name} explains it", f"mend {name}")


@st.composite
def results(draw: st.DrawFn, attack: str) -> Result:
    value = draw(st.sampled_from([-0.4, -0.05, 0.0, 0.1, 0.5]))
    words = draw(st.sampled_from([None, f"{attack} cannot be compared"]))
    return completed(
        normal("leak", value, 0.02, 0.0),
        attack=attack,
        checks=tuple(draw(checks(f"{attack} {place}")) for place in range(2)),
        confounded=words,
        unvouched=words is not None and draw(st.booleans()),
    )


@st.composite
def built_records(draw: st.DrawFn) -> AuditRecord:
    measured = [draw(results(attack)) for attack in ATTACKS]
    built = tiny.record(*measured, battery=ATTACKS)
    return replace(built, checks=(draw(checks("the whole scan")),))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    attacks = draw(st.lists(st.sampled_from(ATTACKS), min_size=1, unique=True))
    limits = tuple(
        limit(attack=attack, max=draw(st.sampled_from([0.05, 0.2]))) for attack in attacks
    )
    return Policy(schema=1, name="drawn", limits=limits, gaps=GAPS)


def said(verdict: Verdict) -> Iterator[Any]:
    """Yield all that a verdict says."""
    yield verdict.overall, verdict.exit_code, verdict.reason
    yield from verdict.decisions
    yield verdict.settled


@given(built_records(), policies(), policies())
def test_no_verdict_depends_on_a_policy_that_judged_the_record_before(
    record: AuditRecord, earlier: Policy, policy: Policy
) -> None:
    alone = [*said(evaluate(record, policy, TODAY))]
    before = evaluate(record, earlier, TODAY)
    assert [*said(evaluate(record, policy, TODAY))] == alone
    assert [*said(evaluate(before.settled.record, policy, TODAY))] == alone
    written = records.loads(records.dumps(before.settled.record))
    assert [*said(evaluate(written, policy, TODAY))] == alone


def test_a_record_is_settled_once_on_the_way_to_its_verdict(
    record: AuditRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = []

    def settle_and_count(record: AuditRecord, limits: Any) -> Any:
        settled.append(limits)
        return settle(record, limits)

    monkeypatch.setattr("audit.policy.verdict.settle", settle_and_count)
    verdict = scan(record, POLICY, tmp_path).verdict
    assert settled == [POLICY.limits]
    assert verdict.settled == settle(record, POLICY.limits)
    assert verdict.decisions[0].cause == "confounded"


def test_a_record_that_an_older_version_settled_still_loads_and_stays_in_doubt(
    shifted: AuditRecord,
) -> None:
    # It holds the sentence of the check in the place of what the attack itself said, if anything.
    settled = settle(shifted, NARROW.limits).record
    marked = replace(settled.attacks[0], confounded=SHIFT.reason)
    stored = records.loads(records.dumps(replace(settled, attacks=(marked, *settled.attacks[1:]))))
    alike = evaluate(stored, NARROW, TODAY).decisions
    assert alike == evaluate(shifted, NARROW, TODAY).decisions
    (decision, *_) = evaluate(stored, BROAD, TODAY).decisions
    assert (decision.outcome, decision.cause) == ("undecided", "confounded")
