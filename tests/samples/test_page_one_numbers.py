"""Numbers of page one and of the regulator table, computed again from journals, documents and policy alone.

Nothing here calls the measuring or report code: only JSON, TOML and arithmetic. It reads the scans
that the gate, or the night, has made (`DOCAUDIT_SAMPLE_SCANS`), whatever their budget.
"""

import html
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from audit.corpus.folding import fold

SAMPLES = Path(__file__).parents[2] / "sample_models"
ROOT = Path(os.environ.get("DOCAUDIT_SAMPLE_SCANS", "/nonexistent"))
SCANS = sorted(path.parent for path in ROOT.glob("*-*/record.json"))
KINDS = {
    "People": "person",
    "Organisations": "organization",
    "Addresses and places": "location",
    "Dates and times": "datetime",
    "Amounts of money": "amount",
    "Numbers and codes": "code",
    "Contact details": "contact",
}
TITLES = {
    "reconstruction": "Restoring blacked-out values",
    "attribute_inference": "Picking a hidden value from a list",
    "memorisation": "Answers given after they were removed from the page",
    "membership": "Recognising training documents",
}
pytestmark = pytest.mark.skipif(not SCANS, reason="reads what the gate has scanned")


class Scan:
    """A scan as its files say it: text of the report, outcomes by attack, documents by id."""

    def __init__(self, folder: Path) -> None:
        page = re.sub(
            r"<script.*?</script>|<style.*?</style>",
            "",
            (folder / "report.html").read_text(),
            flags=re.S,
        )
        page = re.sub(r"(?<=</t[dh]>)", " ", page)
        self.text = re.sub(
            r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")
        )
        # The tabs name sections, and page one begins with the number of the audit.
        summary = self.text.partition("Privacy audit DA-")[2]
        self.page_one = summary.partition("Decision The stamp")[0]
        self.findings = self.text.rpartition("Detailed findings")[2].partition(
            "Results against each limit"
        )[0]
        self.record: dict[str, Any] = json.loads((folder / "record.json").read_text())
        lines = (
            (SAMPLES / folder.name.partition("-")[0] / "data" / "documents.jsonl")
            .read_text()
            .splitlines()
        )
        self.documents = {document["id"]: document for document in map(json.loads, lines)}
        self.outcomes: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
        for path in folder.glob("evidence/journal-*.jsonl"):
            rows = map(json.loads, path.read_text().splitlines())
            attack = path.name.removeprefix("journal-").rpartition("-")[0]
            self.outcomes[attack] = {tuple(row["id"].split("\x1f")): row["outcome"] for row in rows}

    def of(self, attack: str, split: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
        """The outcomes of an attack on documents of a split."""
        for key, outcome in self.outcomes.get(attack, {}).items():
            if key[0] in self.documents and self.documents[key[0]]["split"] == split:
                yield key, outcome

    def held(self) -> dict[str, int]:
        """What the documents of training hold: fields, questions with an answer, documents without a held-out copy."""
        texts: dict[str, set[str]] = {}
        for one in self.documents.values():
            texts.setdefault(_spelling(one), set()).add(one["split"])
        members = [one for one in self.documents.values() if one["split"] == "member"]
        fields = sum(len(one.get("entities", ())) for one in members)
        asked_for = [(one["id"], asked) for one in members for asked in one.get("questions", ())]
        questions = sum(any(asked["answers"]) for _, asked in asked_for)
        about = {(name, asked.get("entity")) for name, asked in asked_for}
        unasked = sum(
            (one["id"], entity["id"]) not in about
            for one in members
            for entity in one.get("entities", ())
        )
        return {
            "fields": fields,
            "values": questions + unasked if questions else fields,
            "questions": questions,
            "documents": sum("heldout" not in texts[_spelling(one)] for one in members),
        }

    def attacked(self) -> dict[str, int]:
        """What each attack really asked about, of documents of training."""
        rules: dict[str, Callable[[dict[str, Any]], bool]] = {
            "reconstruction": lambda _: True,
            "attribute_inference": lambda outcome: outcome["lost"] is None,
            "memorisation": lambda outcome: (
                outcome["status"] == "proven" and "exact" in outcome["replies"]
            ),
            "membership": lambda outcome: outcome["target"] is not None,
        }
        return {
            attack: len(
                {_unit_of(key) for key, outcome in self.of(attack, "member") if rule(outcome)}
            )
            for attack, rule in rules.items()
            if attack in self.outcomes
        }


def _unit_of(key: tuple[str, ...]) -> tuple[str, ...]:
    """What a trial is about: a document, with a field or a question, or a value without one."""
    has_no_question = key[1:2] == ("",)
    if has_no_question:
        return key[:3]
    return key[:2]


def _spelling(document: dict[str, Any]) -> str:
    return " ".join(word["text"] for word in document["words"]).casefold()


@pytest.fixture(scope="module", params=SCANS, ids=lambda path: path.name)
def scan(request: pytest.FixtureRequest) -> Scan:
    return Scan(request.param)


UNITS = {"reconstruction": "fields", "attribute_inference": "values", "memorisation": "questions"}
UNITS["membership"] = "documents"


def test_the_regulator_table_says_what_was_really_asked(scan: Scan) -> None:
    held = scan.held()
    attacked = scan.attacked()
    assert attacked
    for attack, count in attacked.items():
        unit = UNITS[attack]
        asked = f"tested: {count:,} of {held[unit]:,} {unit} of training"
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
    assert any(counted[suffix] in scan.page_one for suffix in deciding)
    assert any(f"at least {counted[suffix]} values" in scan.findings for suffix in methods[:2])


def test_kinds_and_documents_that_gave_values_back_are_those_of_the_journal(scan: Scan) -> None:
    shown = _sum_of_kinds(scan)
    if shown is None:
        return
    recounts = [_restored(scan, ""), _restored(scan, "lowest_loss")]
    if _counts_nearly_right(scan, shown[0], recounts):
        return
    assert shown in [recount.totals for recount in recounts]
    recount = next(recount for recount in recounts if recount.totals == shown)
    listed = listed_kinds(scan)
    assert listed
    others = listed.pop("Other kinds", (0, 0))
    for label, counts in listed.items():
        kind = KINDS[label]
        assert counts == (recount.hits[kind], recount.tried[kind]), label
    assert sum(hits for hits, _ in listed.values()) + others[0] == shown[0]


def _sum_of_kinds(scan: Scan) -> tuple[int, ...] | None:
    """Values, documents that gave one back, and documents tried, as page one adds the kinds up."""
    told = re.search(
        r"([\d,]+) values in all, of ([\d,]+) training documents\. ([\d,]+) were", scan.page_one
    )
    if "reconstruction" not in scan.outcomes or told is None:
        return None
    return tuple(int(number.replace(",", "")) for number in told.groups())


def listed_kinds(scan: Scan) -> dict[str, tuple[int, int]]:
    """The kinds of values on page one, with the number that came back and that was tried."""
    section = scan.page_one.partition("Values that came back")[2]
    rows = re.findall(r"([A-Z][a-z ]+) ([\d,]+) of ([\d,]+)(?= [\d.]+ %)", section)
    return {label: (int(hits), int(tried)) for label, hits, tried in rows}


def _counts_nearly_right(scan: Scan, n_values: int, recounts: list["Recount"]) -> bool:
    """Whether these values are those that are nearly right, which the record alone counts."""
    measured = {row["name"]: row for row in _measurements(scan, "reconstruction")}
    near = measured["pr.member.attack.unique.near"]
    word_for_word = {recount.totals[0] for recount in recounts}
    return n_values not in word_for_word and n_values == round(near["value"] * near["n"])


class Recount(NamedTuple):
    """Values of one document alone that a way of choosing restored, and those that it tried."""

    hits: Counter[str]
    tried: Counter[str]
    documents: set[str]
    tried_documents: set[str]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Values restored, documents that gave one back, documents that were tried."""
        return self.hits.total(), len(self.documents), len(self.tried_documents)


def _restored(scan: Scan, method: str) -> Recount:
    """Count from the journal what a way of choosing restored on documents of training."""
    texts = []
    for document in scan.documents.values():
        words = [word["text"] for word in document["words"]]
        texts.append(fold(" ".join(words)))
    recount = Recount(Counter(), Counter(), set(), set())
    for (name, entity_id, *_), outcome in scan.of("reconstruction", "member"):
        document = scan.documents[name]
        entity = next(row for row in document["entities"] if row["id"] == entity_id)
        value = _value(document, entity)
        if sum(value in text for text in texts) != 1:
            continue
        chosen = outcome["methods"][method] if method else outcome
        recount.tried[entity["category"]] += 1
        recount.tried_documents.add(name)
        if chosen["attack"][0]["tokens"] == outcome["truth"]:
            recount.hits[entity["category"]] += 1
            recount.documents.add(name)
    return recount


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
    assert f"{sum(own)} of {len(own)}" in scan.page_one
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

    pairs = re.search(r"([\d.]+) % of pairs", scan.page_one)
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
