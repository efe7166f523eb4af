"""CHANGELOG.md has the form of Keep a Changelog: what breaks users first, one fact a line."""

import datetime as dt
import re
from pathlib import Path

import pytest

import audit

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ["Removed", "Changed", "Deprecated", "Added", "Fixed", "Security"]
"""Kinds of changes in the order of this file: what breaks users comes first."""
LONGEST_LINE = 120
"""Columns of a fact; the address of a link does not count."""
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
FACTS = re.findall(r"^- .+$", TEXT, re.MULTILINE)


def test_versions_follow_each_other_from_the_unreleased_one_down() -> None:
    assert HEADINGS[0] == "[Unreleased]"
    versions = []
    days = []
    for heading in HEADINGS[1:]:
        match = re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})", heading)
        assert match is not None, heading
        versions.append(tuple(int(number) for number in match.groups()[:3]))
        days.append(dt.date.fromisoformat(match[4]))
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)
    assert audit.__version__ == ".".join(str(number) for number in versions[0])


@pytest.mark.parametrize("version", HEADINGS)
def test_a_version_sorts_its_facts_by_kind(version: str) -> None:
    part = TEXT.partition(f"## {version}\n")[2].split("\n## ")[0]
    kinds = re.findall(r"^### (.+)$", part, re.MULTILINE)
    assert kinds
    assert kinds == [kind for kind in KINDS if kind in kinds]
    for facts in re.split(r"^### .+$", part, flags=re.MULTILINE)[1:]:
        lines = facts.strip().splitlines()
        assert lines
        assert all(line.startswith("- ") for line in lines)


def test_a_line_holds_one_fact() -> None:
    assert len(FACTS) == len(set(FACTS)) > 200
    for fact in FACTS:
        visible = re.sub(r"\]\([^)]+\)", "]", fact)
        assert len(visible) <= LONGEST_LINE, fact
        sentences = re.split(r"[.?] (?=\S)", re.sub(r"`[^`]+`", "code", fact))
        assert len(sentences) <= 2, fact
        assert fact.endswith((".", "?")), fact
