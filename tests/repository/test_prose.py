"""The rules of prose that the gate checks: what is read of each kind of file, and the allowances that only go down."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from scripts import load

prose = load(Path(__file__).parents[2] / ".ci" / "prose.py")
CASES = tomllib.loads(Path(__file__).with_name("prose_cases.toml").read_text(encoding="utf-8"))[
    "cases"
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_finding_names_the_rule_and_the_line_of_its_sentence(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / case["name"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(case["text"], encoding="utf-8")
    found = prose.check(path, prose.read_rules())
    assert [f"{one.line} {one.rule.partition(',')[0]}" for one in found] == case["expected"]


def test_an_allowance_is_lowered_and_never_raised() -> None:
    table = 'longest = 20\n[allowed]\n"a.md" = 3\n"b.md" = 3\n"c.md" = 1\n'
    assert (
        prose.lower(table, {"a.md": 2, "c.md": 4})
        == 'longest = 20\n[allowed]\n"a.md" = 2\n"c.md" = 1\n'
    )
