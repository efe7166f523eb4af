"""Every measurement of a record as a table that spreadsheets and scripts read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from audit.measurements import Estimate, Measurement
from audit.record import AuditRecord, Completed
from audit.report.labels import UTILITY, report_of

COLUMNS = (
    "attack",
    "metric",
    "label",
    "value",
    "low",
    "high",
    "level",
    "n",
    "unit",
    "clusters",
    "null",
    "null_kind",
    "method",
    "unresolved",
    "needed",
)
"""Of `measurements.csv`. A metric without a number says why under `unresolved`, and how many units it needs."""


def measurements_csv(record: AuditRecord) -> str:
    """All measurements of a record as CSV (RFC 4180), a row each, numbers in full precision; usefulness comes last."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="")
    writer.writeheader()
    for attack, item in _all(record):
        report = report_of(attack) if attack else UTILITY
        writer.writerow({"attack": attack or "usefulness", "label": report.label(item.name), **_numbers(item)})
    return text.getvalue()


def _all(record: AuditRecord) -> Iterator[tuple[str, Measurement]]:
    for result in record.attacks:
        if isinstance(result, Completed):
            yield from ((result.attack, item) for item in result.measurements)
    yield from (("", item) for item in record.utility)


def _numbers(item: Measurement) -> dict[str, object]:
    if not isinstance(item, Estimate):
        return {"metric": item.name, "n": item.n, "unresolved": item.reason, "needed": item.needed}
    names = ("value", "low", "high", "level", "n", "unit", "clusters", "null", "null_kind", "method")
    return {"metric": item.name, **{name: getattr(item, name) for name in names}}
