"""`docaudit report --dpia` and `--model-card`: Markdown that holds nothing but text."""

import dataclasses
import re
from pathlib import Path

import example_private
import example_records as examples
import pytest
from commands import docaudit
from shown_pages import check_text

from audit import cards
from audit import policy as policies
from audit import record as records
from audit.cards import AuditSheet, DeclaredPolicy
from audit.errors import UsageError
from audit.report.markdown import dpia, model_card
from audit.report.templates import escaped

pytestmark = pytest.mark.usefixtures("undrawn")
CHAPTERS = ("Scope", "Risk", "Measures", "Residual risk", "Coverage", "Clauses")


@pytest.mark.parametrize("make", [*examples.CASES.values(), example_private.private])
def test_it_has_its_chapters_and_whole_tables(make: object) -> None:
    text = dpia(*make())  # type: ignore[operator]
    titles = [line[3:].partition(" (")[0] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [*CHAPTERS]
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) <= 1, block


def sheet() -> examples.Case:
    """A pass, of a system that its owner describes."""
    stated = AuditSheet(
        system="invoice | desk", controller="Example GmbH", data_categories=("names", "amounts")
    )
    return examples.judged(dataclasses.replace(examples.passed()[0], audit=stated))


TEXTS = {
    "violated": examples.violated,
    "waived": examples.waived,
    "skipped": examples.skipped,
    "sheet": sheet,
}


@pytest.mark.parametrize("name", TEXTS)
def test_both_say_what_they_said(name: str) -> None:
    record, verdict, policy = TEXTS[name]()
    check_text(f"dpia-{name}", dpia(record, verdict, policy))
    check_text(f"card-{name}", model_card(record, verdict))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("default", ", declared before the scan"),
        ("mine", "declared before the scan: mine"),
        ("", "declares no policy"),
    ],
)
def test_it_says_which_policy_was_declared_before_the_scan(name: str, said: str) -> None:
    record = examples.record()
    policy = policies.load("default")
    assert policy.origin is not None
    own = policy.origin.sha256
    declared = DeclaredPolicy(
        name, own if name == "default" else "ab" * 32, shipped=True, toml=policy.origin.toml
    )
    case = examples.judged(dataclasses.replace(record, policy=declared if name else None), policy)
    assert own[:12] in dpia(*case)
    assert said in dpia(*case)
    assert f"default, SHA-256 {own}" in model_card(*case[:2])


def test_no_name_adds_markup() -> None:
    record, verdict, policy = examples.violated()
    name = "# a\n\n## b <img src=x> [c](http://d) *e* `f` | g \u202e h\x1b[31m"
    card = dataclasses.replace(record.target, name=name)
    text = dpia(dataclasses.replace(record, target=card), verdict, policy)
    assert "<img" not in text
    assert "\n## b" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\[c\\]\\(http://d) \\*e\\*" in text
    card = model_card(
        dataclasses.replace(record, corpus=dataclasses.replace(record.corpus, name=name)), verdict
    )
    assert not {"\u202e", "\x1b"} & {*card}
    assert "<img" not in card
    assert "\n## b" not in card


def test_escaping_keeps_plain_text_as_it_is() -> None:
    assert escaped("62 %, 55 to 69 %; n = 150 (Wilson)") == "62 %, 55 to 69 %; n = 150 (Wilson)"


def test_the_command_writes_it_beside_the_reports(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    done = docaudit("report", "--dpia", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/dpia.md").read_text().startswith("# Privacy audit of receipts-leaky")
    assert "dpia.md" in done.output


def test_it_is_of_one_model(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    done = docaudit("report", "--dpia", tmp_path, tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "one record" in done.output


CASES = {**examples.CASES, "private": example_private.private}


@pytest.mark.parametrize("name", CASES)
def test_the_section_says_all_limits_the_policy_and_what_is_not_known(name: str) -> None:
    record, verdict, _ = CASES[name]()
    section = model_card(record, verdict)
    assert section.startswith("## Privacy audit")
    assert f"**{verdict.stamp}**" in section
    assert "evidence for" in section
    assert "### Not tested" in section
    assert not re.search(r"\b(safe|secure|private model|no leak)\b", section, re.I)
    table = next(block for block in section.split("\n\n") if block.startswith("| Attack"))
    left_out = [one for one in verdict.decisions if one.outcome in ("inapplicable", "not run")]
    assert (
        len(verdict.decisions) - len(left_out)
        <= len(table.splitlines()) - 2
        <= len(verdict.decisions)
    )
    assert ("leaves out limits" in section) == (
        len(table.splitlines()) - 2 < len(verdict.decisions)
    )
    assert all(line.replace("\\|", "").count("|") == 7 for line in table.splitlines())
    assert f"| Policy | {verdict.policy}, " in section


def test_it_is_printed_alone_or_written(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    printed = docaudit("report", tmp_path, "--model-card")
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.startswith("## Privacy audit\n")
    assert {path.name for path in tmp_path.iterdir()} == {"record.json"}
    written = docaudit("report", tmp_path, "--model-card", "--out", tmp_path / "card")
    assert written.exit_code == 0, written.output
    assert (tmp_path / "card" / "model-card.md").read_text(encoding="utf-8") == printed.stdout


def test_what_makes_no_card_is_refused(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    assert docaudit("report", tmp_path, "--model-card", "--dpia").exit_code == 2
    assert docaudit("report", tmp_path, tmp_path, "--model-card").exit_code == 2


def test_a_text_alone_has_no_model_card() -> None:
    record, verdict, _ = examples.violated()
    alone = dataclasses.replace(
        record, target=dataclasses.replace(record.target, family=cards.NO_MODEL)
    )
    with pytest.raises(UsageError, match="no model was audited"):
        model_card(alone, verdict)
