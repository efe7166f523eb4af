"""A policy that asks for what there is, and the verdict on a record."""

from __future__ import annotations

from pathlib import Path

from audit import policy as policies
from audit import record as records
from audit.attacks import known_metrics
from audit.policy import Policy, Verdict
from audit.record import AuditRecord


def load_policy(name_or_path: str, *, complete: bool = True) -> Policy:
    """Read a policy, and check it before anything is run that may take hours.

    Args:
        name_or_path: a shipped policy or a file.
        complete: check its names too; without, a record says itself which attacks there were.

    Raises:
        PolicyError: it cannot be read, names an attack or a metric that does not exist, or a limit can never be
            reached.
    """
    policy, metrics = policies.load(name_or_path), known_metrics()
    if complete:
        policies.check_names(policy, metrics)
    policies.check_ranges(policy, metrics)
    return policy


def gate_record(path: Path, policy: str) -> tuple[AuditRecord, Verdict]:
    """Hold a record against a policy.

    Args:
        path: of the record, or of the folder that a scan wrote.
        policy: a shipped policy or a file.

    Returns:
        The record, and the verdict on it.

    Raises:
        DocauditError: one of them cannot be read, or they do not fit each other.
    """
    chosen = load_policy(policy, complete=False)
    record = records.read(path)
    return record, policies.evaluate(record, chosen, policies.today())
