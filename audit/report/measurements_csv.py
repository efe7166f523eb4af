"""Every measurement of a record as a table that spreadsheets and scripts read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from audit.measurements import Estimate, Measurement
from audit.record import AuditRecord
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

_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""The characters that begin a formula in a spreadsheet; the last four are full-width forms of the first."""


def measurements_csv(record: AuditRecord) -> str:
    """Write all measurements of a record as CSV, a row each, numbers in full precision; usefulness comes last."""
    completed = (one for one in record.completed.values())
    done = [(one.attack, report_of(one.attack), one.measurements) for one in completed]
    rows = [
        {"attack": name, "label": text.label(item.name), **_numbers(item)}
        for name, text, items in (*done, ("usefulness", UTILITY, record.utility))
        for item in items
    ]
    return csv_text(COLUMNS, rows)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Write rows as CSV (RFC 4180) whose text no spreadsheet takes for a formula.

    Such a text gets an apostrophe before it, which spreadsheets hide (OWASP, "CSV Injection"). Numbers stay.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: _plain(value) for column, value in row.items()})
    return text.getvalue()


def _plain(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _numbers(item: Measurement) -> dict[str, object]:
    if not isinstance(item, Estimate):
        return {"metric": item.name, "n": item.n, "unresolved": item.reason, "needed": item.needed}
    return {"metric": item.name, **{name: getattr(item, name) for name in COLUMNS[3:13]}}
