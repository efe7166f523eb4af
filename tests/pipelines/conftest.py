"""Fixtures of pipelines: commands for the PATH, and a folder that stands for a user's repository."""

from __future__ import annotations

import sys

import pytest
from pipeline_commands import FAKE, ROOT, write_command


@pytest.fixture
def docaudit(tmp_path):
    """A folder with the command as it is installed."""
    return write_command(tmp_path / "bin", f'#!/bin/sh\nexec "{sys.executable}" -m audit "$@"\n')


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
