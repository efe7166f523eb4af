"""Every next step that a scan of a sample prints can be run as it stands.

It reads the scans that the gate, or the night, has made (`DOCAUDIT_SAMPLE_SCANS`). Each command of
terminal, Markdown, HTML and PDF is parsed by the command line and held against the command's own
checks. What nobody can know, as a folder that is still to be made, is told in words beside it.
"""

import html
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from pypdf import PdfReader
from typer.testing import CliRunner

from audit.cli import app
from audit.engine.interface import SILENT
from audit.extensions.countermeasures import fix as fixing
from audit.extensions.countermeasures.measuring import Plan
from audit.report.commands import PLACES, left_to_put_in
from audit.workflows.options import ScanOptions
from audit.workflows.references import list_references
from audit.workflows.session import open_session

ROOT = Path(os.environ.get("DOCAUDIT_SAMPLE_SCANS", "/nonexistent"))
REPOSITORY = Path(__file__).parents[2]
SCANS = sorted(path.parent for path in ROOT.glob("*-*/record.json"))
GROUP: Any = typer.main.get_command(app)
NEVER_LEFT = ("MODEL_DIR", "DATA_DIR", "SCAN_DIR", "POLICY.toml")
"""What the scan was called with: nobody has to put it in."""
MENTION = re.compile(r"docaudit ([a-z][a-z-]+)((?: +(?:--?[a-z][\w-]*|[A-Z][\w.]*|\w+=\S+))*)")
"""A command in a sentence, with the options and names right behind it."""
pytestmark = pytest.mark.skipif(not SCANS, reason="reads what the gate has scanned")


EACH_SCAN = pytest.mark.parametrize("scan", SCANS, ids=[scan.name for scan in SCANS])


def page_of(scan: Path) -> str:
    """Return the HTML report without its scripts and styles."""
    page = (scan / "report.html").read_text()
    return re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)


def commands_of_page(scan: Path) -> dict[str, str]:
    """Return the commands of the HTML report, each with the text around it."""
    commands = {}
    page = page_of(scan)
    for match in re.finditer(r"<code>(docaudit .*?)</code>([^<]*)", page, re.S):
        command = html.unescape(match[1])
        if command.count(" ") > 1:
            commands[command] = html.unescape(match[2])
    return commands


def said_by_gate(scan: Path, *options: str) -> str:
    """Return what `docaudit gate` prints of a scan."""
    return CliRunner().invoke(app, ["gate", str(scan), *options]).output


def commands_of_terminal(scan: Path) -> dict[str, str]:
    """Return the commands that stand on lines of their own, each with the whole output."""
    commands = {}
    for output in (said_by_gate(scan), said_by_gate(scan, "-v")):
        unfolded = output.replace(" \\\n", " ")
        for match in re.finditer(r"^ +(docaudit .*)$", unfolded, re.M):
            command = " ".join(match[1].split())
            commands[command] = output
    return commands


def parsed(command: str) -> tuple[str, dict[str, Any]]:
    """Parse a command as the command line does; return its name and its parameters."""
    _, name, *words = shlex.split(command)
    context = GROUP.commands[name].make_context(name, words)
    return name, context.params


def filled(command: str, scan: Path, folder: Path) -> str:
    """Put something in for the names that a reader has to put in."""
    data = REPOSITORY / "sample_models" / scan.name.partition("-")[0] / "data"
    stand_ins = {
        "BASE": data / "references" / "baseline",
        "NEW_POLICY.toml": REPOSITORY / "policies" / "strict.toml",
        "OUT": folder / "out",
    }
    for name, place in stand_ins.items():
        command = re.sub(rf"(?<![\w.]){re.escape(name)}\b", str(place), command)
    return command


def check_fix(params: dict[str, Any]) -> None:
    """Hold the countermeasures that would be tried against their own checks."""
    scanned = fixing.read_scan(Path(params["scan_dir"]), params["evidence"], params["policy"])
    references = dict(scanned.options.references)
    for pair in params["reference"] or ():
        name, _, path = pair.partition("=")
        references[name] = [Path(path)]
    scanned = replace(scanned, options=replace(scanned.options, references=references))
    names = params["names"].split(",") if params["names"] else ()
    plan = Plan(scanned.options, scanned.policy, SILENT)
    candidates = fixing._requested(names, scanned)
    assert [*fixing._applicable(candidates, scanned, plan)], plan.left_out


def check_scan(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the arguments of a scan against its checks, and open model and data set."""
    opened = []

    def scan_one(options: ScanOptions, *arguments: object, **named: object) -> int:
        session = open_session(replace(options, out=folder / "scan", evidence_dir=None))
        opened.append(session)
        return 0

    monkeypatch.setattr("audit.cli.scan._scan_one", scan_one)
    run = CliRunner().invoke(app, shlex.split(command)[1:])
    assert run.exit_code == 0, run.output
    assert opened


def check_references(params: dict[str, Any]) -> None:
    """Test whether the references can be trained."""
    given = {}
    for pair in params["reference"] or ():
        name, _, path = pair.partition("=")
        given[name] = [Path(path)]
    needs = list_references(params["data_dir"], params["model_dir"], given, "cpu")
    states = {need.name: need.state for need in needs}
    for name in params["names"] or ():
        assert states[name] in ("can be trained", "there"), states


def run_past_check(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command and hold it against its own check."""
    name, params = parsed(command)
    if name == "fix":
        check_fix(params)
    elif name in ("scan", "forget-check"):
        check_scan(command, folder, monkeypatch)
    elif name == "references":
        check_references(params)
    else:
        run = CliRunner().invoke(app, shlex.split(command)[1:])
        assert run.exit_code in (0, 10, 11), run.output


@EACH_SCAN
def test_every_command_of_terminal_and_reports_can_be_run(scan, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    commands = {**commands_of_page(scan), **commands_of_terminal(scan)}
    assert commands
    for command, beside in commands.items():
        for name in NEVER_LEFT:
            assert not re.search(rf"(?<![\w.]){re.escape(name)}\b", command), command
        told = " ".join(beside.split())
        assert left_to_put_in(command) in told, (command, told)
        run_past_check(filled(command, scan, tmp_path), tmp_path, monkeypatch)


@EACH_SCAN
def test_the_pdf_prints_the_commands_of_the_html_report(scan):
    pages = PdfReader(scan / "report.pdf").pages
    text = re.sub(r"\s", "", "".join(page.extract_text() for page in pages))
    commands = [re.sub(r"\s", "", command) for command in commands_of_page(scan)]
    for command in re.findall(r"(?:Command|Check):(docaudit.*)", text):
        assert any(command.startswith(known) for known in commands), command[:200]


@EACH_SCAN
def test_terminal_and_reports_name_the_same_first_step(scan):
    of_page = {re.sub(r" --try \S+", "", command) for command in commands_of_page(scan)}
    assert {*commands_of_terminal(scan)} <= of_page


def mentions_of(scan: Path) -> Iterator[re.Match[str]]:
    """Yield the commands in sentences of reports, record and Markdown."""
    page = html.unescape(re.sub(r"<[^>]+>", " ", page_of(scan)))
    texts = [page, (scan / "record.json").read_text(), said_by_gate(scan, "--format", "markdown")]
    for text in texts:
        yield from MENTION.finditer(" ".join(text.split()))


def options_of(command: Any) -> set[str]:
    """Return the options of a command, or of all commands of a group."""
    options = set()
    for item in (command, *getattr(command, "commands", {}).values()):
        for parameter in item.params:
            options.update(parameter.opts)
    return options


@EACH_SCAN
def test_every_command_in_a_sentence_and_its_options_are_there(scan):
    for match in mentions_of(scan):
        command = GROUP.commands.get(match[1])
        if command is None:
            assert not match[2], match[0]  # "docaudit ran", "docaudit verifies"
            continue
        options = re.findall(r"(?<!\S)--[a-z][\w-]*", match[2])
        assert set(options) <= options_of(command), match[0]


def test_every_name_in_a_command_has_a_meaning():
    assert {*NEVER_LEFT} <= {*PLACES}
