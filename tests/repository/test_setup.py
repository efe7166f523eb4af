"""The script that sets up a fresh machine says what is ready and what comes next."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "setup"
TOOLS = {
    "chromium": "exit 0",
    "ldconfig": "echo libpangoft2-1.0.so.0",
    "python3": "exit 0",
    "tesseract": "exit 0",
}
"""What the script looks for on a machine, each with a stand-in."""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script for bash")


def write_program(path: Path, line: str) -> None:
    """Write a program for bash that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def set_up(root: Path, *words: str, pip: str = "exit 0") -> subprocess.CompletedProcess[str]:
    """Run the script in a folder where all is installed, with a stand-in for pip."""
    for name, line in TOOLS.items():
        write_program(root / "tools" / name, line)
    write_program(root / ".venv" / "bin" / "pip", pip)
    shutil.copy(SETUP, root / "setup")
    environment = os.environ | {"PATH": f"{root / 'tools'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [root / "setup", *words], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize(("words", "command"), [((), "docaudit demo"), (("dev",), "pytest")])
def test_the_last_line_names_the_next_command(
    words: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    process = set_up(tmp_path, *words)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [
        f"docaudit is ready in .venv. Next: . .venv/bin/activate && {command}"
    ]


def test_a_failed_installation_is_not_called_ready(tmp_path: Path) -> None:
    process = set_up(tmp_path, pip="exit 1")
    assert process.returncode == 1
    assert "ready" not in process.stdout
