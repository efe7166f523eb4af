"""Places that cannot be written: refused before anything is computed, with exit 2 and a hint that names the option."""

import errno
import os

import example_records as examples
import pytest
from commands import docaudit

from audit import files
from audit import record as records
from audit.errors import EngineError, UsageError
from audit.workflows.options import claim_folder


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Two records, a file, a folder, and a folder that nobody may write into."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        records.write(examples.CASES["passed"]()[0], tmp_path / name / "record.json")
    (tmp_path / "file").write_text("of somebody")
    (tmp_path / "shut").mkdir()
    access = os.access

    def closed(path, mode):
        return not (mode & os.W_OK and os.path.basename(path) == "shut") and access(path, mode)

    monkeypatch.setattr(os, "access", closed)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["gate", "new", "--format", "json="], id="gate"),
        pytest.param(["gate", "nothing-there", "--format", "json="], id="gate of nothing"),
        pytest.param(["diff", "nothing-there", "new", "--format", "text="], id="diff"),
        pytest.param(["attest", "new", "--out"], id="attest"),
        pytest.param(["plan", "no-data", "--out"], id="plan"),
    ],
)
@pytest.mark.parametrize("place", ["shut/x", "shut", "file/x", ""])
def test_a_file_that_cannot_be_written_is_refused_first(work, command, place):
    done = (
        docaudit(*command[:-1], f"{command[-1]}{place}")
        if command[-1][-1] == "="
        else docaudit(*command, place)
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {'--format' if command[-1][-1] == '=' else command[-1]}" in done.stderr
    assert "hint: name a file" in done.stderr
    assert "nothing-there" not in done.stderr
    assert (work / "file").read_text() == "of somebody"


@pytest.mark.parametrize("more", [(), ("--model-card",)], ids=("report", "model card"))
@pytest.mark.parametrize("place", ["shut", "shut/x", "file", "file/x"])
def test_a_folder_that_cannot_be_written_is_refused_first(work, more, place):
    done = docaudit("report", "new", *more, "--out", place)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: --out {place}: " in done.stderr
    assert "hint: name a folder" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["scan", "no-model", "no-data", "--out"],
        ["scan", "no-model", "no-data", "--evidence"],
        ["scan", "--no-model", "no-data", "--out"],
        ["scan", "--checkpoints", "no-model-*", "no-data", "--out"],
        ["defend", "dp", "no-model", "no-data", "--out"],
        ["references", "no-data", "no-model", "--train", "--out"],
        ["demo", "--out"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("place", ["shut", "file", "file/x"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_loaded(work, command, place):
    done = (
        docaudit(*command[:-1], f"{command[-1]}{place}")
        if command[-1][-1] == "="
        else docaudit(*command, place)
    )
    assert done.exit_code == 2
    assert f"error: {command[-1]} {place}: no file can be written there" in done.stderr
    assert "no-data" not in done.stderr
    assert (work / "file").read_text() == "of somebody"


def test_a_scan_leaves_a_strangers_reports_alone(work):
    (work / "mine").mkdir()
    for name in ("report.pdf", "trend.pdf"):
        (work / "mine" / name).write_text("mine")
    done = docaudit("scan", "no-model", "no-data", "--out", "mine")
    assert done.exit_code == 2
    assert "error: --out mine: holds report.pdf, trend.pdf" in done.stderr
    with pytest.raises(UsageError, match=r"holds report\.pdf"), claim_folder(work / "mine"):
        pass
    assert sorted(path.name for path in (work / "mine").iterdir()) == ["report.pdf", "trend.pdf"]


def test_a_link_in_place_of_evidence_is_not_followed(work):
    (work / "home").mkdir(mode=0o755)
    (work / "home" / "failure-of-mine.txt").write_text("mine")
    (work / "new" / "evidence").symlink_to(work / "home")
    done = docaudit("scan", "no-model", "no-data", "--out", "new")
    assert done.exit_code == 2
    assert "is a link to another folder" in done.stderr
    with pytest.raises(UsageError, match="is a link"), claim_folder(work / "new"):
        pass
    assert (work / "home").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (work / "home").iterdir()] == ["failure-of-mine.txt"]


@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.ENOSPC, "free some space"), (errno.EACCES, "choose a place that you can write to")],
)
def test_a_write_that_fails_all_the_same_hints_at_its_cause(tmp_path, monkeypatch, code, hint):
    def fails(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(EngineError) as raised:
        files.write_atomically(tmp_path / "x", b"content")
    assert raised.value.hint.startswith(hint)
    assert "--out" not in raised.value.hint


def test_a_report_beside_its_record_in_a_folder_that_cannot_be_written_asks_for_another_folder(
    work,
):
    records.write(examples.CASES["passed"]()[0], work / "shut" / "record.json")
    done = docaudit("report", "shut")
    assert done.exit_code == 2
    assert "error: shut: no file can be written there" in done.stderr
    assert "hint: name a folder that you can write into with --out" in done.stderr
