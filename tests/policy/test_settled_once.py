"""The checks of a record are settled once on the way to its verdict."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tiny
from judged import BOTH, LEAKY, OTHER_SAFE, TODAY, completed

from audit.engine.interface import SILENT
from audit.measurements import Check
from audit.policy import Policy, evaluate
from audit.policy.checks import settle
from audit.record import AuditRecord
from audit.workflows.options import ScanOptions
from audit.workflows.scan import audit_checkpoint
from audit.workflows.session import Session

POLICY = Policy(schema=1, name="test", limits=BOTH)
BLIND = Check("blind", 0.001, "confounded", "they can be told apart", "divide them by lot")
IN_A_SCAN = "audit.workflows.scan.settle"
IN_A_VERDICT = "audit.policy.verdict.settle"


@pytest.fixture
def record() -> AuditRecord:
    leaky = completed(LEAKY, checks=(BLIND,))
    return tiny.record(leaky, OTHER_SAFE, battery=("reconstruction", "membership"))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count how often a record is settled, by where."""
    places: list[str] = []

    def counting(place: str) -> Any:
        def settle_and_count(record: AuditRecord, limits: Any) -> AuditRecord:
            places.append(place)
            return settle(record, limits)

        return settle_and_count

    for place in (IN_A_SCAN, IN_A_VERDICT):
        monkeypatch.setattr(place, counting(place))
    return places


def test_a_record_that_is_read_is_settled_by_its_verdict(record, settled) -> None:
    evaluate(record, POLICY, TODAY)
    assert settled == [IN_A_VERDICT]


def test_a_settled_record_has_the_same_verdict(record) -> None:
    alike = evaluate(settle(record, POLICY.limits), POLICY, TODAY, settled=True)
    assert alike == evaluate(record, POLICY, TODAY)
    assert alike.decisions[0].cause == "confounded"


def test_a_scan_settles_its_record_alone(
    record: AuditRecord, settled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.workflows.scan.run_scan", lambda *_: record)
    monkeypatch.setattr("audit.workflows.scan.write_report", lambda *_, **__: [])
    options = ScanOptions(tmp_path / "model", tmp_path / "data", tmp_path / "out")
    session = cast("Session", SimpleNamespace(options=options))
    result = audit_checkpoint(session, POLICY, SILENT)
    assert settled == [IN_A_SCAN]
    assert result.verdict.decisions[0].cause == "confounded"
    assert result.record == settle(record, POLICY.limits)
