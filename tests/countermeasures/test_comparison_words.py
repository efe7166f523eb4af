"""`comparison.json` holds today's words, and files with those of before are read."""

import json
from pathlib import Path

import example_records as examples

from audit.compare import defended
from audit.compare.defended import LimitChange, LimitUse, MeasuredDefense


def measured() -> MeasuredDefense:
    """Return a comparison with a limit that was exceeded and is met."""
    change = LimitChange("membership", "auc", LimitUse("violated"), LimitUse("passed"))
    return examples.comparison(
        "scrub", verdict_before="violated", verdict_after="passed", limits=(change,)
    )


def test_a_comparison_is_written_in_todays_words_and_read_back(tmp_path: Path) -> None:
    defended.write(measured(), tmp_path)
    content = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert (content["schema_version"], content["verdict_before"]) == (3, "exceeded")
    assert content["limits"][0]["after"]["outcome"] == "met"
    assert defended.read(tmp_path) == measured()


def test_a_comparison_of_schema_2_is_read(tmp_path: Path) -> None:
    defended.write(measured(), tmp_path)
    path = tmp_path / "comparison.json"
    text = path.read_text(encoding="utf-8")
    for word, outcome in (("exceeded", "violated"), ("met", "passed")):
        text = text.replace(f'"{word}"', f'"{outcome}"')
    path.write_text(text.replace('"schema_version": 3', '"schema_version": 2'), encoding="utf-8")
    assert defended.read(tmp_path) == measured()
