"""A package `audit` of somebody else is named, in place of docaudit's own or beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.workflows import start

ROOT = Path(__file__).parents[2]


@pytest.fixture
def other_audit(tmp_path):
    """A folder of packages with the `audit` of a distribution called auditing."""
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "__init__.py").write_text("")
    metadata = tmp_path / "auditing-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: auditing\nVersion: 1.0\n")
    (metadata / "top_level.txt").write_text("audit\n")
    return tmp_path


def test_an_audit_in_place_of_docaudits_is_named_with_its_distribution(other_audit):
    paths = os.pathsep.join([str(other_audit), str(ROOT)])
    process = subprocess.run(
        [sys.executable, "-c", "from docaudit.command import main"],
        cwd=other_audit,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    message = process.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: the package audit at {other_audit}")
    assert "pip uninstall auditing" in message


def test_doctor_names_a_distribution_that_brings_an_audit_too(other_audit, monkeypatch):
    assert [*start._other_owners()] == []
    monkeypatch.syspath_prepend(str(other_audit))
    (check,) = start._other_owners()
    assert (check.name, check.state, check.needed) == ("audit", "broken", True)
    assert "pip uninstall auditing" in check.mend


def test_the_command_of_the_package_is_the_command_line():
    process = subprocess.run(
        [sys.executable, "-c", "from docaudit.command import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert process.stdout.startswith("docaudit ")
