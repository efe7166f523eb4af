"""The text of an installed attack that cannot be read is told in a line, and by no traceback."""

import os
from pathlib import Path

import pytest
from commands import run_python


def install(folder: Path, text: str) -> None:
    """Install a package whose attack has this text."""
    info = folder / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[docaudit.attacks]\nodd = odd_attack:Odd\n")
    (folder / "odd_attack.py").write_text("class Odd: pass\n")
    (folder / "odd_attack.toml").write_text(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('name = "odd"\nquestoin = "?"\n', "questoin", id="a misspelt name"),
        pytest.param("name = odd\n", "Invalid value", id="no TOML"),
    ],
)
def test_a_misspelt_text_names_its_package_and_what_is_wrong(tmp_path, text, problem):
    install(tmp_path, text)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "1000"}
    run = run_python("-m", "audit", "gate", "record.json", cwd=tmp_path, env=environment)
    assert run.returncode == 1
    first, hint = run.stderr.splitlines()
    assert first.startswith("error: strange: the text of its attack 'odd'")
    assert problem in first
    assert hint == "hint: update or uninstall strange"
