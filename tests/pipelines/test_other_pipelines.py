"""The GitLab job and the hooks of pre-commit as their runners run them, and the recipe of the image."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from pipeline_commands import DATA, HOSTILE, ROOT, asked, plant, refuse_planted, write_record
from workflow_runner import read_yaml

GITLAB = ROOT / ".ci" / "gitlab" / "docaudit.gitlab-ci.yml"


# GitLab.


@pytest.fixture
def job():
    return read_yaml(GITLAB)[".docaudit"]


def run_job(job, workspace, commands, shell="bash", **variables):
    (script,) = job["script"]
    given = {key: str(value) for key, value in job["variables"].items()} | variables
    environment = {**os.environ, **given, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    command = [shell, "-c", f"set -e\n{script}"]
    return subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )


def test_the_gitlab_job_ends_with_the_verdict(job, workspace, docaudit):
    write_record(workspace, "exceeded")
    done = run_job(job, workspace, docaudit, DOCAUDIT_RECORD="audits", DOCAUDIT_POLICY="mine.toml")
    assert done.returncode == 10, done.stderr
    reports = job["artifacts"]["reports"]
    assert {Path(name).name for name in reports.values()} == {"docaudit.xml"}
    assert all((workspace / name).stat().st_size for name in reports.values())


@pytest.mark.parametrize("code", [0, 2, 10, 11])
def test_the_gitlab_job_ends_as_docaudit_does(code, job, tmp_path, workspace, fake, monkeypatch):
    monkeypatch.setenv("FAKE_CODE", str(code))
    assert run_job(job, workspace, fake, DOCAUDIT_RECORD="r").returncode == code
    assert run_job(job, workspace, fake, DOCAUDIT_MODEL="m", DOCAUDIT_DATA="d").returncode == code
    gated = ["gate", "scan"] if code == 2 else ["gate", "scan", "gate"]
    assert [arguments[0] for arguments in asked(tmp_path)] == gated


@pytest.mark.parametrize("given", [{}, {"DOCAUDIT_MODEL": "m"}, {"DOCAUDIT_DATA": "d"}])
def test_the_gitlab_job_says_what_it_needs_before_it_runs_anything(
    given, job, tmp_path, workspace, fake
):
    done = run_job(job, workspace, fake, "sh", **given)
    assert done.returncode == 2
    assert done.stderr == "docaudit: set DOCAUDIT_RECORD, or DOCAUDIT_MODEL and DOCAUDIT_DATA\n"
    assert asked(tmp_path) == []


@pytest.mark.parametrize(
    ("shell", "value"), [("bash", HOSTILE[0]), *(("sh", value) for value in HOSTILE)]
)
def test_variables_of_gitlab_reach_docaudit_as_they_are(
    value, shell, job, tmp_path, workspace, fake
):
    variables = dict.fromkeys(
        [f"DOCAUDIT_{name}" for name in ("MODEL", "DATA", "BASELINE", "POLICY", "BUDGET")], value
    )
    done = run_job(job, workspace, fake, shell, **variables)
    assert done.returncode == 0, done.stderr
    scan, gate = asked(tmp_path)
    assert scan[-3:] == ["--", value, value]
    assert {f"--model={value}", f"--baseline={value}"} <= {*gate}
    assert not list(tmp_path.rglob("injected"))
    kept_files = {path.name for path in (workspace / "docaudit-verdict").iterdir()}
    assert kept_files == {Path(path).name for path in job["artifacts"]["paths"]}
    assert not list(workspace.rglob("evidence"))


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    "given", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": "{workspace}", "PYTHONSTARTUP": "json.py"}]
)
def test_the_gitlab_job_runs_nothing_of_the_checkout(given, shell, job, checkout, docaudit):
    write_record(checkout, "exceeded")
    more = {name: value.format(workspace=checkout) for name, value in given.items()}
    done = run_job(
        job,
        checkout,
        docaudit,
        shell,
        DOCAUDIT_RECORD="audits",
        DOCAUDIT_POLICY="mine.toml",
        **more,
    )
    assert done.returncode == 10, done.stderr
    assert not (checkout / "ran").exists()


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("left", ["link", "file", "folder"])
@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="none"),
        pytest.param({"DOCAUDIT_RECORD": "r"}, id="record"),
        pytest.param({"DOCAUDIT_MODEL": "m", "DOCAUDIT_DATA": "d"}, id="scan"),
    ],
)
def test_gitlab_keeps_nothing_that_the_checkout_put_into_the_folder(
    variables, left, shell, job, tmp_path, workspace, fake
):
    """Artefacts are kept whatever the job's end."""
    folder, private = plant(
        tmp_path, workspace, (Path(path).name for path in job["artifacts"]["paths"]), left
    )
    done = run_job(job, workspace, fake, shell, **variables)
    assert done.returncode == (0 if variables else 2), done.stderr
    assert private.read_text() == "private"
    refuse_planted(folder)


@pytest.mark.parametrize("given", [{}, {"DOCAUDIT_RECORD": "r"}], ids=["none", "record"])
def test_a_link_in_place_of_gitlabs_folder_goes(given, job, tmp_path, workspace, fake):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.html").write_text("private")
    (workspace / "docaudit-verdict").symlink_to(elsewhere)
    run_job(job, workspace, fake, "sh", **given)
    assert not (workspace / "docaudit-verdict").is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["report.html"]


@pytest.mark.parametrize("given", ["docaudit-verdict", "docaudit-verdict/record.json"])
def test_a_record_in_gitlabs_folder_stays(given, job, workspace, fake):
    (workspace / "docaudit-verdict").mkdir()
    (workspace / "docaudit-verdict" / "record.json").write_text("the record")
    assert run_job(job, workspace, fake, "sh", DOCAUDIT_RECORD=given).returncode == 0
    assert (workspace / "docaudit-verdict" / "record.json").read_text() == "the record"


def test_gitlab_fails_an_undecided_job_and_keeps_no_evidence(job):
    assert "allow_failure" not in job
    artefacts = job["artifacts"]
    assert (artefacts["when"], artefacts["exclude"]) == ("always", ["**/evidence/**/*"])
    assert all(re.fullmatch(r"docaudit-verdict/[\w.]+", path) for path in artefacts["paths"])


# pre-commit.


@pytest.mark.parametrize(
    ("hook", "arguments", "code"),
    [
        ("docaudit-inspect", [str(DATA)], 0),
        ("docaudit-inspect", ["audits"], 2),
        ("docaudit-gate", ["audits", "--policy", "mine.toml"], 10),
    ],
)
def test_hooks_run_on_what_is_committed(hook, arguments, code, workspace, docaudit, clone):
    write_record(workspace, "exceeded")
    hooks = {
        each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    }
    assert (hooks[hook]["language"], hooks[hook]["pass_filenames"]) == ("script", False)
    # Behind -I -m audit.
    write_program(clone / ".hook/bin/python", f'shift 3\nexec {docaudit / "docaudit"} "$@"')
    script, *words = shlex.split(hooks[hook]["entry"])
    done = run_program([clone / script, *words, *arguments], workspace)
    assert done.returncode == code, done.stderr


@pytest.fixture
def clone(tmp_path):
    """What pre-commit fetches of docaudit: the hook and the locks."""
    folder = tmp_path / "clone"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "hook", folder / ".ci")
    return folder.resolve()


def write_program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run_program(words, folder, **variables):
    """Run a program, and keep what it prints."""
    return subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


NEW_ENVIRONMENT = """
echo "$@" >>"$LOG"
case "$*" in
  "-I -m venv "*) mkdir "$4/bin"; cp "$0" "$4/bin/python" ;;
  *os.rename*) mv "$4" "$5" ;;
esac
"""
"""A python3 that notes what it is asked, and makes environments which hold a copy of it."""


def test_a_hook_installs_the_light_part_by_hash_once(clone, tmp_path, workspace):
    write_program(tmp_path / "bin/python3", NEW_ENVIRONMENT)
    log = tmp_path / "log"
    variables = {"LOG": str(log), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for _ in range(2):
        done = run_program([clone / ".ci/hook", "gate", "audits"], workspace, **variables)
        assert done.returncode == 0, done.stderr
    asked_for = log.read_text().splitlines()
    installed = [line.partition("--no-deps ")[2] for line in asked_for if "pip install" in line]
    assert installed == [
        f"--require-hashes -r {clone}/locks/light.txt",
        f"--require-hashes -r {clone}/locks/build.txt",
        f"--no-build-isolation {clone}",
    ]
    assert asked_for[-2:] == ["-I -m audit gate audits"] * 2
    assert {path.name for path in clone.iterdir()} == {".ci", ".hook"}


def test_a_hook_that_finds_an_old_python_says_so(clone, tmp_path, workspace):
    write_program(tmp_path / "bin/python3", "exit 1")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run_program([clone / ".ci/hook", "gate", "audits"], workspace, PATH=path)
    assert done.returncode == 1
    assert "older than 3.11" in done.stderr


# The image.


def test_the_image_is_pinned_runs_as_nobody_in_particular_and_gets_what_it_copies():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert re.search(
        r"^ARG PYTHON=python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}$",
        "\n".join(lines),
        re.MULTILINE,
    )
    assert "USER 1000" in lines
    assert any(line.startswith("ENV ") and "PYTHONSAFEPATH=1" in line for line in lines)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = tuple(line.removeprefix("!") for line in ignored if line.startswith("!"))
    assert ignored[1] == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    needed = ["pyproject.toml", "constraints.txt", "locks", "LICENSE", "README.md", hook]
    for source in [*needed, *wheel["packages"], *wheel["force-include"]]:
        assert source.startswith(let_through), source
