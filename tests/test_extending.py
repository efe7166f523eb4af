"""`docs/extending.md` followed to the letter, in a copy of the package: what it adds is there for every command."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from answering_checkpoints import make_donut
from asked_pages import corpus as asked_corpus

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# (?P<path>[\w/]+\.py)(?:, in (?P<table>\w+))?\n(?P<code>.*?)```", re.S)
FUTURE = "from __future__ import annotations\n"
PROGRAM = """
import json
import sys

from typer.testing import CliRunner
import audit.report.files
from audit.cli import app

audit.report.files.pdf = lambda *_: b"%PDF-1.7"
results = {}
for name, command in json.load(sys.stdin).items():
    result = CliRunner().invoke(app, command, catch_exceptions=False, terminal_width=1000)
    results[name] = [result.exit_code, result.output]
print(json.dumps({"package": audit.__file__, "results": results}))
"""
POLICY = """schema = 1
name = "mine"
[[limits]]
attack = "loss_gap"
metric = "auc"
max = 0.95
rationale = "made up"
"""


def with_entry(text: str, table: str, entry: str) -> str:
    """A module's text with one entry more at the end of its table: a tuple, a dictionary, or made of a tuple."""
    (value,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == table
    )
    assert value is not None
    shown = next(node for node in ast.walk(value) if isinstance(node, ast.Tuple | ast.Dict))
    last = (shown.elts if isinstance(shown, ast.Tuple) else shown.values)[-1]
    lines = text.splitlines(keepends=True)
    end = sum(map(len, lines[: last.end_lineno - 1])) + len(lines[last.end_lineno - 1].encode()[: last.end_col_offset])
    return f"{text[:end]},\n{entry.strip()},\n{text[end:].removeprefix(',')}"


def follow(page: str, folder: Path) -> list[str]:
    """Do what the page says, in a copy of the package; gives the files that were written or changed."""
    done = []
    for match in BLOCK.finditer(page):
        path, code = folder / match["path"], match["code"]
        if match["table"] is None:
            assert not path.exists(), f"{path} is there already"
            path.write_text(code)
        else:
            imported = "".join(line for line in code.splitlines(keepends=True) if line.startswith("from "))
            text = with_entry(path.read_text(), match["table"], code.removeprefix(imported))
            path.write_text(text.replace(FUTURE, f"{FUTURE}{imported}", 1))
        done.append(match["path"])
    return done


def make_coarse_layoutlm(folder: Path) -> Path:
    """A tiny tagger of a family that docaudit does not ship: LayoutLM's weights under another name."""
    tiny.checkpoint(folder, "layoutlm", "token-classification")
    path = folder / "config.json"
    named = {"model_type": "coarse-layoutlm", "architectures": ["CoarseLayoutLMForTokenClassification"]}
    path.write_text(json.dumps({**json.loads(path.read_text()), **named}))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with what the page adds, and what its commands work on."""
    made = tmp_path_factory.mktemp("extended")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("audit", "templates", "policies"):
        shutil.copytree(ROOT / name, made / name, ignore=ignored)
    done = follow((ROOT / "docs" / "extending.md").read_text(), made)
    assert len(done) == 8, done
    tiny.corpus(made / "receipts")
    make_coarse_layoutlm(made / "coarse")
    make_donut(made / "donut", 0)
    asked_corpus(made / "questions", members=6, heldout=4, public=4)
    (made / "letters").mkdir()
    (made / "letters" / "letters.txt").write_text("".join(f"letter {number}\n" for number in range(10)))
    (made / "mine.toml").write_text(POLICY)
    (made / "few_steps.toml").write_text("[membership]\nmax_steps = 5\n")
    return made


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, tuple[int, str]]:
    """Exit code and output of every command, by name."""
    receipts, coarse = folder / "receipts", folder / "coarse"
    policy = ("--policy", folder / "mine.toml")
    commands = {
        "plan": ("plan", receipts, *policy),
        "scan": ("scan", coarse, receipts, "--out", folder / "scan", *policy, "--only", "loss_gap"),
        "gate": ("gate", folder / "scan", *policy),
        "import": ("import", "lines", folder / "letters", folder / "imported"),
        "inspect": ("inspect", folder / "imported"),
        "behind": (
            *("scan", folder / "donut", folder / "questions", "--out", folder / "behind"),
            *("--defense", "capitals", "--only", "membership", "--attack-parameters", folder / "few_steps.toml"),
        ),
        "defend": ("defend", "--help"),
    }
    program = json.dumps({name: [str(part) for part in command] for name, command in commands.items()})
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "1000"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=program, capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert Path(printed["package"]).is_relative_to(folder)
    return {name: (code, " ".join(output.split())) for name, (code, output) in printed["results"].items()}


def test_the_attack_is_planned_run_and_gated_on_the_new_family(
    outputs: dict[str, tuple[int, str]], folder: Path
) -> None:
    assert "loss_gap" in outputs["plan"][1]
    record = json.loads((folder / "scan" / "record.json").read_text())
    assert record["target"]["family"] == "LayoutLM with coarse boxes"
    (result,) = record["attacks"]
    assert (result["attack"], result["status"], result["parameters"]) == ("loss_gap", "completed", {"least_words": 1})
    assert [one["name"] for one in result["measurements"]] == ["auc", "blind_auc"]
    assert outputs["scan"][0] == outputs["gate"][0] in (0, 10, 11)
    assert "loss_gap auc" in outputs["gate"][1]


def test_the_format_is_imported(outputs: dict[str, tuple[int, str]]) -> None:
    assert outputs["import"][0] == 0, outputs["import"][1]
    assert outputs["inspect"][0] == 0, outputs["inspect"][1]


def test_the_countermeasure_is_taken_by_scan_and_defend(outputs: dict[str, tuple[int, str]], folder: Path) -> None:
    record = json.loads((folder / "behind" / "record.json").read_text())
    assert "capitals" in " ".join(record["derived_by"])
    assert "capitals" in outputs["defend"][1]
