"""A policy that asks for what there is, and the verdict on a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from audit import policy as policies
from audit import record as records
from audit.attacks import known_metrics
from audit.errors import UsageError
from audit.policy import EXIT_CODES, Policy, Verdict
from audit.record import AuditRecord

UNAUDITED = (
    "no model was audited, this is the record of a text alone; where the text is what is to be let through, "
    "gate it with --no-model"
)


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


def gate_record(path: Path, policy: str, *, no_model: bool = False) -> tuple[AuditRecord, Verdict]:
    """Hold a record against a policy.

    Args:
        path: of the record, or of the folder that a scan wrote.
        policy: a shipped policy or a file.
        no_model: the record is to be that of a text audited alone; else such a record cannot pass.

    Returns:
        The record, and the verdict on it.

    Raises:
        UsageError: `no_model`, and the record is of a model.
        DocauditError: one of them cannot be read, or they do not fit each other.
    """
    chosen = load_policy(policy, complete=False)
    record = records.read(path)
    verdict = policies.evaluate(record, chosen, policies.today())
    if record.target.is_model and no_model:
        raise UsageError("--no-model: the record is of a model", "leave it out, or give that of scan --no-model")
    if record.target.is_model or no_model or verdict.overall == "violated":
        return record, verdict
    # A pipeline that takes a model on would take this one on unaudited.
    return record, replace(verdict, overall="undecided", exit_code=EXIT_CODES["undecided"], reason=UNAUDITED)
