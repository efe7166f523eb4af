"""`docaudit demo`: a real scan of the sample in the wheel, on a machine without pango, into whatever folder."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import example_records
import pytest
from commands import docaudit, run_python

from audit import record as records
from audit.workflows import start as demo

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = """
import audit.workflows.start as demo
from audit.cli import main
whole = demo.open_demo
demo.DOCUMENTS = 20
demo.open_demo = lambda out: whole(out, 20, ("membership",))
main()
"""
"""The command on fewer documents and with one attack, as a test has no minute."""


def files(folder):
    return {
        path.relative_to(folder): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory):
    """Site-packages before and after, the folder of the reports, and what the command said."""
    root = tmp_path_factory.mktemp("demo")
    site = root / "site"
    fakes = root / "fakes"
    run_python("-m", "hatchling", "build", "--target", "wheel", "--directory", root, cwd=REPOSITORY)
    (wheel,) = root.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    fakes.mkdir()
    (fakes / "weasyprint.py").write_text("raise OSError('cannot load library libpango')")
    before = files(site)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{fakes}{os.pathsep}{site}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return (
        before,
        files(site),
        root / "docaudit-demo",
        run_python("-c", SMALL, "demo", cwd=root, env=environment),
    )


def test_it_scans_what_is_in_the_wheel_ends_with_0_and_says_what_was_found_and_what_to_open_next(
    demonstrated,
):
    before, after, out, done = demonstrated
    assert done.returncode == 0, done.stderr
    record = records.read(out / "record.json")
    assert record.corpus.name == "receipts-demo"
    assert record.bounds is not None
    assert record.environment.threads == 1
    assert before == after, "nothing is written beside the package"
    said = done.stdout
    assert "UNDECIDED" in said
    assert "pango is missing; install it" in done.stderr
    assert "not written: report.pdf" in said
    assert "trained on 160 made-up receipts" in said
    assert f"{out.name}/report.html: " in said
    assert "docaudit scan MODEL_DIR DATA_DIR" in said
    assert "this scan would have ended with exit code 11 here" in said
    assert said.splitlines()[-1].startswith("UNDECIDED ")


@pytest.fixture
def done_before(tmp_path, monkeypatch):
    """A folder of a demo that was finished."""
    demo.copy_sample(tmp_path / demo.SAMPLE)
    record, _, _ = example_records.violated()
    corpus = replace(record.corpus, name=demo.NAME)
    monkeypatch.setattr(demo, "__version__", record.environment.docaudit)
    records.write(replace(record, corpus=corpus), tmp_path / "record.json")
    for name in demo.REPORTS:
        (tmp_path / name).write_text("a report")
    return tmp_path


@pytest.fixture
def unscanned(monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing may be scanned")

    monkeypatch.setattr(demo, "open_demo", refuse)


def invoke(*arguments):
    return docaudit("demo", *arguments)


def test_a_demo_that_was_finished_is_shown_and_not_run_again(done_before, unscanned):
    before = files(done_before)
    done = invoke("--out", done_before)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "already done" in said
    assert "Scanning" not in said
    assert "EXCEEDED" in said
    assert "report.pdf: the decision report" in said
    assert files(done_before) == before


def test_a_demo_of_another_version_or_without_a_report_is_run(done_before, monkeypatch):
    assert demo.find_demo(done_before) is not None
    assert demo.find_demo(done_before / "nowhere") is None
    (done_before / "report.pdf").unlink()
    assert demo.find_demo(done_before) is None
    (done_before / "report.pdf").touch()
    monkeypatch.setattr(demo, "__version__", "0.0.1")
    assert demo.find_demo(done_before) is None


@pytest.mark.parametrize("holds", ["another scan", "files"])
def test_a_folder_of_something_else_is_left_alone(holds, done_before, unscanned, tmp_path_factory):
    place = tmp_path_factory.mktemp("foreign")
    if holds == "another scan":
        place = done_before
        records.write(example_records.violated()[0], place / "record.json")
    else:
        (place / "thesis.txt").write_text("mine")
    before = files(place)
    refused = invoke("--out", place)
    assert (refused.exit_code, files(place)) == (2, before)
    assert "Scanning" not in refused.output
    assert "name a folder that is empty or not there yet" in " ".join(refused.output.split())


def test_a_folder_that_cannot_be_made_is_a_line_and_no_traceback(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = docaudit("demo", "--out", tmp_path / "taken")
    assert done.exit_code == 2
    assert "name a folder that you can write into" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"
