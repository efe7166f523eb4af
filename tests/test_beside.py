"""No command that docaudit prints writes over a result that lies on the machine."""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from audit.beside import FOLDERS, next_folder, with_new_folder, write_beside
from audit.cli import app, console
from audit.errors import UsageError
from audit.files import DEFENCE_OUT, EXPORT_OUT, FIX_OUT, FORGET_OUT, SCAN_OUT
from audit.record import BEFORE

AUDIT = Path(__file__).parents[1] / "audit"
MENTION = re.compile(rf"docaudit (?:{'|'.join(FOLDERS)})\b")


def write_result(folder: Path, *, seed: int = 0, share: float = 0.5) -> None:
    """Write what stands for the record of a scan."""
    folder.mkdir(parents=True, exist_ok=True)
    scanned = {"target": {"sha256": "a"}, "corpus": {"sha256": "b"}, "budget": "quick"}
    (folder / "record.json").write_text(json.dumps(scanned | {"seed": seed, "share": share}))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of results in the working folder: every default one."""
    monkeypatch.chdir(tmp_path)
    folders = [Path(name) for name in (SCAN_OUT, FORGET_OUT, EXPORT_OUT, DEFENCE_OUT)]
    for folder in folders:
        write_result(folder)
    write_result(Path(FIX_OUT, BEFORE), seed=1)
    return [*folders, Path(FIX_OUT)]


def out_of(line: str) -> Path:
    """Return the folder that a printed command writes into, as the command line reads it."""
    _, name, *words = shlex.split(line)
    command = vars(typer.main.get_command(app))["commands"][name]
    context = command.make_context(name, words)
    if context.params.get("derived_from") and "--out" not in words:
        return Path(EXPORT_OUT)
    return Path(context.params["out"])


def strings_in(value: Any) -> Iterator[str]:
    """Yield the strings of a value of a TOML file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings_in([*value.values()])
    elif isinstance(value, list):
        for child in value:
            yield from strings_in(child)


def written_out(node: ast.AST) -> str:
    """Return a string of the source, with a name in place of each value put in; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(written_out(value) or "NAME" for value in node.values)
    return ""


def strings_of(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        text = written_out(node)
        if text:
            yield text
        elif not (isinstance(node, ast.Expr) and written_out(node.value)):
            waiting += ast.iter_child_nodes(node)


def printed_texts() -> list[str]:
    """List the texts of the package that name a command which writes a result."""
    texts: list[str] = []
    for path in sorted(AUDIT.rglob("*.toml")):
        texts += strings_in(tomllib.loads(path.read_text(encoding="utf-8")))
    for path in sorted(AUDIT.rglob("*.py")):
        texts += strings_of(path)
    return [text for text in texts if MENTION.search(text)]


def commands_in(text: str) -> list[str]:
    """Return the commands of a text, from their name to the end of the clause."""
    clauses = re.findall(rf"{MENTION.pattern}(?:[^,;:()\n]|:(?=\S))*", text)
    return [clause.strip() for clause in clauses if not MENTION.fullmatch(clause.strip(" ."))]


PRINTED = printed_texts()


def test_texts_that_name_commands_are_listed() -> None:
    assert len(PRINTED) > 30


@pytest.mark.parametrize("text", PRINTED)
def test_each_command_of_a_text_writes_where_no_result_lies(text: str, results: list[Path]) -> None:
    for command in commands_in(write_beside(text)):
        if "--help" not in command:
            assert out_of(command) not in results


@pytest.mark.parametrize("text", PRINTED)
def test_a_text_stays_as_it_is_where_no_result_lies(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_beside(text) == text


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("docaudit scan m d", "docaudit scan m d --out docaudit-report-2"),
        ("docaudit scan m d --out new", "docaudit scan m d --out new"),
        (
            "docaudit scan 'my model' d --out docaudit-report --seed 1",
            "docaudit scan 'my model' d --out docaudit-report-2 --seed 1",
        ),
        (
            "docaudit scan m d --evidence kept",
            "docaudit scan m d --evidence kept-2 --out docaudit-report-2",
        ),
        ("see docaudit scan m d.", "see docaudit scan m d --out docaudit-report-2."),
        (
            "docaudit scan m d --derived-from docaudit-report",
            "docaudit scan m d --derived-from docaudit-report --out docaudit-export-2",
        ),
        (
            "docaudit forget-check m d --ids a,b.txt, then read",
            "docaudit forget-check m d --ids a,b.txt --out docaudit-forget-2, then read",
        ),
        ("docaudit gate docaudit-report", "docaudit gate docaudit-report"),
    ],
)
def test_a_command_gets_a_folder_beside_the_result(
    command: str, printed: str, results: list[Path]
) -> None:
    assert write_beside(command) == printed


def test_an_unfinished_scan_goes_on_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(SCAN_OUT, "evidence").mkdir(parents=True)
    assert write_beside("docaudit scan m d") == "docaudit scan m d"


@pytest.mark.parametrize(
    ("folder", "following"),
    [("report", "report-2"), ("a/report-2", "a/report-3"), ("run-2026", "run-2026-2")],
)
def test_the_next_folder_counts_on(
    folder: str, following: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert next_folder(folder) == following
    Path(following).mkdir(parents=True)
    assert next_folder(folder) not in (folder, following)


def test_a_scan_in_the_working_folder_gets_a_folder_in_it() -> None:
    assert next_folder(".") == "docaudit-report-2"


@pytest.mark.parametrize(
    ("scan", "words", "out"),
    [
        (0, "--try dp", " --out docaudit-fix-2"),
        (1, "--try dp", ""),
        (0, "--confirm dp:1", ""),
    ],
)
def test_countermeasures_join_those_of_the_same_scan_alone(
    scan: int, words: str, out: str, results: list[Path]
) -> None:
    write_result(Path("scanned"), seed=scan)
    command = f"docaudit fix scanned {words}"
    assert write_beside(command) == f"{command}{out}"


def test_countermeasures_of_another_part_of_the_trials_are_of_another_scan(
    results: list[Path],
) -> None:
    write_result(Path("scanned"), seed=1, share=0.25)
    assert write_beside("docaudit fix scanned") == "docaudit fix scanned --out docaudit-fix-2"


def test_each_scan_of_a_text_is_told_its_folder() -> None:
    text = (
        "docaudit scan MODEL_DIR DATA_DIR, with its folder as MODEL_DIR, or docaudit fix SCAN_DIR"
    )
    assert with_new_folder(text, "new one") == (
        "docaudit scan MODEL_DIR DATA_DIR --out 'new one', with its folder as MODEL_DIR, "
        "or docaudit fix SCAN_DIR"
    )


def test_lines_commands_and_hints_of_a_terminal_name_another_folder(
    results: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command = "docaudit scan m d"
    console.say(f"references made: {command}")
    console.show_commands("Next:", [command])
    console.note(command)
    console.warn(f"warning: {command}")
    console.show_error(UsageError("wrong", command))
    printed = "".join(capsys.readouterr())
    assert printed.count(command) == 5
    assert printed.count(f"{command} --out docaudit-report-2") == 5
