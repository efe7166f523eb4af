"""measurements.csv: every number of the record, and why there is none."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import example_records as examples
import pytest

import audit
from audit.measurements import Estimate
from audit.report.files import COLUMNS, csv_text, measurements_csv


@pytest.mark.parametrize("case", ["violated", "unresolved", "skipped"])
def test_every_measurement_of_the_record_is_a_row_in_full_precision(case: str) -> None:
    record, _, _ = examples.CASES[case]()
    rows = list(csv.DictReader(io.StringIO(measurements_csv(record))))
    measured = [item for one in record.completed.values() for item in one.measurements]
    measured += record.utility
    assert [row["metric"] for row in rows] == [item.name for item in measured]
    for row, item in zip(rows, measured, strict=True):
        assert tuple(row) == COLUMNS
        assert row["label"]
        if isinstance(item, Estimate):
            assert (float(row["value"]), float(row["low"]), float(row["high"])) == (
                item.value,
                item.low,
                item.high,
            )
            assert (int(row["n"]), row["unresolved"]) == (item.n, "")
        else:
            assert (row["value"], row["unresolved"]) == ("", item.reason)


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_no_text_is_a_formula(start: str) -> None:
    """A record may come from elsewhere, and names of metrics, units and methods are whatever stands in it."""
    formula = f'{start}HYPERLINK("http://127.0.0.1/?"&A1)'
    record = examples.CASES["violated"]()[0]
    text = {"name": formula, "unit": formula, "method": formula}
    utility = tuple(replace(item, **text) for item in record.utility if isinstance(item, Estimate))
    assert utility
    record = replace(record, utility=utility)
    written = measurements_csv(record)
    cells = [
        cell for row in csv.DictReader(io.StringIO(written, newline="")) for cell in row.values()
    ]
    assert sum(cell == f"'{formula}" for cell in cells) >= 3
    assert not any(cell.startswith(start[0]) for cell in cells if "HYPERLINK" in cell)


def test_numbers_stay_numbers() -> None:
    assert csv_text(("a", "b"), [{"a": -0.5, "b": "-x"}]) == "a,b\r\n-0.5,'-x\r\n"


def test_one_writer_writes_every_table() -> None:
    """So that no table is written without it."""
    package = Path(audit.__file__).parent
    users = [
        path
        for path in package.rglob("*.py")
        if re.search(r"\bcsv\.(writer|DictWriter)\b", path.read_text())
    ]
    assert [path.name for path in users] == ["files.py"]
