"""Inputs that no one can read: pipes that nobody writes into, TOML nested deeply, numbers of thousands of digits."""

import json
import os
import shutil
import stat

import example_records as examples
import pytest
import tiny
from commands import docaudit
from strange_models import checkpoint

from audit import record as records
from audit.files import write_atomically

POLICY = 'name = "own"\n'
UNREADABLE = {
    "a number of thousands of digits": "x = " + "9" * 5000,
    "nested deeply": "x = " + "[" * 100_000 + "]" * 100_000,
}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A record, a data set, and a pipe that nobody writes into."""
    (tmp_path / "scan").mkdir()
    records.write(examples.CASES["passed"]()[0], tmp_path / "scan" / "record.json")
    tiny.corpus(tmp_path / "data")
    checkpoint(tmp_path / "model")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["gate", "scan", "--policy", "FILE"], id="policy"),
        pytest.param(
            ["scan", "model", "data", "--attack-parameters", "FILE"], id="attack parameters"
        ),
        pytest.param(["inspect", "data"], id="manifest"),
    ],
)
@pytest.mark.parametrize("kind", [*UNREADABLE, "a pipe"])
def test_what_cannot_be_read_as_toml_is_refused_at_once(work, command, kind):
    file = work / ("data/manifest.toml" if "FILE" not in command else "own.toml")
    file.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(file)
    else:
        file.write_text(UNREADABLE[kind])
    done = docaudit(*(file.name if word == "FILE" else word for word in command))
    assert done.exit_code == 2
    assert "error: " in done.stderr
    assert file.name in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["gate", "pipe"],
        ["gate", "scan", "--baseline", "pipe"],
        ["diff", "scan", "pipe"],
        ["report", "pipe"],
        ["verify", "scan", "--attestation", "pipe"],
        ["verify", "scan", "--pub", "pipe"],
        ["attest", "scan", "--key", "pipe"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_pipe_is_no_file_to_read(work, command):
    done = docaudit(*command)
    assert done.exit_code == 2
    assert "pipe" in done.stderr
    assert "not a regular file" in done.stderr


@pytest.mark.parametrize("size", [[10**400, 10**400], [10**309, 100], [10**7, 100]])
def test_a_page_has_a_size_that_can_be(work, size):
    path = work / "data/documents.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "size": size}), *others]) + "\n")
    done = docaudit("inspect", "data")
    assert done.exit_code == 2
    assert "documents.jsonl:1 size: " in done.stderr


@pytest.mark.parametrize(
    ("umask", "mode", "left"), [(0o022, 0o644, 0o644), (0o077, 0o644, 0o600), (0o022, 0o600, 0o600)]
)
def test_what_is_written_is_as_private_as_the_user_asks(tmp_path, umask, mode, left):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "file", b"content", mode)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == left


def test_secrets_of_canaries_are_for_their_owner_alone(work):
    data = shutil.copytree(work / "data", work / "own")
    done = docaudit("canary", "insert", str(data), str(work / "planted"), "--count", "4")
    assert done.exit_code == 0, done.stderr
    assert stat.S_IMODE((work / "planted/canaries.json").stat().st_mode) == 0o600
