"""A format that is registered, and nothing else: the command line shows it, takes its options and refuses others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus import manifest as manifests
from audit.corpus.documents import Split, Word
from audit.errors import UsageError
from audit.importers.divide import ByProvider
from audit.importers.interface import Importer
from audit.importers.pages import Page
from audit.importers.registry import FORMATS
from audit.importers.source import Source

OWN = ("toy", "whole")
LINES = tuple(f"letter {number}" for number in range(10))


class Toy(Importer):
    """A document for every line of `letters.txt`; every second line was kept out of training."""

    name = "toy"
    description = "letters.txt"
    tasks = ("mlm", "spade-linking")
    providers = recognises = False

    def pages(self, source: Source) -> Iterator[Page]:
        for number, line in enumerate(source.at("letters.txt").read_text().splitlines()):
            words = [*map(Word, line.split())]
            yield Page(f"t{number}", words=words, part="validation" if number % 2 else "train")


class Whole(Toy):
    """The same without parts."""

    name = "whole"
    parts = False


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for importer in (Toy(), Whole()):
        monkeypatch.setitem(FORMATS, importer.name, importer)


@pytest.fixture
def src(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "letters.txt").write_text("\n".join(LINES))
    return tmp_path / "src"


def docaudit(*arguments: object) -> tuple[str, int]:
    result = CliRunner().invoke(app, ["import", *map(str, arguments)], terminal_width=1000)
    return " ".join(result.output.split()), result.exit_code


def test_its_options_are_taken(src: Path, tmp_path: Path) -> None:
    output, code = docaudit("toy", src, tmp_path / "out", "--task", "mlm")
    assert code == 0, output
    assert "--official" in output, "the owner learns that the format has parts of its own"
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.name, corpus.manifest.task.kind, len(corpus.of("member"))) == ("toy", "mlm", 4)

    shares = ("--member", 1, "--public", 0, "--heldout", 1)
    output, code = docaudit("toy", src, tmp_path / "official", "--official", *shares)
    assert code == 0, output
    corpus = manifests.load(tmp_path / "official")
    assert corpus.manifest.membership.assigned == "official"
    assert {document.id for document in corpus.of("member")} == {f"t{place}" for place in range(0, 10, 2)}

    (tmp_path / "names").write_text("t3\n")
    output, code = docaudit("whole", src, tmp_path / "given", "--members", tmp_path / "names")
    assert code == 0, output
    assert [document.id for document in manifests.load(tmp_path / "given").of("member")] == ["t3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toy", "--by-provider"), "toy takes no --by-provider"),
        (("toy", "--task", "spade-extraction"), "toy cannot teach the task spade-extraction"),
        (("toy", "--task", "prayer"), "no task is called 'prayer'"),
        (("whole", "--official"), "whole takes no --official"),
        (("hearsay",), "no format is called 'hearsay'"),
        (("toy", "--boxes", "shares", "--labels", "A,B"), "toy takes no --labels or --boxes"),
    ],
)
def test_other_options_are_refused(arguments: tuple[str, ...], message: str, src: Path, tmp_path: Path) -> None:
    name, *options = arguments
    output, code = docaudit(name, src, tmp_path / "out", *options)
    assert code == 2
    assert message in output.replace("│ ", "").replace(" │", "")
    assert not (tmp_path / "out").exists()


def test_a_division_it_has_nothing_for_is_refused_by_the_library_too(src: Path, tmp_path: Path) -> None:
    shares: dict[Split, float] = {"member": 0.5, "heldout": 0.5}
    with pytest.raises(UsageError, match="toy names no providers"):
        Toy().convert(src, tmp_path / "out", shares, 0, ByProvider())
    with pytest.raises(UsageError, match="whole has one part only"):
        Whole().convert(src, tmp_path / "out", shares, 0, "official")


def test_the_help_names_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "3000")
    output, code = docaudit("--help")
    assert code == 0
    shown = " ".join(output.replace("│", " ").split())
    assert all(f"{name} ({importer.description})" in shown for name, importer in FORMATS.items() if name not in OWN)
