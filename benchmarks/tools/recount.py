"""Recompute every number on page one and page two: `python -m benchmarks.tools.recount SCAN_DIR`.

Each SCAN_DIR is named SAMPLE-MODEL, so that the data set is found; `--data` names another one. Only
journals, evidence, labels and scipy are used, and neither the code that measures nor that of the
reports. Prints a Markdown table. Ends with 1 where a number is unequal, or nothing recomputes it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tools.recount_claims import Number
from benchmarks.tools.recount_page_one import page_one
from benchmarks.tools.recount_page_two import page_two
from benchmarks.tools.recount_report import Report
from benchmarks.tools.recount_scan import Scan

HEAD = """\
# Every number on page one and page two, recomputed

`equal`: the recomputed number, to the last printed digit. `near`: equal but for the random numbers
of resampling. `name`: part of a name, a date or a fingerprint. `constant`: the same in all reports.
`not in the journal`: no file of the scan holds what it rests on.
"""
FAILURES = ("unequal", "unlisted")


def numbers_of(folder: Path, data: Path | None = None) -> list[Number]:
    """Account for all numbers of the report in a scan folder."""
    report = Report(Scan(folder, data))
    return [*page_one(report), *page_two(report)]


def markdown(by_scan: dict[str, Sequence[Number]]) -> str:
    """Write the table of all numbers, with a summary."""
    lines = [HEAD, "| report | numbers | states |", "| --- | --- | --- |"]
    for name, numbers in by_scan.items():
        counted = Counter(number.state for number in numbers)
        states = ", ".join(f"{n} {state}" for state, n in counted.most_common())
        lines.append(f"| {name} | {len(numbers)} | {states} |")
    lines += ["", "| report | place | printed | definition | recomputed | state |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, numbers in by_scan.items():
        for number in numbers:
            cells = [name, *(cell.replace("|", "/") for cell in number)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of the numbers of scans; return 1 where one is not accounted for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("scans", nargs="+", type=Path, metavar="SCAN_DIR")
    parser.add_argument("--data", type=Path, help="folder of the data set of all scans")
    options = parser.parse_args(arguments)
    by_scan: dict[str, Sequence[Number]] = {}
    for folder in options.scans:
        by_scan[folder.name] = numbers_of(folder, options.data)
    print(markdown(by_scan))
    failing = [number for numbers in by_scan.values() for number in numbers]
    return int(any(number.state in FAILURES for number in failing))


if __name__ == "__main__":
    sys.exit(main())
