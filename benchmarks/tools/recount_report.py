"""Hold what is recomputed for a report: outcomes of limits, and the rows of page one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools.recount_attacks import Reached, Share, ways_of
from benchmarks.tools.recount_claims import Expected, agreement
from benchmarks.tools.recount_limits import Outcome, outcomes_of
from benchmarks.tools.recount_people import Reach
from benchmarks.tools.recount_scan import Scan

ROOT = Path(__file__).parents[2]
AREAS = ("auc", "balanced_accuracy", "balanced_accuracy.azk")
"""Metrics that page one writes as the share of pairs told apart rightly."""
IN_BITS = "excess_exposure"
GUESSING = 50.0
END_UNITS = 1.0
"""Of the last printed digit by which an end of an interval may be rounded outwards."""
TRAINED, UNSEEN, WITHOUT, REACHED, LIMIT = range(1, 6)
"""Places of the cells of a row of page one."""
COUNT = r"\d(?:[\d,]*\d)?"
SLOTS = {
    "n_member": COUNT,
    "of_member": COUNT,
    "n_heldout": COUNT,
    "of_heldout": COUNT,
    "n_values": COUNT,
    "n_without": COUNT,
    "share": r"[\d.]+ %",
    "who": r"[^.\n]+?",
}
"""Patterns of what templates of sentences are filled with."""


@cache
def texts_of_attacks() -> dict[str, dict[str, Any]]:
    """Return the texts of each attack, by name."""
    tables = {}
    for path in sorted((ROOT / "audit" / "attacks").glob("*/text.toml")):
        table = tomllib.loads(path.read_text())
        tables[table["name"]] = table
    return tables


@cache
def labels() -> dict[str, dict[str, str]]:
    """Return the words of the reports."""
    return tomllib.loads((ROOT / "audit" / "report" / "labels.toml").read_text())


def pattern_of(template: str) -> str:
    """Return a pattern for the sentences that a template makes."""
    pattern = ""
    for part in re.split(r"(\{\w+(?::,)?\})", template):
        slot = part.strip("{}").partition(":")[0]
        pattern += SLOTS[slot] if part.startswith("{") else re.escape(part)
    return pattern


class Row(NamedTuple):
    """A row of page one.

    Attributes:
        attack: its name.
        start: where the row begins in the text of the page.
        cells: its cells, as they stand there.
        reached: the way of choosing that the row shows; None where none was recomputed.
    """

    attack: str
    start: int
    cells: list[str]
    reached: Reached | None

    def place(self, cell: int) -> tuple[int, int]:
        """Return where a cell stands in the text of the page."""
        start = self.start
        for text in self.cells[:cell]:
            start += len(text) + 1
        return start, start + len(self.cells[cell])


class Report:
    """The report of a scan, with what is recomputed for it.

    Attributes:
        scan: the scan.
        outcomes: what became of each limit.
        ways: what each attack reached, by every way of choosing.
        rows: rows of page one, from above.
    """

    def __init__(self, scan: Scan) -> None:
        """Recompute what the attacks of a scan reached."""
        self.scan = scan
        self.outcomes = outcomes_of(scan)
        self.ways = {attack: ways_of(scan, attack) for attack in texts_of_attacks()}
        self.rows = sorted(self._rows(), key=lambda row: row.start)

    def limit(self, attack: str, metric: str) -> Outcome | None:
        """Return what became of a limit; None where the policy has none."""
        for outcome in self.outcomes:
            if (outcome.limit["attack"], outcome.limit["metric"]) == (attack, metric):
                return outcome
        return None

    def not_run(self) -> list[str]:
        """List the attacks that apply to the model and gave no numbers."""
        names = []
        for row in self.scan.record["attacks"]:
            applies = (row["reason"] or {}).get("kind") != "model"
            if row["status"] != "completed" and applies:
                names.append(row["attack"])
        return names

    def expected_cells(self, attack: str, way: Reached) -> dict[int, list[Expected]]:
        """Return the numbers of a row's cells but the first, by place."""
        cells = {REACHED: [expected_value(way), *expected_ends(way)]}
        if way.metric in AREAS:
            cells[TRAINED] = [expected_value(way)]
            cells[WITHOUT] = [Expected(GUESSING)]
        else:
            cells[TRAINED] = expected_share(way.trained)
            cells[UNSEEN] = expected_share(way.unseen)
            cells[WITHOUT] = expected_share(way.without)
        outcome = self.limit(attack, way.metric)
        if outcome is None:
            # The way's own name stands behind the number that the limit is on.
            outcome = self.limit(attack, way.metric.partition(".")[0])
        if outcome is not None:
            cells[LIMIT] = [Expected(outcome.limit["max"] * scale_of(way.metric))]
            # Limits on the text of the documents stand apart from those on the model.
            limits = [
                row
                for row in self.outcomes
                if row.limit["attack"] == attack and row.about_text == outcome.about_text
            ]
            n_alike = sum(row.word == outcome.word for row in limits)
            if len(limits) > 1:
                cells[LIMIT] += [Expected(n_alike), Expected(len(limits))]
        return cells

    def _rows(self) -> Iterator[Row]:
        """Yield the rows of page one, each with the way of choosing that agrees with most cells."""
        for attack, text in texts_of_attacks().items():
            pattern = rf"^{re.escape(text['short_question'])}( ;| \|).*$"
            match = re.search(pattern, self.scan.page_one, re.M)
            if match is None:
                continue
            cells = match[0].split("|")
            shown: Reached | None = None
            for way in self.ways[attack]:
                if shown is None or self._fit(attack, cells, way) > self._fit(attack, cells, shown):
                    shown = way
            yield Row(attack, match.start(), cells, shown)

    def _fit(self, attack: str, cells: Sequence[str], way: Reached) -> int:
        """Return how well the cells of a row agree with a way of choosing."""
        points = {"equal": 2, "near": 1}
        fit = 0
        for place, expected in self.expected_cells(attack, way).items():
            fit += points.get(agreement(cells[place], expected), 0)
        return fit


def scale_of(metric: str) -> float:
    """Return the factor by which a number is printed: shares and differences in per cent."""
    return 1.0 if metric == IN_BITS else 100.0


def expected_value(way: Reached) -> Expected:
    """Return the number that a limit is about, as it is printed."""
    scale = scale_of(way.metric)
    return Expected(scale * way.value, scale * way.slack)


def expected_ends(way: Reached) -> list[Expected]:
    """Return both ends of a number's interval as they are printed; nothing where it has none."""
    if way.ends is None:
        return []
    scale = scale_of(way.metric)
    slack = scale * way.ends.slack * (way.ends.high - way.ends.low) + scale * way.slack
    ends = [scale * max(-1.0, way.ends.low), scale * way.ends.high]
    if way.metric != IN_BITS:
        ends[1] = min(scale, ends[1])
    return [Expected(end, slack, END_UNITS) for end in ends]


def expected_share(share: Share | None) -> list[Expected]:
    """Return a count, of how many, and its share in per cent; nothing where it is not counted."""
    if share is None:
        return []
    return [*expected_counts(share), Expected(100 * share.share)]


def expected_counts(share: Share) -> list[Expected]:
    """Return a count, and of how many."""
    return [Expected(share.hits), Expected(share.n)]


def best_people(text: str, reached: Sequence[Reach], *, with_interval: bool) -> list[Expected]:
    """Return the people by the way of choosing that agrees with a text; else by the first way."""
    ways = []
    for people in reached:
        numbers = [Expected(people.hits), Expected(people.n)]
        if with_interval:
            numbers += [Expected(100 * end, units=END_UNITS) for end in (people.low, people.high)]
        ways.append(numbers)
    fitting = [numbers for numbers in ways if agreement(text, numbers) == "equal"]
    return [*fitting, *ways, []][0]
