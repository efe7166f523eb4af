"""`docaudit report --dpia`: risk, measures and residual risk as Markdown that holds nothing but text."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import example_private
import example_records as examples
import pytest
from typer.testing import CliRunner

from audit import policy as policies
from audit import record as records
from audit.cards import AuditSheet, DeclaredPolicy
from audit.cli import app
from audit.policy.limits import Origin
from audit.report.dpia import dpia, escaped, policy_identity

pytestmark = pytest.mark.usefixtures("undrawn")
CHAPTERS = ("What was audited", "Risk", "Measures", "Residual risk", "What was examined, and what was not", "Clauses")


@pytest.mark.parametrize("make", [*examples.CASES.values(), example_private.private])
def test_it_has_its_chapters_and_whole_tables(make: object) -> None:
    text = dpia(*make())  # type: ignore[operator]
    titles = [line[3:].partition(" (")[0] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [*CHAPTERS]
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) <= 1, block


def test_counts_intervals_decisions_and_waivers_stand_in_it() -> None:
    text = dpia(*examples.waived())
    assert "Recovered word for word" in text
    assert "(54 to 69 %)" in text
    assert "| A. Officer | head of data | 2026-12-31 | “the weights stay here” | “one locked machine” |" in text
    assert "150 trained on, 150 not trained on" in text
    assert "as the owner declares" in text.lower()


def test_the_audit_sheet_is_filled_in_and_what_is_not_stated_says_so() -> None:
    record, verdict, policy = examples.passed()
    sheet = AuditSheet(system="invoice | desk", controller="Example GmbH", data_categories=("names", "amounts"))
    text = dpia(dataclasses.replace(record, audit=sheet), verdict, policy)
    assert "| System | invoice \\| desk |" in text
    assert "| Categories of personal data | names, amounts |" in text
    assert "| Decides | not stated |" in text


def test_no_name_adds_markup() -> None:
    record, verdict, policy = examples.violated()
    name = "# a\n\n## b <img src=x> [c](http://d) *e* `f` | g \u202e h\x1b[31m"
    card = dataclasses.replace(record.target, name=name)
    text = dpia(dataclasses.replace(record, target=card), verdict, policy)
    assert "<img" not in text
    assert "\n## b" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\[c\\](http://d) \\*e\\*" in text


def test_escaping_keeps_plain_text_as_it_is() -> None:
    assert escaped("62 %, 55 to 69 %; n = 150 (Wilson)") == "62 %, 55 to 69 %; n = 150 (Wilson)"


def test_it_says_which_policy_was_declared_before_the_scan() -> None:
    record, policy = examples.record(), policies.load("default")
    assert policy.origin is not None
    own = policy.origin.sha256
    declared = DeclaredPolicy("default", own, shipped=True, toml=policy.origin.toml)
    other = dataclasses.replace(declared, name="mine", sha256="ab" * 32)
    before = policy_identity(dataclasses.replace(record, policy=declared), policy)
    assert before == f"SHA-256 {own} (as docaudit ships it). It was declared before the first trial."
    assert "another one: mine, SHA-256 abab" in policy_identity(dataclasses.replace(record, policy=other), policy)
    assert "not recorded" in policy_identity(record, policy)
    changed = dataclasses.replace(policy, origin=Origin("schema = 1", shipped=False))
    assert "the owner’s own" in policy_identity(record, changed)


def test_the_command_writes_it_beside_the_reports(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    done = CliRunner().invoke(app, ["report", "--dpia", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/dpia.md").read_text().startswith("# Privacy audit of receipts-leaky")
    assert "dpia.md" in done.output


def test_it_is_of_one_model(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    done = CliRunner().invoke(app, ["report", "--dpia", str(tmp_path), str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "one record" in done.output
