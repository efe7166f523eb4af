"""A runner of composite GitHub actions: their steps one by one in bash, with the files that a runner gives each step.

Of the expressions it knows what action.yml uses: inputs, outputs of steps, always(), comparisons
joined by &&.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
_COMPARISON = re.compile(r"(\S+) (==|!=) '([^']*)'")


@cache
def read_yaml(path: Path) -> Mapping[str, Any]:
    """Read a file once for all tests, which change nothing of it."""
    read: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return read


@dataclass
class Run:
    """What came of an action.

    Attributes:
        code: the exit code of the first step that failed; 0: none did.
        outputs: of the action.
        summary: what the steps wrote into it.
        used: the inputs of each action that was used, by its name without the version.
        log: what the steps printed.
    """

    code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    summary: bytes = b""
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""


class Runner:
    """Runs an action in a workspace.

    Args:
        action: the file of the action.
        workspace: where its steps run.
        temporary: the runner's own folder.
        path: a folder that comes first on the PATH.
    """

    def __init__(self, action: Path, workspace: Path, temporary: Path, path: Path) -> None:
        self.action = read_yaml(action)
        self.workspace = workspace
        self.temporary = temporary
        self.environment = {
            **os.environ,
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(action.parent),
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(temporary),
        }

    def run(self, inputs: Mapping[str, str]) -> Run:
        """Run all steps whose conditions hold."""
        unknown = set(inputs) - set(self.action["inputs"])
        assert not unknown, unknown
        known = {
            f"inputs.{name}": str(given["default"]) for name, given in self.action["inputs"].items()
        }
        known |= {f"inputs.{name}": value for name, value in inputs.items()}
        result = Run()
        for number, step in enumerate(self.action["runs"]["steps"]):
            if not _holds(step.get("if", "success()"), known, failed=result.code != 0):
                continue
            if "uses" in step:
                given = {name: _filled(str(value), known) for name, value in step["with"].items()}
                result.used[step["uses"].partition("@")[0]] = given
                continue
            result.code = result.code or self._script(step, number, known, result)
        result.outputs = {
            name: _filled(output["value"], known) for name, output in self.action["outputs"].items()
        }
        return result

    def _script(
        self, step: Mapping[str, Any], number: int, known: dict[str, str], result: Run
    ) -> int:
        script, output, summary = (
            self.temporary / f"{number}.{kind}" for kind in ("sh", "output", "summary")
        )
        assert step["shell"] == "bash"
        script.write_text(step["run"], encoding="utf-8")
        files = {"GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary}
        for name in ("GITHUB_ENV", "GITHUB_PATH"):
            files[name] = self.temporary / f"{number}.{name}"
        for file in files.values():
            file.write_bytes(b"")
        environment = self.environment | {name: str(file) for name, file in files.items()}
        environment |= {name: _filled(value, known) for name, value in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(
            command,
            cwd=self.workspace,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for name in ("GITHUB_ENV", "GITHUB_PATH"):
            assert not files[name].read_bytes()
        for line in output.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step['id']}.outputs.{name}"] = value
        result.summary += summary.read_bytes()
        result.log += done.stdout + done.stderr
        return done.returncode


def _filled(text: str, known: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: known.get(match.group(1), ""), text)


def _holds(condition: str, known: Mapping[str, str], *, failed: bool) -> bool:
    parts = condition.split(" && ")
    if failed and "always()" not in parts:
        return False
    return all(_part_holds(part, known) for part in parts if part not in ("always()", "success()"))


def _part_holds(part: str, known: Mapping[str, str]) -> bool:
    match = _COMPARISON.fullmatch(part)
    assert match is not None, part
    name, relation, value = match.groups()
    return (known.get(name, "") == value) is (relation == "==")
