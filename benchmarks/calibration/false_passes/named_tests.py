"""Run each test that the tables of false_passes.md name, and print what becomes of each row."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path("benchmarks", "calibration", "false_passes.md")
_CODE = re.compile(r"`([^`]*)`")
_REPEATED = "the same"
RESULTS = {"failure": "failed", "error": "failed", "skipped": "skipped"}
"""What became of a test, by an element of pytest's report."""


@dataclass(frozen=True)
class Named:
    """A test as a cell names it.

    Attributes:
        file: the test file's name, without its folders.
        function: the beginning of the function's name; "" for all of the file.
        case: what the id of the case holds; "" for all.
    """

    file: str
    function: str = ""
    case: str = ""

    def matches(self, node: str) -> bool:
        """Test whether a test that pytest collected, FILE::FUNCTION[CASE], is this one."""
        place, _, call = node.partition("::")
        function, _, case = call.partition("[")
        return (
            Path(place).name == self.file
            and function.startswith(self.function)
            and self.case in case
        )


@dataclass(frozen=True)
class Row:
    """A row of a table: its construction, and the tests of its last cell."""

    construction: str
    tests: tuple[Named, ...]


def rows_of(text: str) -> Iterator[Row]:
    """Yield the rows of the tables that have a column of tests.

    "the same" are the tests of the row above.
    """
    in_tests = False
    above: tuple[Named, ...] = ()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            in_tests = False
        elif cells[-1] == "test":
            in_tests = True
        elif in_tests and not set(line) <= set("|-"):
            tests = named_in(cells[-1])
            if cells[-1].startswith(_REPEATED):
                tests = (*above, *tests)
            above = tests
            yield Row(cells[0], tests)


def named_in(cell: str) -> tuple[Named, ...]:
    """List the tests that a cell names; `...::test_x` is of the file before it."""
    tests = []
    file = ""
    for words in _CODE.findall(cell):
        place, _, call = words.partition("::")
        place, _, case = place.partition("[")
        if place.endswith(".py"):
            file = Path(place).name
        elif place != "...":
            continue
        function, _, case_of_call = call.partition("[")
        tests.append(Named(file, function.rstrip("."), (case or case_of_call).rstrip("]")))
    return tuple(tests)


def run(root: Path) -> int:
    """Run the tests of the page and print the outcome of each row.

    Return 1 where one failed or is missing.
    """
    rows = list(rows_of((root / PAGE).read_text(encoding="utf-8")))
    tests: set[Named] = set()
    for row in rows:
        tests.update(row.tests)
    outcomes = _outcomes(root, _collect(root, tests))
    return _print_outcomes(rows, outcomes)


def _print_outcomes(rows: Sequence[Row], outcomes: dict[str, str]) -> int:
    """Print the outcome of each construction's test; return 1 where one did not pass."""
    status = 0
    for row in rows:
        outcome = outcome_of(row, outcomes)
        print(f"{outcome:14} {row.construction}")
        if not outcome.startswith(("pass", "no test")):
            status = 1
    return status


def outcome_of(row: Row, outcomes: dict[str, str]) -> str:
    """Say what became of a row's tests: "pass", "fail" or "missing", with their number.

    Args:
        row: with its tests.
        outcomes: "passed", "failed" or "skipped" of each test that ran.
    """
    if not row.tests:
        return "no test"
    results: list[str] = []
    for test in row.tests:
        before = len(results)
        for node, result in outcomes.items():
            if test.matches(node):
                results.append(result)
        if len(results) == before:
            return "missing"
    if "failed" in results:
        return f"fail {results.count('failed')}/{len(results)}"
    if "passed" not in results:
        return "skipped"
    return f"pass {results.count('passed')}/{len(results)}"


def _pytest(root: Path, words: Sequence[str]) -> str:
    """Run pytest on these words in a checkout, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=root).stdout


def _collect(root: Path, tests: Collection[Named]) -> list[str]:
    """List the tests that pytest has of those that the page names."""
    files: set[str] = set()
    for test in tests:
        files.update(map(str, (root / "tests").rglob(test.file)))
    lines = _pytest(root, ["--collect-only", *sorted(files)]).splitlines()
    return [line for line in lines if any(test.matches(line) for test in tests)]


def _outcomes(root: Path, nodes: Sequence[str]) -> dict[str, str]:
    """Run tests, file by file, and return by node what became of each."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        by_file[node.partition("::")[0]].append(node)
    outcomes = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, (file, nodes_of_file) in enumerate(by_file.items()):
            report = Path(scratch) / f"{number}.xml"
            _pytest(root, [f"--junitxml={report}", *nodes_of_file])
            for case in ElementTree.parse(report).iter("testcase"):
                outcomes[f"{file}::{case.get('name')}"] = _result_of(case)
    return outcomes


def _result_of(case: ElementTree.Element) -> str:
    """Return the result (passed, failed, ...) of a test case in pytest's XML."""
    for element, result in RESULTS.items():
        if case.find(element) is not None:
            return result
    return "passed"
