"""`docaudit report --model-card`: what the Hub reads, and the same in words, from the one record and verdict."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import example_private
import example_records as examples
import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData, metadata_load
from typer.testing import CliRunner

from audit import cards
from audit import policy as policies
from audit import record as records
from audit.cards import AuditSheet
from audit.cli import app
from audit.errors import UsageError
from audit.report.model_card import TASKS, Source, model_card

CASES = {**examples.CASES, "private": example_private.private}


def of(name: str) -> tuple[Any, Any, str]:
    record, verdict, _ = CASES[name]()
    return record, verdict, model_card(record, verdict)


@pytest.mark.parametrize("name", CASES)
def test_the_hub_reads_as_many_results_as_limits_have_numbers(name: str, tmp_path: Path) -> None:
    record, verdict, text = of(name)
    measured = [one for one in verdict.decisions if one.measured is not None]
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    if not measured:
        assert metadata_load(path) is None
        assert text.startswith("## Privacy audit")
        return
    data = ModelCard.load(path).data
    assert data.model_name == record.target.name
    assert [one.metric_type for one in data.eval_results] == [
        f"docaudit/{one.limit.attack}_{one.limit.metric}" for one in measured
    ]
    for result, decision in zip(data.eval_results, measured, strict=True):
        assert result.metric_value == pytest.approx(decision.measured.value, abs=1e-4)
        assert result.metric_args["low"] <= result.metric_value <= result.metric_args["high"]
        assert result.metric_args["outcome"] == decision.outcome
        assert "95 % interval" in result.metric_name
        assert result.verified is None
        assert result.task_type == TASKS[record.target.task]


def test_writing_what_the_hub_read_again_changes_nothing(tmp_path: Path) -> None:
    _, _, text = of("violated")
    front = yaml.safe_load(text.split("---\n")[1])
    assert ModelCardData(**front).to_dict() == front
    assert [*front] == ["model-index"]


@pytest.mark.parametrize("name", CASES)
def test_the_section_says_all_limits_the_policy_and_what_is_not_known(name: str) -> None:
    _, verdict, text = of(name)
    section = text[text.index("## Privacy audit") :]
    assert f"**{verdict.stamp}**" in section
    assert "evidence for" in section
    assert "### What was not examined" in section
    assert not re.search(r"\b(safe|secure|private model|no leak)\b", section, re.I)
    table = next(block for block in section.split("\n\n") if block.startswith("| Attack"))
    left_out = [one for one in verdict.decisions if one.outcome in ("inapplicable", "not run")]
    assert len(verdict.decisions) - len(left_out) <= len(table.splitlines()) - 2 <= len(verdict.decisions)
    assert ("left out of the table" in section) == (len(table.splitlines()) - 2 < len(verdict.decisions))
    assert all(line.replace("\\|", "").count("|") == 7 for line in table.splitlines())
    assert f"| Policy | {verdict.policy}, " in section


def test_numbers_stand_with_their_interval() -> None:
    _, _, text = of("violated")
    assert re.search(r"\| 60 points \(\d+ to \d+ points\) \| \d+ fields \| at most 5 points \| Violated", text)


def test_the_hash_of_the_policy_is_named() -> None:
    record, *_ = examples.violated()
    default = policies.load("default")
    assert default.origin is not None
    text = model_card(record, policies.evaluate(record, default, examples.TODAY))
    assert f"default, SHA-256 {default.origin.sha256}" in text
    assert "declares no policy" in text


def test_no_name_adds_markup_or_keys(tmp_path: Path) -> None:
    record, verdict, _ = examples.violated()
    name = "a: b\n---\n# x\nlicense: mit <img src=x> [c](http://d) | g \u202e h\x1b[31m"
    corpus = dataclasses.replace(record.corpus, name=name)
    text = model_card(dataclasses.replace(record, corpus=corpus, audit=AuditSheet(model_name=name)), verdict)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert [*metadata_load(tmp_path / "README.md")] == ["model-index"]
    section = text[text.index("## Privacy audit") :]
    assert not {"\u202e", "\x1b"} & {*text}
    assert "<img" not in section
    assert "\n# x" not in text


def test_a_source_is_an_address() -> None:
    record, verdict, _ = examples.violated()
    text = model_card(record, verdict, Source("https://example.org/audit"))
    (index,) = yaml.safe_load(text.split("---\n")[1])["model-index"]
    assert index["results"][0]["source"] == {"url": "https://example.org/audit", "name": "docaudit 0.1.0"}
    with pytest.raises(UsageError, match="no address"):
        Source("javascript:alert(1)")


def test_every_task_has_its_name_on_the_hub() -> None:
    from typing import get_args

    from audit.corpus.documents import TaskKind

    assert TASKS.keys() == {*get_args(TaskKind)}


def test_it_is_printed_alone_or_written(tmp_path: Path) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    printed = CliRunner().invoke(app, ["report", str(tmp_path), "--model-card"])
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.startswith("---\nmodel-index:\n")
    assert {path.name for path in tmp_path.iterdir()} == {"record.json"}
    written = CliRunner().invoke(app, ["report", str(tmp_path), "--model-card", "--out", str(tmp_path / "card")])
    assert written.exit_code == 0, written.output
    assert (tmp_path / "card" / "model-card.md").read_text(encoding="utf-8") == printed.stdout


@pytest.mark.parametrize(
    "options", [["--source", "https://a.b"], ["--model-card", "--dpia"], ["--model-card", "--source", "ftp:x"]]
)
def test_what_makes_no_card_is_refused(tmp_path: Path, options: list[str]) -> None:
    record, *_ = examples.violated()
    records.write(record, tmp_path / "record.json")
    assert CliRunner().invoke(app, ["report", str(tmp_path), *options]).exit_code == 2
    assert CliRunner().invoke(app, ["report", str(tmp_path), str(tmp_path), "--model-card"]).exit_code == 2


def test_a_text_alone_has_no_model_card() -> None:
    record, verdict, _ = examples.violated()
    alone = dataclasses.replace(record, target=dataclasses.replace(record.target, family=cards.NO_MODEL))
    with pytest.raises(UsageError, match="no model was audited"):
        model_card(alone, verdict)
