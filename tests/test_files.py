"""What a killed process left half filled is removed by the next one, and never what another is filling."""

import multiprocessing
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from audit.corpus.manifest import draft_of
from audit.errors import EngineError
from audit.files import mark_underway, remove_abandoned, write_atomically
from audit.references.recipes import made_once


def fill_for_ever(place: Path, what: str) -> None:
    def half(folder: Path) -> None:
        (folder / "half").write_text("x")
        time.sleep(600)

    if what == "draft":
        with draft_of(place / "data", "import") as draft:
            half(draft)
    made_once(place / "model", half)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(params=["draft", "model"])
def filling(request, tmp_path):
    """A process that is filling a folder, and the function that fills it here."""
    process = multiprocessing.get_context("fork").Process(
        target=fill_for_ever, args=(tmp_path, request.param)
    )
    process.start()
    while not [*tmp_path.glob("*/half")]:
        assert process.is_alive()
        time.sleep(0.02)

    def fill():
        if request.param == "model":
            made_once(tmp_path / "model", lambda folder: (folder / "whole").touch())
        else:
            with draft_of(tmp_path / "data", "import") as draft:
                (draft / "whole").touch()

    yield process, fill
    process.kill()
    process.join()


def test_what_a_killed_process_left_goes_and_what_another_fills_stays(filling, tmp_path):
    process, fill = filling
    other = names(tmp_path)
    with suppress(EngineError):  # a draft has one name alone
        fill()
    assert other <= names(tmp_path), "it is being filled"
    process.kill()
    process.join()
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
