"""`docaudit demo`: a real scan of the sample in the wheel, on a machine without pango, into whatever folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit import record as records
from audit.cli import app
from audit.corpus import manifest
from audit.workflows import demo

REPOSITORY = Path(__file__).resolve().parents[1]
SMALL = """
import audit.workflows.demo as demo
from audit.cli import main
whole = demo.open_demo
demo.DOCUMENTS = 20
demo.open_demo = lambda out: whole(out, 20, ("membership",))
main()
"""
"""The command on fewer documents and with one attack, as a test has no minute."""


def files(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory):
    """Site-packages before and after, the folder of the reports, and what the command said."""
    root = tmp_path_factory.mktemp("demo")
    site, fakes = root / "site", root / "fakes"
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(root)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = root.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    fakes.mkdir()
    (fakes / "weasyprint.py").write_text("raise OSError('cannot load library libpango')")
    before = files(site)
    done = subprocess.run(
        [sys.executable, "-c", SMALL, "demo"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{fakes}{os.pathsep}{site}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return before, files(site), root / "docaudit-demo", done


def test_it_scans_what_is_in_the_wheel_and_ends_with_0(demonstrated):
    before, after, out, done = demonstrated
    assert done.returncode == 0, done.stderr
    record = records.read(out / "record.json")
    assert record.corpus.name == "receipts-demo"
    assert record.bounds is not None
    assert record.environment.threads == 1
    assert before == after, "nothing is written beside the package"


def test_it_says_what_was_done_and_found_and_what_to_open_next(demonstrated):
    _, _, out, done = demonstrated
    said = done.stdout
    assert "trained on 160 made-up receipts" in said
    assert "They tried 20 receipts" in said
    assert "membership: " in said.partition("What was found")[2]
    assert f"{out.name}/report.html: " in said
    assert "docaudit scan MODEL_DIR DATA_DIR" in said
    assert "docaudit scan would have ended with exit code 11 here" in said


def test_without_pango_the_verdict_stands_and_the_lack_is_named(demonstrated):
    _, _, out, done = demonstrated
    assert "UNDECIDED" in done.stdout
    assert "pango is missing; install it" in done.stderr
    assert "not written: report.pdf, annex.pdf" in done.stdout
    assert not (out / "report.pdf").exists()


def test_the_sample_is_left_as_a_data_set_to_look_at(demonstrated):
    _, _, out, _ = demonstrated
    corpus = manifest.load(out / demo.SAMPLE / "data")
    assert len(corpus.of("member")) == 160
    assert all(document.image is None for document in corpus.documents)


def test_a_folder_that_cannot_be_made_is_a_line_and_no_traceback(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "taken")])
    assert done.exit_code == 1
    assert "choose another --out" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"
