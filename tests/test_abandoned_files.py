"""What a killed process left half filled is removed by the next one, and never what another is filling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from audit.corpus.manifest import draft_of
from audit.errors import EngineError
from audit.files import mark_underway, remove_abandoned, write_atomically
from audit.references.recipes import made_once

FILLS = """
import sys, time
from pathlib import Path
from audit.corpus.manifest import draft_of
from audit.references.recipes import made_once
place = Path(sys.argv[1])
def fill(folder):
    (folder / "half").write_text("x")
    time.sleep(600)
if sys.argv[2] == "draft":
    with draft_of(place / "data", "import") as draft:
        fill(draft)
made_once(place / "model", fill)
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(params=["draft", "model"])
def filling(request, tmp_path):
    """A process that is filling a folder, and the function that fills it here."""
    process = subprocess.Popen([sys.executable, "-c", FILLS, str(tmp_path), request.param])
    while not [*tmp_path.glob("*/half")]:
        assert process.poll() is None
        time.sleep(0.02)

    def fill():
        if request.param == "model":
            made_once(tmp_path / "model", lambda folder: (folder / "whole").touch())
        else:
            with draft_of(tmp_path / "data", "import") as draft:
                (draft / "whole").touch()

    yield process, fill
    process.kill()
    process.wait()


def test_what_a_killed_process_left_goes_and_what_another_fills_stays(filling, tmp_path):
    process, fill = filling
    other = names(tmp_path)
    with suppress(EngineError):  # a draft has one name alone
        fill()
    assert other <= names(tmp_path), "it is being filled"
    process.send_signal(signal.SIGKILL)
    process.wait()
    for path in {*tmp_path.iterdir()} - {tmp_path / name for name in other}:
        (path / "whole").unlink()
        path.rmdir()
    fill()
    assert names(tmp_path) <= {"data", "model"}
    assert [path.name for path in tmp_path.glob("*/*")] == ["whole"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "record.json", b"{}")
    assert names(tmp_path) == set()


def test_a_file_takes_the_place_of_what_a_killed_write_left(tmp_path):
    (tmp_path / ".record.json.abc_1.tmp").write_text("{")
    (tmp_path / ".other.json.abc_1.tmp").write_text("{")
    write_atomically(tmp_path / "record.json", b"{}")
    assert names(tmp_path) == {"record.json", ".other.json.abc_1.tmp"}


def test_links_and_pipes_are_no_leftovers(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_abandoned([tmp_path / "link", tmp_path / "nothing"])
    assert names(tmp_path) == {"kept", "link"}
    with mark_underway(tmp_path / "kept"):
        remove_abandoned([tmp_path / "kept"])
    assert names(tmp_path) == {"kept", "link"}
    remove_abandoned([tmp_path / "kept"])
    assert names(tmp_path) == {"link"}
