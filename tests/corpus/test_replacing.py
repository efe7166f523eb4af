"""A data set that a killed `--overwrite` had put aside comes back, or goes where the new one is complete."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from commands import docaudit
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.canaries.insertion import insert
from audit.corpus.replacing import aside_of, set_aside, settle
from audit.errors import EngineError, UsageError
from audit.files import mark_underway

MANIFEST = manifests.FILE_NAME
DOCUMENTS = "documents.jsonl"
State = Callable[[Path], None]


def pages(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (60, 40), 10 + number).save(root / name)
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return pages(tmp_path / "pages", "train/a.png", "test/b.png")


def init(source: Path, *options: object) -> int:
    return docaudit("init", source, "--task", "mlm", *options).exit_code


def hidden(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.endswith(".replaced.tmp")]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def put_aside(folder: Path) -> None:
    """Killed before the new data set was there."""
    folder.rename(aside_of(folder))


def emptied(folder: Path) -> None:
    """Killed likewise, and somebody made the folder again."""
    put_aside(folder)
    folder.mkdir()


def replaced(folder: Path) -> None:
    """Killed after the new data set was there, before the old one went."""
    shutil.copytree(folder, aside_of(folder))


LEFT: list[State] = [put_aside, emptied, replaced]


@pytest.mark.parametrize("state", LEFT)
@pytest.mark.parametrize("overwrite", [True, False])
def test_the_next_run_settles_what_a_killed_one_left(
    state: State, overwrite: bool, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert init(source, "--out", out) == 0
    before = contents(out)
    state(out)
    assert init(source, "--out", out, *(["--overwrite"] if overwrite else [])) == (
        0 if overwrite else 2
    )
    assert not hidden(tmp_path)
    assert contents(out).keys() == before.keys()
    assert contents(out)[DOCUMENTS] == before[DOCUMENTS]


@pytest.mark.parametrize("state", LEFT)
def test_a_run_that_fails_after_a_killed_one_leaves_the_old_data_set(
    state: State, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert init(source, "--out", out) == 0
    before = contents(out)
    state(out)
    (source / "test" / "c.png").write_text("no image")
    assert init(source, "--out", out, "--overwrite") == 2
    assert contents(out) == before
    assert not hidden(tmp_path)


def without_manifest(folder: Path) -> None:
    """Killed between the two files that are put aside."""
    (folder / MANIFEST).rename(aside_of(folder / MANIFEST))


def both_aside(folder: Path) -> None:
    without_manifest(folder)
    (folder / DOCUMENTS).rename(aside_of(folder / DOCUMENTS))


def half_written(folder: Path) -> None:
    """Killed when the new documents were there, and not their manifest."""
    both_aside(folder)
    (folder / DOCUMENTS).write_text("{}\n")


def both_written(folder: Path) -> None:
    both = {name: (folder / name).read_bytes() for name in (MANIFEST, DOCUMENTS)}
    both_aside(folder)
    for name, content in both.items():
        (folder / name).write_bytes(content)


def manifest_removed(folder: Path) -> None:
    """Killed between the removals of the two files."""
    both_written(folder)
    aside_of(folder / MANIFEST).unlink()


@pytest.mark.parametrize(
    "state", [without_manifest, both_aside, half_written, both_written, manifest_removed]
)
def test_files_beside_their_pages_are_settled_as_one(
    state: State, source: Path, tmp_path: Path
) -> None:
    assert init(source) == 0
    before = contents(source)
    state(source)
    assert init(source) == 2, "the data set is there again"
    assert contents(source) == before
    state(source)
    assert init(source, "--overwrite") == 0
    assert contents(source).keys() == before.keys()


def test_canaries_are_written_over_no_data_set_that_a_killed_run_hid(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert init(source, "--out", out) == 0
    before = contents(out)
    put_aside(out)
    corpus = manifests.load(tiny.corpus(tmp_path / "data", images=True))
    with pytest.raises(UsageError, match="is not empty"):
        insert(corpus, out, pattern="pin", count=2, repeat=1, length=4, seed=0)
    assert not hidden(tmp_path)
    assert contents(out) == before


def test_a_data_set_that_another_process_is_replacing_is_left_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    aside_of(folder).mkdir()
    with (
        mark_underway(aside_of(folder)),
        pytest.raises(EngineError, match="another command") as raised,
    ):
        settle([folder], folder / MANIFEST)
    assert raised.value.hint
    assert aside_of(folder).is_dir()


def test_what_somebody_else_put_there_since_is_kept_beside_the_old_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    aside_of(folder).mkdir()
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(EngineError, match="cannot be moved back"):
        settle([folder], folder / MANIFEST)
    assert aside_of(folder).is_dir()
    assert (folder / "mine.txt").exists()


def test_a_block_that_fails_gets_the_old_files_back(tmp_path: Path) -> None:
    places = [tmp_path / MANIFEST, tmp_path / DOCUMENTS]
    for place in places:
        place.write_text("old")

    def fails() -> None:
        with set_aside(places, places[0]):
            places[1].write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert [place.read_text() for place in places] == ["old", "old"]
    assert not hidden(tmp_path)
