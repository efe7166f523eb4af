"""The options of `docaudit import`: those that a format takes are in its help, others are refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.errors import UsageError
from audit.importers.registry import FORMATS
from audit.workflows.init import read_labels


def docaudit(*arguments: object) -> tuple[str, int]:
    result = CliRunner().invoke(app, ["import", *map(str, arguments)], terminal_width=1000)
    return " ".join(result.output.split()), result.exit_code


def test_the_help_names_every_format_and_only_the_options_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "3000")
    output, code = docaudit("--help")
    assert code == 0
    assert all(importer.description in output for importer in FORMATS.values())
    for name, importer in FORMATS.items():
        shown = docaudit(name, "--help-all")[0]
        takes = {
            "--official": importer.parts,
            "--by-provider": importer.providers,
            "--boxes": importer.recognises,
        }
        takes |= {
            "--task": len(importer.tasks) > 1,
            "--labels": importer.recognises,
            "--members": True,
        }
        for option, taken in takes.items():
            assert (f" {option} " in shown) == taken, (name, option)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["docvqa", "--by-provider"], "No such option: --by-provider"),
        (["funsd", "--official"], "No such option: --official"),
        (["funsd", "--labels", "A,B"], "No such option: --labels"),
        (["funsd", "--task", "spade-linked"], "'spade-linked' is not one of"),
        (["funsd", "--task", "parsing"], "funsd cannot teach the task parsing"),
        (["hearsay"], "no format 'hearsay'; give one of alto"),
    ],
)
def test_other_options_are_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    name, *options = arguments
    source = tmp_path / "source"
    source.mkdir()
    output, code = docaudit(name, source, tmp_path / "out", *options)
    assert code == 2
    assert message in output.replace("│ ", "").replace(" │", "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [None, "{}", "[", '{"id2label": {"x": "y"}}'])
def test_labels_that_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(UsageError, match="no labels can be read there"):
        read_labels(str(tmp_path))


def test_labels_by_name_and_by_line(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("O\n B-A \n\n")
    assert read_labels("O, B-A") == read_labels(str(tmp_path / "labels.txt")) == ("O", "B-A")
