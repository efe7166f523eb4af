"""Conditions of a scan that must be the same in another one before their numbers are compared."""

from __future__ import annotations

from audit.record import AuditRecord


def conditions(record: AuditRecord) -> dict[str, object]:
    """What must not differ, whatever the attacks, by label."""
    return {
        "the data set": record.corpus.sha256,
        "the seed": record.seed,
        "the budget": (record.budget, record.share),
    }
