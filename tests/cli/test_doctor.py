"""`docaudit doctor`: what is there, what is missing and how to mend it, whatever is broken on the machine."""

import json
import os
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from commands import docaudit, run_python

from audit.workflows import start as doctor
from audit.workflows.start import EXTRAS, Check, examine

ROOT = Path(__file__).parents[2]


def fake(folder, monkeypatch, **modules):
    """Put modules in front of the installed ones, for the processes that doctor starts."""
    folder.mkdir(exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    )


def program(folder, monkeypatch, name, script):
    """Put a program in front of the installed ones."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])


def test_every_extra_of_the_package_is_explained():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(EXTRAS) == set(extras) - {"dev"}


@pytest.mark.parametrize(
    ("source", "state", "package"),
    [
        ("raise ImportError('libcudart.so.12: /home/somebody/lib')", "broken", "torch"),
        ("raise ModuleNotFoundError(\"No module named 'torch'\")", "missing", "'docaudit[scan]'"),
        ("import os; os.abort()", "broken", "torch"),
        ("print('chatter')\nraise OSError('/home/somebody/torch.so: bad')", "broken", "torch"),
    ],
)
def test_a_torch_that_breaks_down_is_reported_and_named_no_folder(
    tmp_path, monkeypatch, source, state, package
):
    fake(tmp_path / "fakes", monkeypatch, torch=source)
    check = doctor._torch()
    assert (check.state, check.needed) == (state, True)
    assert check.mend.startswith("python -m pip install ")
    assert check.mend.endswith(f" {package}")
    assert "somebody" not in check.found


BROKEN = "operator torchvision::nms does not exist"


@pytest.fixture
def broken_torchvision(tmp_path, monkeypatch):
    """A torchvision whose operators do not fit the installed torch, as an installer may choose it."""
    metadata = tmp_path / "fakes" / "torchvision-0.28.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n"
    )
    fake(
        tmp_path / "fakes", monkeypatch, torchvision=f"raise RuntimeError({BROKEN!r})", num2words=""
    )


@pytest.mark.usefixtures("broken_torchvision")
def test_a_torchvision_that_breaks_transformers_is_named_with_its_repair(monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda wanted: True)
    check = doctor._transformers()
    assert (check.state, check.needed, check.found) == ("broken", True, f"RuntimeError: {BROKEN}")
    assert "pip uninstall torchvision" in check.mend
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "0.28.0")
    assert (doctor._extra("vision").state, doctor._extra("vision").mend) == ("broken", check.mend)


@pytest.mark.usefixtures("broken_torchvision")
def test_a_model_that_a_broken_torchvision_keeps_from_loading_is_a_sentence(
    tmp_path, tiny_corpus, checkpoints
):
    paths = os.pathsep.join([str(tmp_path / "fakes"), str(ROOT)])
    command = ("inspect", tiny_corpus, "--model", checkpoints("bert", "token-classification"))
    done = run_python("-m", "audit", *command, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 1
    assert f"error: transformers cannot load its models: {BROKEN}" in done.stderr
    assert "pip uninstall torchvision" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_extra_that_cannot_be_imported_is_broken(tmp_path, monkeypatch):
    fake(tmp_path / "fakes", monkeypatch, pypdfium2="import os; os.abort()")
    check = doctor._extra("pdf")
    assert (check.state, check.needed, check.found) == ("broken", False, "it ended with code -6")
    assert check.mend == "python -m pip install --force-reinstall 'docaudit[pdf]'"


def test_pango_that_is_missing_costs_the_pdf_and_names_the_commands_that_install_it(
    tmp_path, monkeypatch
):
    fake(
        tmp_path / "fakes",
        monkeypatch,
        weasyprint="raise OSError(\"cannot load library 'libpango-1.0-0'\")",
    )
    check = doctor._pango()
    assert (check.state, check.needed) == ("missing", True)
    assert "no report.pdf" in check.without
    assert check.mend.startswith(
        "apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 (Debian)"
    )
    fake(tmp_path / "worse", monkeypatch, weasyprint="raise AttributeError('no such part')")
    assert (doctor._pango().state, doctor._pango().found) == (
        "broken",
        "AttributeError: no such part",
    )


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("exit 1", "broken"),
        ('[ "$1" = --version ] && echo tesseract 5.9 || printf "List:\\nosd\\n"', "broken"),
        ('[ "$1" = --version ] && echo tesseract 5.9 || printf "List:\\nosd\\neng\\ndeu\\n"', "ok"),
    ],
)
def test_tesseract_is_asked_for_its_languages(tmp_path, monkeypatch, script, state):
    program(tmp_path / "bin", monkeypatch, "tesseract", script)
    check = doctor._tesseract()
    assert check.state == state
    assert not check.needed
    if state == "ok":
        assert check.found == "tesseract 5.9, languages: eng, deu"
    else:
        assert "docaudit ocr" in check.without


def test_it_is_ready_unless_something_needed_is_missing(monkeypatch):
    optional = Check("a", "missing", "x", without="b", mend="c")
    needed = Check("d", "missing", "y", True, "e", "f")
    for checks, code in (((optional,), 0), ((optional, needed), 1)):
        monkeypatch.setattr(doctor, "examine", lambda checks=checks: iter(checks))
        assert docaudit("doctor").exit_code == code
    assert "d (needed). Without it: e\n  f\n" in docaudit("doctor").stdout


def test_each_row_is_printed_before_the_next_check_ends(monkeypatch):
    printed = []

    def check_in_turn():
        yield Check("quick", "ok", "at once")
        printed.extend(shown)
        yield Check("slow", "ok", "after a minute")

    shown = []
    monkeypatch.setattr("audit.cli.console.show_row", lambda *row: shown.append(row))
    monkeypatch.setattr(doctor, "examine", check_in_turn)
    assert docaudit("doctor").exit_code == 0
    assert printed == [(("quick", "ok"), "at once", (14, 9))]


def test_this_machine_is_examined_without_naming_its_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake(
        tmp_path / "fakes",
        monkeypatch,
        torch="raise ImportError('no')",
        weasyprint="raise ImportError('no')",
    )
    text = json.dumps([asdict(check) for check in examine()])
    assert examine.__module__ not in text
    assert not [
        one
        for one in (str(Path.home()), str(tmp_path), str(ROOT))
        if len(one) > 1 and f"{one}/" in text
    ]
    assert {"torch", "pango", "tesseract", "this folder"} <= {
        one["name"] for one in json.loads(text)
    }
