"""New users: three commands to a verdict, which is right for a memoriser and for its twin."""

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.extensions import remote
from benchmarks.tools import strangers
from benchmarks.tools.strangers import CASES, Walk, walk

SROIE = (
    Path(os.environ.get("DOCAUDIT_REAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "sroie"
)
COMMANDS = 3
"""At most so many lead from a saved model to a verdict."""


def docaudit(*arguments: str, codes: tuple[int, ...] = (0,)) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert done.exit_code in codes, done.output
    return done.exit_code, done.output


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands in this process, which has imported what they need."""
    monkeypatch.setattr(strangers, "docaudit", docaudit)
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))


def walked(name: str, work: Path, sroie: Path | None = None) -> tuple[Walk, Walk]:
    for library in ("datasets", *(["peft"] if "LoRA" in CASES[name].name else [])):
        pytest.importorskip(library)
    needs_ocr = any("ocr" in command.split() for command in CASES[name].commands)
    if (needs_ocr or name == "tiffs") and shutil.which("tesseract") is None:
        pytest.skip("Tesseract is not installed")
    memoriser, twin = walk(CASES[name], work, sroie)
    return memoriser, twin


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.alone])
def test_a_memoriser_is_violated_and_its_twin_is_not(name: str, tmp_path: Path) -> None:
    assert len(CASES[name].commands) <= COMMANDS
    memoriser, twin = walked(name, tmp_path)
    assert memoriser.code in CASES[name].verdicts, memoriser.said
    assert twin.code in (0, 11), twin.said
    records = [json.loads((one.report / "record.json").read_text()) for one in (memoriser, twin)]
    assert {one["corpus"]["assigned"] for one in records} == {"official"}, (
        "nobody says how they were chosen"
    )
    if CASES[name].train is None:
        return  # Behind a server nothing is measured that the blind check could doubt.
    doubted = [any(attack.get("confounded") for attack in one["attacks"]) for one in records]
    assert all(doubted), "the blind check has no power over so few documents"


@pytest.mark.real
@pytest.mark.skipif(not SROIE.is_dir(), reason="SROIE's receipts are not there")
def test_a_memoriser_of_real_receipts_is_violated_and_its_twin_is_not(tmp_path: Path) -> None:
    memoriser, twin = walked("lilt", tmp_path, SROIE)
    assert memoriser.code == 10, memoriser.said
    assert twin.code in (0, 11), twin.said


def test_without_unseen_documents_a_scan_says_first_that_they_are_missing(tmp_path: Path) -> None:
    for one in walked("alone", tmp_path):
        assert one.code == 11, one.said
        assert " limits: add unseen documents from the same source" in one.said, one.said
