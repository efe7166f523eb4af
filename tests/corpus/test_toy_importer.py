"""A format that is registered, and nothing else: the command line shows it, takes its options and refuses others."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Task, Word
from audit.importers.interface import ImportRequest, Source, SourceContents
from audit.importers.registry import FORMATS
from audit.importers.report import FieldTally

LINES = tuple(f"letter {number}" for number in range(10))


class Toy(Source):
    """A document for every line of `letters.txt`; every second line was kept out of training."""

    name = "toy"
    description = "letters.txt"
    tasks = ("mlm", "spade-linking", "question-answering")
    divisions = frozenset({"official"})
    lacks = "no boxes"

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        lines = (src / "letters.txt").read_text().splitlines()
        labels = ("O",) if request.task == "token-classification" else ()
        return SourceContents(
            Task(request.task, labels),
            {f"t{index}": partial(Document, words=tuple(map(Word, line.split()))) for index, line in enumerate(lines)},
            FieldTally(()),
            parts={f"t{index}": "validation" if index % 2 else "train" for index in range(len(lines))},
        )


class Intents(Toy):
    """The same with one task, and without parts."""

    name = "intents"
    tasks = ("mlm",)
    divisions = frozenset()
    holds = "letters"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (Toy(), Intents()):
        monkeypatch.setitem(FORMATS, source.name, source)


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
    assert "--official" in output, "it is told that the format has parts of its own"
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.name, corpus.manifest.task.kind, len(corpus.of("member"))) == ("toy", "mlm", 4)

    shares = ("--member", 1, "--public", 0, "--heldout", 1)
    output, code = docaudit("toy", src, tmp_path / "official", "--official", *shares)
    assert code == 0, output
    corpus = manifests.load(tmp_path / "official")
    assert corpus.manifest.membership.assigned == "official"
    assert {document.id for document in corpus.of("member")} == {f"t{place}" for place in range(0, 10, 2)}

    (tmp_path / "names").write_text("t3\n")
    output, code = docaudit("intents", src, tmp_path / "given", "--members", tmp_path / "names")
    assert code == 0, output
    assert [document.id for document in manifests.load(tmp_path / "given").of("member")] == ["t3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("toy", "--by-provider"),
            "toy names no providers: --by-provider is for sroie, pfl-docvqa and recognised formats",
        ),
        (("toy", "--task", "spade-extraction"), "TOY has no boxes for the task spade-extraction"),
        (("toy", "--task", "prayer"), "'prayer' is not one of"),
        (("toy", "--questions", "--task", "mlm"), "--questions is for sroie and toy, and in place of --task"),
        (("intents", "--questions"), "--questions is for sroie and toy, and in place of --task"),
        (("intents", "--task", "mlm"), "intents holds letters only"),
        (
            ("intents", "--official"),
            "intents has one part only: --official is for docvqa, pfl-docvqa, tab, snips, toy and recognised formats",
        ),
        (
            ("hearsay",),
            "'hearsay' is not one of 'sroie', 'funsd', 'docvqa', 'pfl-docvqa', 'tab', 'snips', 'forms', 'hf', ",
        ),
        (("toy", "--boxes", "shares"), "toy has columns and boxes of one meaning: --boxes is for recognised formats"),
    ],
)
def test_what_it_does_not_know_is_refused(arguments: tuple[str, ...], message: str, src: Path, tmp_path: Path) -> None:
    name, *options = arguments
    output, code = docaudit(name, src, tmp_path / "out", *options)
    assert code == 2
    assert message in output.replace("│ ", "").replace(" │", "")
    assert not (tmp_path / "out").exists()


def test_a_pipe_in_the_source_is_refused_at_once(src: Path, tmp_path: Path) -> None:
    (src / "below").mkdir()
    os.mkfifo(src / "below" / "letters.txt")
    output, code = docaudit("toy", src, tmp_path / "out", "--task", "mlm")
    assert (code, (tmp_path / "out").exists()) == (2, False)
    assert "letters.txt: not a regular file" in output


@pytest.mark.usefixtures("commands_made_anew")
def test_the_help_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "900")
    output, code = docaudit("--help")
    assert code == 0
    shown = " ".join(output.replace("│", " ").split())
    assert "toy (letters.txt); intents (letters.txt). Recognised formats" in shown
    for words in (
        "sroie, funsd, tab, toy, recognised formats: what",
        "sroie, toy: ask for",
        "docvqa, pfl-docvqa, tab, snips, toy, recognised formats: your model",
    ):
        assert words in shown


def test_a_division_it_has_nothing_for_is_refused_by_the_library_too(src: Path, tmp_path: Path) -> None:
    from audit.errors import UsageError
    from audit.importers.providers import ByProvider

    shares = {"member": 0.5, "heldout": 0.5}
    with pytest.raises(UsageError, match="toy names no providers"):
        Toy().convert(src, tmp_path / "out", shares, 0, ByProvider())
    with pytest.raises(UsageError, match="intents has one part only"):
        Intents().convert(src, tmp_path / "out", shares, 0, "official")
