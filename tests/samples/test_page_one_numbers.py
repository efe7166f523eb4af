"""Numbers of page one and of the regulator table, computed again from journals, documents and policy alone.

Nothing here calls the measuring or report code: only JSON, TOML and arithmetic. It reads the scans
that the gate, or the night, has made (`DOCAUDIT_SAMPLE_SCANS`), whatever their budget.
"""

import html
import json
import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from audit import policy as policies
from audit import record as records
from audit.corpus.folding import fold
from benchmarks.tools import recount_scan
from benchmarks.tools.recount import numbers_of
from benchmarks.tools.recount_claims import Number
from benchmarks.tools.recount_page_one import Recount, listed_kinds, recount_kinds
from benchmarks.tools.recount_scan import UNITS

ROOT = Path(os.environ.get("DOCAUDIT_SAMPLE_SCANS", "/nonexistent"))
SCANS = sorted(path.parent for path in ROOT.glob("*-*/record.json"))
TITLES = {
    "reconstruction": "Restoring blacked-out values",
    "attribute_inference": "Picking a hidden value from a list",
    "memorisation": "Answers given after they were removed from the page",
    "membership": "Recognising training documents",
}
pytestmark = pytest.mark.skipif(not SCANS, reason="reads what the gate has scanned")


NOT_IN_THE_JOURNAL = {
    "page 1, row “Recognise what kind of value a black bar hides”",
    "page 1, outside the policy",
    "page 2, scope, accuracy",
    "page 2, scope, tried",
}
"""Places of numbers that no file of a scan allows to recompute."""


class Scan(recount_scan.Scan):
    """A scan as its files say it, with the text of its report on one line."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        page = re.sub(r"(?<=</t[dh]>)", " ", self.page)
        bare = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")
        self.text = re.sub(r"\s+", " ", bare)
        # The tabs name sections, and page one begins with the number of the audit.
        summary = self.text.partition("Privacy audit DA-")[2]
        self.summary = summary.partition("Decision The stamp")[0]
        self.findings = self.text.rpartition("Detailed findings")[2].partition(
            "Results against each limit"
        )[0]


@cache
def accounted(folder: Path) -> tuple[Number, ...]:
    """All numbers of page one and page two of a scan, with what became of each."""
    return tuple(numbers_of(folder))


@pytest.mark.parametrize("folder", SCANS, ids=lambda folder: folder.name)
def test_every_number_of_page_one_and_two_is_recomputed_or_named(folder: Path) -> None:
    numbers = accounted(folder)

    assert [number for number in numbers if number.state == "unlisted"] == []
    left = {number.place for number in numbers if number.state == "not in the journal"}
    assert left <= NOT_IN_THE_JOURNAL


def counts_nearly_right(folder: Path) -> bool:
    """Whether the number that decides restored values counts those that are nearly right."""
    record = records.read(folder)
    verdict = policies.evaluate(record, policies.load("default"), policies.today())
    deciding = {
        decision.measured.name
        for decision in verdict.decisions
        if decision.limit.metric == "excess_pr.unique" and decision.measured is not None
    }
    return "excess_pr.unique.near" in deciding


@pytest.mark.parametrize("folder", SCANS, ids=lambda folder: folder.name)
def test_no_number_of_page_one_and_two_differs_from_its_recount(folder: Path) -> None:
    if counts_nearly_right(folder):
        pytest.skip("the recount knows no values that are nearly right")
    numbers = accounted(folder)

    assert [number for number in numbers if number.state == "unequal"] == []
    assert sum(number.state == "equal" for number in numbers) > 20


@pytest.fixture(scope="module", params=SCANS, ids=lambda path: path.name)
def scan(request: pytest.FixtureRequest) -> Scan:
    return Scan(request.param)


def test_the_regulator_table_says_what_was_really_asked(scan: Scan) -> None:
    totals = scan.totals()
    attacked = scan.attacked()
    assert attacked
    for attack, count in attacked.items():
        unit = UNITS[attack]
        asked = f"tested: {count:,} of {totals[unit]:,} {unit} of training"
        told = re.findall(
            rf"{TITLES[attack]}: (tested: [\d,]+ of [\d,]+ \w+ of training)", scan.text
        )
        assert told, attack
        assert set(told) == {asked}


def test_the_counts_are_those_of_the_policy(scan: Scan) -> None:
    limits = tomllib.loads(scan.record["policy"]["toml"])["limits"]
    bare = scan.text
    while bare != (shorter := re.sub(r" ?\([^()]*\)", "", bare)):
        bare = shorter  # what was not tested stands in brackets behind its count
    found = re.findall(
        r"(\d+) of (\d+) limits (?:exceeded|undecided|met)((?:, \d+ [a-z ]+)*)", bare
    )
    assert found
    for first, total, rest in found:
        assert int(first) + sum(map(int, re.findall(r"\d+", rest))) == int(total)
    # Those on the model; those on redacted text have a verdict of their own.
    assert sum({int(total) for _, total, _ in found}) == len(limits)


def test_the_share_of_values_rebuilt_is_that_of_the_journal(scan: Scan) -> None:
    if "reconstruction" not in scan.outcomes:
        return
    texts = []
    for document in scan.documents.values():
        words = [word["text"] for word in document["words"]]
        texts.append(fold(" ".join(words)))

    def gains(split: str, method: str) -> tuple[list[int], list[int]]:
        found = []
        gained = []
        for (document, name, *_), outcome in scan.of("reconstruction", split):
            entity = next(one for one in scan.documents[document]["entities"] if one["id"] == name)
            value = _value(scan.documents[document], entity)
            # No other page has it, as a value or within its text.
            if sum(value in text for text in texts) == 1:
                own = outcome["methods"][method] if method else outcome
                sides = [
                    own[player][0]["tokens"] == outcome["truth"]
                    for player in ("attack", "baseline")
                ]
                found.append(sides[0])
                gained.append(sides[0] - sides[1])
        return found, gained

    measured = {one["name"]: one for one in _measurements(scan, "reconstruction")}
    for method, suffix in (("", ""), ("lowest_loss", ".lowest_loss")):
        (found, member) = gains("member", method)
        (_, heldout) = gains("heldout", method)
        excess = sum(member) / len(member) - sum(heldout) / len(heldout)
        # Weights by the chance of a value to be tried move it a little.
        assert measured[f"excess_pr.unique{suffix}"]["value"] == pytest.approx(excess, abs=0.01)
        restored = measured[f"pr.member.attack.unique{suffix}"]
        assert (round(restored["value"] * restored["n"]), restored["n"]) == (sum(found), len(found))
    # The page shows the way of choosing that decides: values that are nearly right are counted by
    # the record alone.
    methods = ("", ".lowest_loss", ".near")
    told = re.search(
        r"(?:Training accounts for|training was found:) ([\d.−-]+) % of values", scan.findings
    )
    if told is None:
        points = re.search(
            r"([\d.−-]+) points \([^)]*\), the limit is at most 5 points", scan.findings
        )
        shown = float(points[1].replace("−", "-")) if points else 0.0
        shares = [measured[f"excess_pr.unique{suffix}"]["value"] for suffix in methods]
        assert any(shown == pytest.approx(100 * share, abs=0.05) for share in shares)
        return
    deciding = []
    counted = {}
    for suffix in methods:
        counted[suffix] = _counted(measured[f"pr.member.attack.unique{suffix}"])
        if _tells(told[1], measured[f"excess_pr.unique{suffix}"]["value"]):
            deciding.append(suffix)
    assert any(counted[suffix] in scan.summary for suffix in deciding)
    assert any(f"at least {counted[suffix]} values" in scan.findings for suffix in deciding)


def test_kinds_and_documents_that_gave_values_back_are_those_of_the_journal(scan: Scan) -> None:
    shown = _sum_of_kinds(scan)
    if shown is None:
        return
    recounts = [
        recount_kinds(scan, "reconstruction", ""),
        recount_kinds(scan, "reconstruction", ".lowest_loss"),
    ]
    if _counts_nearly_right(scan, shown[0], recounts):
        return
    assert shown in [recount.totals for recount in recounts]
    recount = next(recount for recount in recounts if recount.totals == shown)
    listed = {}
    for kind, line in listed_kinds(scan.page_one).items():
        counts = re.findall(r"[\d,]+(?= of| )", line[0].partition("|")[2])
        listed[kind] = tuple(int(number.replace(",", "")) for number in counts[:2])
    assert listed
    others = listed.pop("Other kinds", (0, 0))
    for kind, counts in listed.items():
        assert counts == (recount.hits[kind], recount.tried[kind]), kind
    assert sum(hits for hits, _ in listed.values()) + others[0] == shown[0]


def _sum_of_kinds(scan: Scan) -> tuple[int, ...] | None:
    """Values, documents that gave one back, and documents tried, as page one adds the kinds up."""
    told = re.search(
        r"([\d,]+) values in all, from ([\d,]+) of the ([\d,]+) training documents",
        scan.summary,
    )
    if "reconstruction" not in scan.outcomes or told is None:
        return None
    return tuple(int(number.replace(",", "")) for number in told.groups())


def _counts_nearly_right(scan: Scan, n_values: int, recounts: list[Recount]) -> bool:
    """Whether these values are those that are nearly right, which the record alone counts."""
    measured = {row["name"]: row for row in _measurements(scan, "reconstruction")}
    near = measured["pr.member.attack.unique.near"]
    word_for_word = {recount.totals[0] for recount in recounts}
    return n_values not in word_for_word and n_values == round(near["value"] * near["n"])


def _measurements(scan: Scan, attack: str) -> list[dict[str, Any]]:
    (result,) = (one for one in scan.record["attacks"] if one["attack"] == attack)
    return [one for one in result["measurements"] if one["kind"] == "estimate"]


def _tells(text: str, share: float) -> bool:
    """Whether a whole number of per cent is that of a share."""
    return float(text.replace("−", "-")) == pytest.approx(100 * share, abs=0.5)


def _counted(share: dict[str, Any]) -> str:
    return f"{round(share['value'] * share['n'])} of {share['n']}"


def _value(document: dict[str, Any], entity: dict[str, Any]) -> str:
    return fold(" ".join(document["words"][index]["text"] for index in entity["words"]))


def test_the_answers_given_are_those_of_the_journal(scan: Scan) -> None:
    if "memorisation" not in scan.outcomes:
        return
    outcomes = [
        outcome for _, outcome in scan.of("memorisation", "member") if outcome["status"] == "proven"
    ]
    rows = [outcome["replies"]["exact"] for outcome in outcomes if "exact" in outcome["replies"]]
    own = [row[0]["exact"] for row in rows]
    others = [[one["exact"] for one in row[1:]] for row in rows]
    least = "at least " if any(own) else ""
    assert f"the model still gave {least}{sum(own)} of {len(own)} answers" in scan.findings
    assert f"{sum(own)} of {len(own)}" in scan.summary
    alone = [mine * (1 - sum(rest) / len(rest)) for mine, rest in zip(own, others, strict=True)]
    net = sum(alone) - sum(
        (1 - mine) * sum(rest) / len(rest) for mine, rest in zip(own, others, strict=True)
    )
    told = re.search(r"([\d.−-]+) % of questions", scan.findings)
    assert told is not None
    assert float(told[1].replace("−", "-")) == pytest.approx(100 * net / len(own), abs=0.5)


def test_the_area_is_that_of_the_losses_in_the_journal(scan: Scan) -> None:
    def losses(split: str, calibrated: bool) -> list[float]:
        return [
            one["target"]["loss"]
            - (
                sum(ref["loss"] for ref in one["reference"]) / len(one["reference"])
                if calibrated
                else 0
            )
            for _, one in scan.of("membership", split)
            if one["target"] is not None
        ]

    pairs = re.search(r"([\d.]+) % of pairs", scan.summary)
    assert pairs is not None
    shown = float(pairs[1]) / 100
    assert any(
        shown
        == pytest.approx(
            _area(losses("member", calibrated), losses("heldout", calibrated)), abs=0.006
        )
        for calibrated in (False, True)
    )


def _area(members: list[float], others: list[float]) -> float:
    """The share of pairs in which the member has the lower loss, ties as halves."""
    return sum((a < b) + (a == b) / 2 for a in members for b in others) / (
        len(members) * len(others)
    )


@pytest.mark.parametrize("folder", SCANS, ids=lambda folder: folder.name)
def test_checks_and_conditions_of_a_record_name_attacks_of_its_battery(folder: Path) -> None:
    record = json.loads((folder / "record.json").read_text())
    rows = [*record["checks"], *record["conditions"]]
    for result in record["attacks"]:
        rows += [*result["checks"], *result["conditions"]]
    assert rows
    for row in rows:
        assert {*row.get("attacks", ())} <= {*record["battery"]}
