"""The model comes before the data set, and both are looked at before anything is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from commands import docaudit


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model and a data set."""
    root = tmp_path_factory.mktemp("places")
    tiny.corpus(root / "data", members=8, heldout=8, public=0)
    tiny.checkpoint(root / "model", "layoutlm", "token-classification")
    return root / "model", root / "data"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("inspect MODEL DATA", "inspect DATA --model MODEL"),
        ("references MODEL DATA", "references DATA MODEL"),
    ],
)
def test_the_old_form_does_the_same_and_says_so_once(
    new: str, old: str, places: tuple[Path, Path]
) -> None:
    model, data = places

    def call(form: str):
        words = form.replace("MODEL", str(model)).replace("DATA", str(data)).split()
        return docaudit(*words)

    today = call(new)
    before = call(old)
    assert before.exit_code == today.exit_code == 0, before.output
    assert before.stdout == today.stdout
    form = new.replace("MODEL", "MODEL_DIR").replace("DATA", "DATA_DIR")
    assert before.stderr.count(f"write docaudit {form}") == 1
    assert "write docaudit" not in today.stderr


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_data_set_alone_needs_no_model(command: str, places: tuple[Path, Path]) -> None:
    result = docaudit(command, places[1])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_third_folder_is_refused_with_the_form(command: str, places: tuple[Path, Path]) -> None:
    model, data = places
    result = docaudit(command, model, data, data)
    assert result.exit_code == 2
    assert f"docaudit {command} [MODEL_DIR] DATA_DIR" in result.output


PROGRAM = """
import sys
from audit.cli import main
try:
    main()
finally:
    print(sorted({"torch", "transformers"} & sys.modules.keys()))
"""
CALLS = (
    "scan MODEL DATA",
    "forget-check MODEL DATA --ids IDS",
    "defend scrub MODEL DATA",
    "references MODEL DATA",
    "references MODEL DATA --train",
    "inspect MODEL DATA",
    "plan MODEL DATA",
)


@pytest.mark.parametrize("wrong", ["MODEL", "DATA"])
@pytest.mark.parametrize("call", CALLS)
def test_a_missing_folder_is_named_before_anything_is_loaded(
    call: str, wrong: str, places: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = places
    ids = tmp_path / "ids.txt"
    ids.write_text("m0\n")
    folders = {"MODEL": str(model), "DATA": str(data), "IDS": str(ids)}
    folders[wrong] = "mistyped"
    words = [folders.get(word, word) for word in call.split()]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert process.returncode == 2, process.stderr
    assert "error: mistyped: no such folder" in process.stderr
    assert process.stdout.strip() == "[]"
