"""The command line, called within a test's own process or in another one."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from audit.cli import app

SEVERAL_COMMANDS = """
import json, sys
{before}
from typer.testing import CliRunner
import audit.report.svg
import audit.report.files
from audit.cli import app

audit.report.files.pdf = lambda *_: b"%PDF-1.7"
audit.report.svg.as_svg = lambda *_: "<svg></svg>"
found = {{}}
for name, command in json.load(sys.stdin).items():
    result = CliRunner().invoke(app, command, catch_exceptions=False, terminal_width=1000)
    found[name] = [result.exit_code, result.output]
print(json.dumps(found))
"""
"""The program that runs several commands in one process; `before` is what it does first."""


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
    program = SEVERAL_COMMANDS.format(before=before)
    given = json.dumps(
        {name: [str(part) for part in command] for name, command in commands.items()}
    )
    done = run_python("-c", program, input=given, **how)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: (code, " ".join(output.split())) for name, (code, output) in found.items()}
