"""How the house is built: short files, docstrings that begin with the thing, layers that the design page shows."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from audit.cli import app
from audit.files import FIX_OUT, FORGET_OUT, SCAN_OUT
from audit.report.revealed import PREVIEW

ROOT = Path(__file__).parents[2]
MOST_LINES = 600
VARIANTS = {
    "private training": (
        r"[Pp]rivate[ _]training|extensions\.private|\bDp[A-Z]|train_private",
        "extensions/private/",
    ),
    "countermeasures": (
        r"extensions\.countermeasures|[Ee]xtraction blocking|cap-providers|random-(before|after)",
        "extensions/countermeasures/",
    ),
    "Ray": (r"\b[Rr]ay\b", "extensions/ray/"),
}
"""By variant, a pattern of its names and the folder or module in `audit/` that it has to itself."""
MOST_NAMING = 3


def test_no_file_of_the_package_is_long() -> None:
    lines = {
        path: path.read_text(encoding="utf-8").count("\n")
        for path in (ROOT / "audit").rglob("*.py")
    }
    assert len(lines) > 100
    assert {str(path.relative_to(ROOT)): n for path, n in lines.items() if n > MOST_LINES} == {}


BINARIES = {
    "docs/pictures": (".png", ".pdf"),
    "sample_models": (".png", ".safetensors"),
    "templates/fonts": (".ttf",),
}
"""By folder, the kinds of binary files that belong there."""
AT_THE_ROOT = {
    ".dockerignore", ".gitignore", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "CHANGELOG.md",
    "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "README.md",
    "SECURITY.md", "action.yml", "constraints.txt", "mkdocs.yml", "pyproject.toml", "setup",
}  # fmt: skip


def list_tracked(*options: str) -> list[str]:
    """List what git prints about each tracked file, or skip the test where this is no work tree."""
    command = ["git", "ls-files", *options]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a work tree of git")
    return listing.stdout.splitlines()


def default_folders() -> Iterator[Path]:
    """Yield the folders that commands write into unless somebody names another."""
    yield PREVIEW
    commands = [typer.main.get_command(app)]
    while commands:
        command = commands.pop()
        commands += vars(command).get("commands", {}).values()
        for parameter in command.params:
            folder = parameter.default
            if isinstance(folder, Path) and folder != Path():
                yield folder


def test_git_leaves_out_whatever_a_command_writes_of_itself() -> None:
    folders = {str(folder) for folder in default_folders()}
    assert {SCAN_OUT, FORGET_OUT, FIX_OUT, "docaudit-demo", "references"} <= folders
    list_tracked()
    names = sorted(f"{folder}/record.json" for folder in folders)
    listing = subprocess.run(
        ["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert listing.stdout.splitlines() == names


def test_binary_files_lie_only_where_their_kind_belongs() -> None:
    rows = [row.split("\t") for row in list_tracked("--eol")]
    binaries = [Path(path) for attributes, path in rows if attributes.startswith("i/-text")]
    assert len(binaries) > 100
    strays = []
    for path in binaries:
        allowed = [kinds for folder, kinds in BINARIES.items() if path.is_relative_to(folder)]
        if not allowed or path.suffix not in allowed[0]:
            strays.append(str(path))
    assert strays == []


def test_no_stray_file_lies_at_the_root() -> None:
    assert {path for path in list_tracked() if "/" not in path} == AT_THE_ROOT


WITHOUT_A_ROOM = {
    "benchmarks": "of the folder of that name",
    "countermeasures": "of several parts of audit/extensions",
    "docaudit": "of the package of that name",
    "fakes": "no tests, but what they are made of",
    "hostile": "of all that reads what strangers made",
    "matrix": "of every kind of model",
    "pipelines": "of what runs in somebody's CI",
    "repository": "of the repository itself",
    "samples": "of sample_models",
    "training": "of audit/references and what extensions train",
}
"""By folder of tests that no folder of the package has the name of, what its tests are of."""


def test_folders_of_tests_are_those_of_the_package_or_say_what_they_are_of() -> None:
    rooms = {path.name for path in (ROOT / "audit").iterdir() if path.is_dir()}
    tests = [Path(path).parts[1:] for path in list_tracked("tests")]
    folders = {parts[0] for parts in tests if len(parts) > 1}
    assert folders - rooms == WITHOUT_A_ROOM.keys()


def test_tests_beside_the_folders_are_of_modules_beside_the_rooms() -> None:
    modules = {f"tests/test_{path.name}" for path in (ROOT / "audit").glob("*.py")}
    assert {*list_tracked(":(glob)tests/test_*.py")} <= modules


def test_public_docstrings_begin_with_an_imperative_or_the_thing_itself() -> None:
    said = [
        text
        for path in (ROOT / "audit").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and (text := ast.get_docstring(node))
    ]
    assert len(said) > 1000
    indirect = [
        text for text in said if re.match(r"(what|how|whether|where|who)\b", text, re.IGNORECASE)
    ]
    assert len(indirect) / len(said) < 0.02


def test_the_page_on_architecture_shows_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (checked,) = (one["layers"] for one in contracts if one.get("containers") == ["audit"])
    rows = re.findall(
        r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, _ in rows] == [*range(1, len(checked) + 1)]
    shown = [set(re.findall(r"`(\w+)`", modules)) for _, modules in rows]
    assert shown == [set(layer.split(" | ")) for layer in checked]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_named_in_few_modules_outside_its_own(variant: str) -> None:
    pattern, own = VARIANTS[variant]
    modules = {
        str(path.relative_to(ROOT / "audit")): path for path in (ROOT / "audit").rglob("*.py")
    }
    naming = [
        name
        for name, path in modules.items()
        if re.search(pattern, path.read_text(encoding="utf-8"))
    ]
    assert any(name.startswith(own) for name in naming)
    assert len([name for name in naming if not name.startswith(own)]) <= MOST_NAMING, naming


def test_the_walk_of_a_value_names_at_most_twelve_modules_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = page.partition("## The way of a value")[2].partition("\n## ")[0]
    modules = re.findall(r"^\d+\. `(audit/[\w/]+\.py)`", walk, re.MULTILINE)
    assert 5 < len(modules) == len({*modules}) <= 12
    assert [module for module in modules if not (ROOT / module).exists()] == []


def test_one_scan_needs_at_most_45_nouns() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Nouns")[2].partition("## Folders")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    words = ",".join(row.split("|")[2] for row in rows[1:])
    nouns = [noun.strip() for noun in words.split(",")]
    assert 30 < len(set(nouns)) == len(nouns) <= 45
