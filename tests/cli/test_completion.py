"""Completion in a shell: commands, options and their values, as bash asks for them."""

import os

import pytest
from commands import run_python
from typer.testing import CliRunner

from audit.cli import app


def complete(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that bash offers at the end of a line."""
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_DOCAUDIT_COMPLETE", "complete_bash")
    return CliRunner().invoke(app, prog_name="docaudit").output.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("docaudit insp", ["inspect"]),
        ("docaudit scan --policy ", ["default", "forget", "strict"]),
        ("docaudit gate --policy s", ["strict"]),
        ("docaudit scan --only memo", ["memorisation"]),
        ("docaudit scan --budget q", ["quick"]),
        ("docaudit scan --defence para", ["paraphrase"]),
        ("docaudit import sr", ["sroie"]),
        ("docaudit defend dp,scr", ["dp,scrub"]),
        ("docaudit canary ins", ["insert"]),
    ],
)
def test_bash_is_offered_what_fits(line, offered, monkeypatch):
    assert complete(line, monkeypatch) == offered


def test_the_command_itself_prints_what_bash_is_to_run():
    environment = {**os.environ, "_DOCAUDIT_COMPLETE": "source_bash"}
    code = "import sys; sys.argv[0] = 'docaudit'; from audit.cli import main; main()"
    assert (
        "complete -o default -F _docaudit_completion docaudit"
        in run_python("-c", code, env=environment).stdout
    )
