"""The page on documents left out by an early list says what its numbers say."""

import json
from pathlib import Path
from typing import Any

from benchmarks.calibration.early_list_page import COUNTED, page

FOLDER = Path(__file__).parents[2] / "benchmarks" / "calibration"


def measured() -> dict[str, Any]:
    numbers = json.loads((FOLDER / "early_list.json").read_text(encoding="utf-8"))
    assert isinstance(numbers, dict)
    return numbers


def test_the_page_is_that_of_the_numbers() -> None:
    numbers = measured()
    written = (FOLDER / "early_list.md").read_text(encoding="utf-8")
    text = page(numbers["runs"], "RULE", "a machine", numbers["minutes"])
    _, results = text.split("RULE\n\n", 1)
    assert written.endswith(results)
    assert f"{numbers['minutes']:.1f} minutes of processor time" in written


def test_the_sum_counts_what_each_run_shows() -> None:
    runs = measured()["runs"]
    before = page(runs, "", "", 0)
    listed = [run["arms"]["listed"] for run in runs if run["sample"] in COUNTED]
    after = sum(arm["exposed of the rest after"] for arm in listed)
    assert f"before and {after} after" in " ".join(before.split())
    listed[0]["exposed of the rest after"] += 100
    assert f"before and {after + 100} after" in " ".join(page(runs, "", "", 0).split())


def test_a_run_without_a_list_says_why() -> None:
    runs = measured()["runs"]
    runs[0] |= {"right": None, "listed": 0, "doubt": "unseen"}
    runs[0]["sample"] = "other letters"
    assert "| other letters | 1 | unseen |" in page(runs, "", "", 0)
