"""The report on models of SROIE counts E, G and M as older records did, and reads today's."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.papers.vqa_sroie_findings import Audited
from benchmarks.papers.vqa_sroie_report import sets, sizes_of_sets

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
NAMES = ("donut-128x64", "donut-256x128", "vt5-128x64", "vt5-256x128")


@pytest.mark.parametrize("name", NAMES)
def test_the_sizes_of_sets_are_those_that_older_records_count(name):
    folder = PAPERS / "vqa_sroie"
    record = json.loads((folder / f"{name}.json").read_text())
    counts = {count["name"]: count["value"] for count in record["attacks"][0]["counts"]}
    expected = [str(counts[f"member {kind}"]) for kind in ("E", "G", "M", "G - E")]
    answers = json.loads((folder / f"{name}.answers.json").read_text())
    # The record itself is of an older form.
    audited = Audited(name, cast("Any", None), {}, answers)
    assert sizes_of_sets(audited.extraction("exact")) == expected


def test_a_record_of_today_has_a_row():
    folder = PAPERS / "resolution_questions" / "towns-and-numbers"
    row = sets([Audited.read(folder, "donut-64x96")])[-1]
    assert row.startswith("| donut-64x96 | 160 (80) |")
    assert "| - | - |" in row
