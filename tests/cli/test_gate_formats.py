"""Formats on the command line: where each goes, what else is printed, and exit codes that are the verdict's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import example_records as examples
import pytest
from commands import docaudit
from policy_texts import write_policy

from audit import record as records
from audit.cli.verdicts import FORMATS
from audit.report.formats import FORMATS as FOR_MACHINES

CODES = {"violated": 10, "passed": 0, "wide": 11, "failed": 11, "inapplicable": 11}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A repository with a policy and a record of each kind."""
    (tmp_path / ".git").mkdir()
    write_policy(tmp_path / "own.toml", "reconstruction excess_pr.unique max = 0.05", name="own")
    for name in CODES:
        (tmp_path / name).mkdir()
        records.write(examples.CASES[name]()[0], tmp_path / name / "record.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(*arguments, policy="own.toml"):
    return docaudit("gate", *arguments, "--policy", policy)


@pytest.mark.parametrize("name", CODES)
def test_exit_codes_are_the_same_in_every_format(work, name):
    assert ("text", *FOR_MACHINES) == FORMATS
    for form in FORMATS:
        assert gate(name, "--format", form).exit_code == CODES[name], form


def test_each_output_is_of_its_format_and_text_stays_on_standard_output(work):
    result = gate("violated", *("--format", "junit=new/verdict.xml"), *("--format", "json=v.json"))
    assert result.exit_code == 10
    assert result.stdout.splitlines()[0].startswith("Record of model")
    assert "EXCEEDED" in result.stdout
    assert "exit code 10" in result.stdout
    assert (work / "new/verdict.xml").read_text().startswith("<?xml")
    assert json.loads((work / "v.json").read_text())["exit_code"] == 10
    assert [path.name for path in (work / "new").iterdir()] == ["verdict.xml"], (
        "nothing half is left behind"
    )


def test_standard_output_holds_the_chosen_format_alone(work):
    assert json.loads(gate("wide", "--format", "json").stdout)["verdict"] == "undecided"
    mixed = gate("wide", *("--format", "sarif"), *("--format", "text=verdict.txt"))
    assert json.loads(mixed.stdout)["version"] == "2.1.0"
    assert "UNDECIDED" in (work / "verdict.txt").read_text()


def test_quiet_prints_only_what_was_asked_for(work):
    assert gate("violated", "--quiet").output == ""
    assert gate("violated", "-q", "--format", "markdown=summary.md").output == ""
    assert (work / "summary.md").read_text().startswith("## ")
    assert "EXCEEDED" in gate("violated", "-q", "--format", "text").stdout


def test_sarif_is_anchored_at_the_policy_of_the_repository(work):
    (run,) = json.loads(gate("violated", "--format", "sarif").stdout)["runs"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "own.toml"


def test_without_a_place_no_sarif_is_written_and_an_older_one_is_taken_away(work, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "own.toml"
    shutil.copy("own.toml", elsewhere)
    (work / "v.sarif").write_text("of yesterday")
    files = ("--format", "sarif=v.sarif", "--format", "json=v.json")
    refused = gate("violated", *files, policy=str(elsewhere))
    assert refused.exit_code == 10
    assert "no SARIF was written" in refused.stderr
    assert "commit the policy" in refused.stderr
    assert not (work / "v.sarif").exists()
    assert (work / "v.json").exists()
    (work / "README.md").write_text("# A repository")
    anchored = gate("violated", *files, policy=str(elsewhere))
    assert (anchored.exit_code, anchored.stderr) == (10, "")
    assert '"uri": "README.md"' in (work / "v.sarif").read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--format", "json", "--format", "junit"], "both go to standard output"),
        (["--format", "pdf=a.pdf"], "no such format"),
        (["--format", "json=a", "--format", "junit=a"], "two formats for one file"),
        (["--format", "json=."], "is a folder"),
        (["--format", "json=own.toml/v.json"], "--format own.toml/v.json: "),
    ],
)
def test_options_that_contradict_each_other_are_refused(work, options, problem):
    result = gate("violated", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_who_leaves_changes_no_exit_code(work, form):
    # Standard output is closed at the other end before anything is printed, as by a `head` that has
    # seen enough.
    reading, writing = os.pipe()
    os.close(reading)
    command = [
        sys.executable,
        "-m",
        "audit",
        "gate",
        "violated",
        "--policy",
        "own.toml",
        "--format",
        form,
    ]
    streams = {"stdout": writing, "stderr": subprocess.PIPE, "text": True, "check": False}
    path = str(Path(records.__file__).parents[1])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, **streams)
    os.close(writing)
    assert (done.returncode, done.stderr) == (10, "")


@pytest.mark.parametrize(
    "command", [("nope",), ("passed", "--baseline", "passed"), ("passed", "--no-model")]
)
def test_a_gate_without_a_verdict_leaves_no_file_of_an_earlier_one(work, command):
    assert gate("passed", "--format", "json=v.json").exit_code == 0
    assert gate(*command, "--format", "json=v.json", "--format", "junit=/dev/null").exit_code == 2
    assert not (work / "v.json").exists()
    assert Path("/dev/null").exists()


def test_wrong_options_leave_every_file(work):
    assert gate("passed", "--format", "json=v.json").exit_code == 0
    assert gate("passed", "--format", "json=v.json", "--format", "pdf").exit_code == 2
    assert (work / "v.json").exists()


@pytest.mark.parametrize("content", ["# A text", "", "[1]", "{"])
def test_a_file_that_is_no_record_is_named_in_one_sentence(work, content):
    (work / "README.md").write_text(content)
    result = gate("README.md")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: README.md: ")
    assert "hint: give the record.json of a scan, or the folder that holds it" in result.stderr


def test_a_record_that_may_not_be_read_hints_at_that(work, monkeypatch):
    read = Path.read_bytes

    def refused(path):
        if path.name == "record.json":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    result = gate("passed")
    assert result.exit_code == 2
    assert "hint: make it readable for the user who runs docaudit" in result.stderr


def test_a_misspelt_command_is_corrected_once():
    result = docaudit("gat")
    assert (result.exit_code, result.output.count("Did you mean")) == (2, 1)


def test_a_gate_without_a_verdict_never_removes_what_it_was_to_read(work):
    assert (
        gate("passed", "--baseline", "passed", "--format", "json=passed/record.json").exit_code == 2
    )
    assert (work / "passed/record.json").exists()
