"""What the command line says of itself: the start, the short help, and the whole help."""

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from audit.cli import app

GROUP = typer.main.get_command(app)
CALLS = (
    (),
    *((name,) for name in GROUP.commands),
    ("canary", "insert"),
    ("import", "funsd"),
)
OF_SOME_FORMATS = ("--columns", "--official", "--by-provider", "--task", "--without")
LINES_OF_TWO_SCREENS = 48
LINES_OF_HELP = {
    "import": 52,
    "doctor": 24,
    "demo": 24,
    "inspect": 24,
    "plan": 36,
    "scan": 36,
    "gate": 36,
    "diff": 36,
    "report": 36,
}


def docaudit(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_docaudit_alone_shows_three_next_commands_on_a_dozen_lines() -> None:
    program = [sys.executable, "-m", "audit"]
    process = subprocess.run(program, capture_output=True, text=True, check=True, env=os.environ)
    lines = process.stdout.splitlines()
    assert [line for line in lines if line.startswith("  ")] == [
        "  docaudit demo",
        "  docaudit init MODEL_DIR SOURCE --out DATA_DIR",
        "  docaudit scan MODEL_DIR DATA_DIR",
    ]
    assert "docaudit --help lists all commands" in process.stdout
    assert len(lines) <= 12


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "--help-all"])
def test_help_is_whole_on_80_columns_and_flags_take_no_value(
    call: tuple[str, ...], option: str
) -> None:
    text = docaudit(*call, option)
    assert "Usage" in text
    assert "…" not in text
    for line in text.splitlines():
        assert len(line) <= 80
    assert "bool>" not in text
    assert "<list" not in text


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_the_short_help_fits_two_screens(call: tuple[str, ...]) -> None:
    lines = docaudit(*call, "--help").splitlines()
    assert len(lines) <= LINES_OF_HELP.get(" ".join(call), LINES_OF_TWO_SCREENS)


def test_the_help_lists_commands_in_the_order_of_an_audit() -> None:
    assert [*GROUP.commands][:11] == [
        "demo",
        "doctor",
        "init",
        "ocr",
        "inspect",
        "references",
        "plan",
        "scan",
        "forget-check",
        "gate",
        "diff",
    ]


def panels_of(text: str) -> list[str]:
    return re.findall(r"^╭─ (.+?) ─+╮$", text, re.MULTILINE)


def test_the_short_help_shows_common_options_and_the_whole_help_the_rest() -> None:
    short = docaudit("scan", "--help")
    full = docaudit("scan", "--help-all")
    assert panels_of(short) == ["Arguments", "Common"]
    assert panels_of(full) == [
        "Arguments",
        "Common",
        "What to attack",
        "Reproduce",
        "Performance",
        "Output",
        "Network",
    ]
    assert "--budget" in short
    assert "--help-all" in short
    assert "--dtype" not in short
    assert "--dtype" in full
    assert "Exit codes:" not in short
    assert "Exit codes:" in full


@pytest.mark.parametrize(
    ("call", "usage"),
    [
        ("scan", "scan [OPTIONS] [MODEL_DIR] DATA_DIR"),
        ("init", "init [OPTIONS] MODEL [SOURCE]"),
        ("gate", "gate [OPTIONS] RECORD"),
    ],
)
def test_the_usage_names_arguments_as_one_types_them(call: str, usage: str) -> None:
    assert usage in docaudit(call, "--help")


def test_a_description_fills_its_lines() -> None:
    first, *_ = docaudit("demo", "--help").split("This takes about a minute", 1)[1].splitlines()
    assert len(first) > 80 - len("This takes about a minute") - len("interrupted")


def test_a_list_to_leave_out_is_in_the_whole_help_alone() -> None:
    assert "--without" not in docaudit("import", "funsd", "--help")
    assert "--without" in docaudit("import", "funsd", "--help-all")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("funsd", "--task --without"),
        ("forms", "--columns --official --by-provider --task --without"),
        ("pfl-docvqa", "--official --by-provider --without"),
    ],
)
def test_a_format_shows_the_options_that_it_takes(name: str, options: str) -> None:
    text = docaudit("import", name, "--help-all")
    for option in OF_SOME_FORMATS:
        assert (f"{option} " in text) == (option in options.split())
