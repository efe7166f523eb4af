"""Fixtures of pipelines: commands for the PATH, and a folder that stands for a user's repository."""

import sys

import pytest
from pipeline_commands import FAKE, PLANTED, ROOT, write_command


@pytest.fixture
def docaudit(tmp_path):
    """A folder with the command as it is installed: modules come from its own environment and from this repository."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from audit.cli import main; main()"
    return write_command(
        tmp_path / "bin", f'#!/bin/sh\nexec "{sys.executable}" -P -c "{program}" "$@"\n'
    )


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder with the fake command; `asked()` tells what it was asked."""
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "asked"))
    return write_command(tmp_path / "fake", FAKE.format(python=sys.executable))


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = tmp_path / "work space"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


@pytest.fixture
def checkout(workspace):
    """A workspace with modules of its own, under names that Python imports as it starts or reads JSON; none may run."""
    for name in ("json", "typer", "pip", "sitecustomize", "usercustomize", "hatchling", "audit"):
        (workspace / f"{name}.py").write_text(PLANTED)
    return workspace
