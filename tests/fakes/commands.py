"""The command line, called within a test's own process or in another one."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from case_tables import read_tables
from click.testing import Result
from typer.testing import CliRunner

from audit.cli import app


def docaudit(*arguments: object, **how: Any) -> Result:
    """Run `docaudit`; what is no known error is raised."""
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False, **how
    )


def run_python(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, and keep what it prints."""
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **how
    )


def run_commands(
    commands: Mapping[str, Sequence[object]], before: str = "", **how: Any
) -> dict[str, tuple[int, str]]:
    """Run commands one after another in one other process, without drawings.

    Return exit codes and outputs by name.
    """
    program = read_tables(Path(__file__).with_suffix(".toml"))["program"].format(before=before)
    given = json.dumps(
        {name: [str(part) for part in command] for name, command in commands.items()}
    )
    done = run_python("-c", program, input=given, **how)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: (code, " ".join(output.split())) for name, (code, output) in found.items()}
