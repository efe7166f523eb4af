"""The GitHub action, its steps run one by one in bash as a runner runs them."""

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from commands import run_python
from packaging.requirements import Requirement
from pipeline_commands import (
    DATA,
    HOSTILE,
    IMPORTED,
    ROOT,
    VERDICTS,
    asked,
    plant,
    refuse_planted,
    write_record,
)
from workflow_runner import Runner

GIVEN = ("record", "model", "data", "baseline", "policy")
ACTION = ROOT / "action.yml"
SCANNED = ("record.json", "report.html", "report.pdf")


def act(tmp_path, workspace, commands, **inputs):
    temporary = tmp_path / "runner"
    temporary.mkdir(exist_ok=True)
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    return Runner(ACTION, workspace, temporary, commands).run({"install": "false"} | given)


def kept(run, workspace):
    """The files that the artefact would hold."""
    listed = run.used["actions/upload-artifact"]["path"].split("\n")
    return {path.name for name in listed if name for path in [workspace / name] if path.is_file()}


# The action, on records.


@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_the_action_ends_with_the_verdict_of_a_record(verdict, code, tmp_path, workspace, docaudit):
    write_record(workspace, verdict)
    (workspace / ".git").mkdir()
    formats = "junit\n sarif junit comment badge"
    run = act(
        tmp_path,
        workspace,
        docaudit,
        record="audits",
        policy="mine.toml",
        formats=formats,
        upload_sarif="true",
    )
    assert run.code == code, run.log
    assert run.outputs == {"verdict": verdict, "exit-code": str(code), "folder": "docaudit-verdict"}
    assert verdict.upper().replace("VIOLATED", "EXCEEDED") in run.summary.decode()
    kinds = ("json", "md", "xml", "sarif", "comment.md", "badge.json")
    assert kept(run, workspace) == {f"docaudit.{kind}" for kind in kinds}
    assert (
        json.loads((workspace / "docaudit-verdict" / "docaudit.json").read_text())["exit_code"]
        == code
    )
    sarif = run.used["github/codeql-action/upload-sarif"]["sarif_file"]
    assert json.loads((workspace / sarif).read_text())["version"] == "2.1.0"


def test_a_run_without_a_verdict_is_an_error_and_keeps_nothing(tmp_path, workspace, docaudit):
    (workspace / "docaudit-verdict").mkdir()
    (workspace / "docaudit-verdict" / "docaudit.json").write_text('{"verdict": "met"}')
    for code, ends in ((2, 2), (0, 1)):
        (docaudit / "docaudit").write_text(f"#!/bin/sh\nexit {code}\n")
        run = act(tmp_path, workspace, docaudit, record="nowhere")
        assert (run.code, run.outputs["verdict"], run.used) == (ends, "error", {})


@pytest.mark.parametrize(
    ("code", "annotation"),
    [
        (10, "::error title=docaudit::The verdict is exceeded; the summary says by what."),
        (
            11,
            "::error title=docaudit::The verdict is undecided; the summary says what would "
            "decide it.",
        ),
        (
            2,
            "::error title=docaudit::No verdict: wrong usage or input (exit code 2), see the "
            "log of this job.",
        ),
        (
            1,
            "::error title=docaudit::No verdict: docaudit failed (exit code 1), see the log of "
            "this job.",
        ),
    ],
)
def test_what_ends_the_job_is_an_annotation(
    code, annotation, tmp_path, workspace, fake, monkeypatch
):
    monkeypatch.setenv("FAKE_CODE", str(code))
    run = act(tmp_path, workspace, fake, record="r")
    assert (run.code, run.outputs["exit-code"]) == (code, str(code))
    assert [line for line in run.log.splitlines() if line.startswith("::")] == [annotation]
    monkeypatch.setenv("FAKE_CODE", "0")
    assert "::" not in act(tmp_path, workspace, fake, record="r").log


# The action, on what it is given.


@pytest.mark.parametrize("value", HOSTILE)
def test_inputs_reach_docaudit_as_they_are_and_are_never_run(value, tmp_path, workspace, fake):
    run = act(tmp_path, workspace, fake, **dict.fromkeys(GIVEN, value))
    assert run.code == 0, run.log
    (gate,) = asked(tmp_path)
    assert (gate[0], gate[-2:]) == ("gate", ["--", value])
    for name in GIVEN[1:]:
        assert f"--{name.replace('_', '-')}={value}" in gate
    assert (
        act(tmp_path, workspace, fake, model=value, data=value, budget=value, policy=value).code
        == 0
    )
    scan = asked(tmp_path)[1]
    assert scan[-3:] == ["--", value, value]
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize("name", [*GIVEN, "output"])
def test_line_breaks_in_inputs_are_refused(name, tmp_path, workspace, fake):
    run = act(tmp_path, workspace, fake, **{"record": "r"} | {name: "x\nverdict=met"})
    assert (run.code, run.outputs["verdict"], asked(tmp_path)) == (2, "", [])


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"model": "m"},
        {"record": "r", "formats": "*"},
        *({"record": "r", "output": x} for x in ("", "**", "!x")),
    ],
)
def test_inputs_that_make_no_sense_end_with_2_before_anything_runs(
    inputs, tmp_path, workspace, fake
):
    run = act(tmp_path, workspace, fake, **inputs)
    assert run.code == 2
    assert "::error" in run.log
    assert asked(tmp_path) == []


@pytest.mark.parametrize(
    "folder",
    ["evidence", "EVIDENCE/", "report/evidence", "evidence/../evidence/x", "link", "link/x"],
)
def test_a_folder_of_evidence_is_never_kept(folder, tmp_path, workspace, fake):
    (workspace / "report" / "evidence").mkdir(parents=True)
    (workspace / "link").symlink_to(workspace / "report" / "evidence")
    run = act(tmp_path, workspace, fake, record="report", output=folder)
    assert (run.code, run.used, asked(tmp_path)) == (2, {}, [])


def test_the_summary_stays_under_60_kb(tmp_path, workspace, fake, monkeypatch):
    monkeypatch.setenv("FAKE_SIZE", "100000")
    run = act(tmp_path, workspace, fake, record="r")
    assert 50_000 < len(run.summary) < 60_000
    assert run.summary.decode().endswith("é\n\nThe rest is in the artefact, in docaudit.md.\n")


# The action, beside files of the checkout.


@pytest.mark.parametrize(
    "given", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": "{workspace}", "PYTHONSTARTUP": "json.py"}]
)
def test_nothing_of_the_checkout_is_run(given, tmp_path, checkout, docaudit, monkeypatch):
    for name, value in given.items():
        monkeypatch.setenv(name, value.format(workspace=checkout))
    write_record(checkout, "exceeded")
    run = act(tmp_path, checkout, docaudit, record="audits", policy="mine.toml")
    assert run.code == 10, run.log
    assert run.outputs["verdict"] == "exceeded"
    assert not (checkout / "ran").exists()


@pytest.mark.parametrize("given", ["{workspace}/pip.conf", "pip.conf", "/etc/pip.conf"])
def test_what_installs_runs_nothing_of_the_checkout(given, tmp_path, checkout, fake, monkeypatch):
    """pip and what it starts find no module of the checkout, and no pip.conf of it."""
    log = tmp_path / "installed"
    found = "import json; print(json.__file__)"
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    monkeypatch.setenv("PIP_CONFIG_FILE", given.format(workspace=checkout))
    script = f'#!/bin/sh\necho "$1 $PIP_CONFIG_FILE" >>"{log}"\n"{sys.executable}" -c "{found}" >>"{log}"\n'
    (fake / "python").write_text(script)
    (fake / "python").chmod(0o755)
    assert act(tmp_path, checkout, fake, install="true", record="r").code == 0
    config = given if given.startswith("/etc") else ""
    assert {*log.read_text().splitlines()} == {f"-I {config}", json.__file__}
    assert not (checkout / "ran").exists()


def test_every_python_of_the_action_is_isolated():
    for step in steps_of(ACTION):
        script = step.get("run", "")
        assert re.findall(r"\bpython3? (?!-I )", script) == []
        if re.search(r"\bpython3? |^\s*docaudit ", script, re.MULTILINE):
            assert 'unset "${!PYTHON@}"' in script
            assert "export PYTHONSAFEPATH=1" in script


STALE = (
    "docaudit.json",
    "docaudit.md",
    "docaudit.xml",
    "docaudit.sarif",
    "docaudit.comment.md",
    "docaudit.badge.json",
    "code-scanning.sarif",
    *SCANNED,
)


@pytest.mark.parametrize("left", ["link", "file", "folder"])
@pytest.mark.parametrize(
    "inputs", [{"record": "r"}, {"model": "m", "data": "d"}], ids=["record", "model"]
)
def test_nothing_that_the_checkout_put_into_the_folder_is_kept(
    inputs, left, tmp_path, workspace, fake
):
    folder, private = plant(tmp_path, workspace, STALE, left)
    run = act(tmp_path, workspace, fake, **inputs)
    assert run.code == 0, run.log
    assert private.read_text() == "private"
    written = {
        "docaudit.json",
        "docaudit.md",
        "docaudit.xml",
        *(SCANNED if "model" in inputs else ()),
    }
    assert {path.name for path in folder.iterdir()} == written
    refuse_planted(folder)


@pytest.mark.parametrize(
    "given", [{"record": "v"}, {"record": "v/record.json"}, {"record": "r", "baseline": "v"}]
)
def test_a_record_that_lies_in_the_folder_stays(given, tmp_path, workspace, fake):
    (workspace / "v").mkdir()
    (workspace / "v" / "record.json").write_text("the record")
    (workspace / "v" / "report.html").write_text("of somebody")
    assert act(tmp_path, workspace, fake, output="v", **given).code == 0
    assert (workspace / "v" / "record.json").read_text() == "the record"
    assert not (workspace / "v" / "report.html").exists()


@pytest.mark.parametrize("folder", ["link", "link/", "link/x", "a/link/x", "{workspace}/link"])
def test_a_folder_behind_a_link_is_refused(folder, tmp_path, workspace, fake):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (workspace / "a").mkdir()
    for place in (workspace, workspace / "a"):
        (place / "link").symlink_to(elsewhere)
    run = act(tmp_path, workspace, fake, record="r", output=folder.format(workspace=workspace))
    assert run.code == 2
    assert "symbolic link" in run.log
    assert (asked(tmp_path), run.used) == ([], {})
    assert not list(elsewhere.iterdir())


# The action, on models.


def test_the_action_scans_a_model_and_keeps_all_but_the_evidence(tmp_path, workspace, fake):
    run = act(tmp_path, workspace, fake, model="m", data="d", budget="quick")
    assert run.code == 0, run.log
    scan, gate = asked(tmp_path)
    assert scan[0] == "scan"
    assert "--budget=quick" in scan
    assert (
        gate[-1]
        == next(argument for argument in scan if argument.startswith("--out=")).partition("=")[2]
    )
    assert kept(run, workspace) == {"docaudit.json", "docaudit.md", "docaudit.xml", *SCANNED}
    assert list(tmp_path.rglob("evidence")) == [Path(gate[-1]) / "evidence"]
    assert not Path(gate[-1]).is_relative_to(workspace)


@pytest.mark.parametrize("code", [1, 2, 130, 143])
def test_a_scan_that_failed_is_not_gated(code, tmp_path, workspace, fake, monkeypatch):
    monkeypatch.setenv("FAKE_CODE", str(code))
    run = act(tmp_path, workspace, fake, model="m", data="d")
    assert (run.code, [arguments[0] for arguments in asked(tmp_path)]) == (code, ["scan"])
    assert (run.outputs["verdict"], run.used) == ("error", {})


# What it installs.


@pytest.mark.parametrize(
    ("inputs", "locks"),
    [
        pytest.param({"record": "r"}, ["light", "build"], id="the gate alone"),
        pytest.param(
            {"record": "r", "baseline": "b"},
            ["light", "diff", "build"],
            id="a gate with a baseline",
        ),
        pytest.param({"model": "m", "data": "d"}, ["torch", "docaudit", "build"], id="a scan"),
        pytest.param(
            {"model": "m", "data": "d", "torch_index": "INDEX"},
            ["docaudit", "build"],
            id="a scan with torch of another index",
        ),
    ],
)
def test_the_action_installs_by_hash_all_but_torch_of_another_index(
    inputs, locks, tmp_path, workspace, fake
):
    log = tmp_path / "installed"
    (fake / "python").write_text(f'#!/bin/sh\necho "$@" >>"{log}"\n')
    (fake / "python").chmod(0o755)
    act(tmp_path, workspace, fake, install="true", **inputs)
    lines = log.read_text().splitlines()
    assert [line.rpartition(" -r ")[2] for line in lines if " --require-hashes " in line] == [
        f"locks/{name}.txt" for name in locks
    ]
    assert all(" --no-deps " in line for line in lines)
    assert lines[-1].endswith(" --no-build-isolation .")
    others = [line for line in lines[:-1] if " --require-hashes " not in line]
    assert all(line.endswith(" --index-url INDEX -c constraints.txt torch") for line in others)
    assert len(others) == ("torch_index" in inputs)


# Releases.


def test_a_release_gives_each_job_one_permission_and_signs_without_running_the_repository():
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    )
    assert workflow["permissions"] == {}
    allowed = {name: set(job["permissions"].items()) for name, job in workflow["jobs"].items()}
    assert allowed == {
        "gate": {("contents", "read")},
        "night": {("contents", "read")},
        "build": {("contents", "read")},
        "site": {("contents", "read")},
        "attest": {("attestations", "write"), ("id-token", "write")},
        "draft": {("contents", "write")},
        "publish": {("id-token", "write")},
    }
    for name, needs in {
        "attest": "gate night build site",
        "draft": "attest",
        "publish": "attest",
    }.items():
        job = workflow["jobs"][name]
        assert not any("checkout" in step.get("uses", "") for step in job["steps"])
        assert job["needs"] == needs.split()


def test_each_file_of_a_release_is_attested_and_its_hash_listed():
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    )["jobs"]
    attested: set[str] = set()
    for step in jobs["attest"]["steps"]:
        if "with" in step:
            attested.update(step["with"].get("subject-path", "").split())
    scripts = [step["run"] for step in jobs["draft"]["steps"] if "run" in step]
    released = re.findall(r"[\w*.-]+/\*|[\w*.-]+\.tar\.gz", scripts[-1])
    assert {*released} == attested == {"packages/*", "manual.tar.gz"}
    assert scripts[:-1] == ["sha256sum manual.tar.gz >>SHA256SUMS"]
    assert "sha256sum packages/* ./*.cdx.json >SHA256SUMS" in (ROOT / ".ci" / "release").read_text(
        encoding="utf-8"
    )


# The files themselves.


def steps_of(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = content["jobs"].values() if "jobs" in content else [content["runs"]]
    return [step for job in jobs for step in job.get("steps", [])]


WORKFLOWS = [ACTION, *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_scripts_take_no_expressions(path):
    lines = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    for line in lines:
        assert re.search(
            r"uses: (\./(\.github/workflows/night\.yml)? |[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)",
            line,
        ), line
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")


def test_uploads_and_the_verdict_come_whatever_failed_before():
    for step in steps_of(ACTION):
        if "upload" in step.get("uses", "") or step["name"] == "End with the verdict":
            assert step["if"].startswith("always() && ")
    assert steps_of(ACTION)[-1]["name"] == "End with the verdict"


def test_gate_runs_with_what_the_action_installs_for_a_record(tmp_path, workspace):
    write_record(workspace, "exceeded")
    names = ("json", "markdown", "junit", "sarif")
    formats = [word for name in names for word in ("--format", f"{name}={tmp_path / name}")]
    command = (
        "-c",
        IMPORTED,
        DATA,
        "gate",
        "audits",
        "--policy",
        "mine.toml",
        *formats,
    )
    done = run_python(*command, cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sarif").is_file()
    imported = done.stdout.splitlines()[-1].split()
    owners = metadata.packages_distributions()
    needed = {
        owner.lower().replace("_", "-") for name in imported for owner in owners.get(name, [])
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [Requirement(line).name for line in project["dependencies"]]
    # setuptools starts with every Python that it is installed in.
    assert needed <= closure(listed) | {"docaudit", "setuptools"}


def closure(lines):
    found, left = set(), [*lines]
    while left:
        name = left.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            needed = map(Requirement, metadata.requires(name) or [])
            left += [
                one.name
                for one in needed
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return found


def test_no_input_turns_an_undecided_verdict_into_a_pass():
    assert "undecided" not in yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
