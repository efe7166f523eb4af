"""measurements.csv: every number of the record, and why there is none."""

from __future__ import annotations

import csv
import io

import example_records as examples
import pytest

from audit.measurements import Estimate
from audit.record import Completed
from audit.report.measurements_csv import COLUMNS, measurements_csv


@pytest.mark.parametrize("case", ["violated", "unresolved", "skipped"])
def test_every_measurement_of_the_record_is_a_row_in_full_precision(case: str) -> None:
    record, _, _ = examples.CASES[case]()
    rows = list(csv.DictReader(io.StringIO(measurements_csv(record))))
    measured = [item for one in record.attacks if isinstance(one, Completed) for item in one.measurements]
    measured += record.utility
    assert [row["metric"] for row in rows] == [item.name for item in measured]
    for row, item in zip(rows, measured, strict=True):
        assert tuple(row) == COLUMNS
        assert row["label"]
        if isinstance(item, Estimate):
            assert (float(row["value"]), float(row["low"]), float(row["high"])) == (item.value, item.low, item.high)
            assert int(row["n"]) == item.n
            assert row["unresolved"] == ""
        else:
            assert (row["value"], row["unresolved"]) == ("", item.reason)
