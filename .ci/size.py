"""Count the code and compare it with `.ci/size.toml`: `python .ci/size.py [--lower]`.

Code lines have no blanks, comments or docstrings. Ends with 1 where a number exceeds its limit. `--lower` lowers the
limits to today's numbers, or to the goal where less is used. A limit is raised by hand, with a reason in the commit
message.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_name("size.toml")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SHARED = {"help", "allow_network"}
"""Options of every command, or of every one that opens a model: they are no options of `docaudit scan` alone."""
CORE = "core"
"""The folder under which `audit/engine` and the modules at the top are counted."""


def code_lines(source: str) -> int:
    """Count the lines of Python source that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def tracked(root: Path, folder: str, suffix: str) -> list[Path]:
    """List the files of a folder that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in sorted({*names}) if name.endswith(suffix) and (root / name).exists()]


def measure(root: Path) -> dict[str, int]:
    """Count everything that has a limit, by the name of the limit."""
    sizes: Counter[str] = Counter()
    for path in tracked(root, "audit", ".py"):
        folder = path.relative_to(root / "audit").parts[0]
        folder = CORE if folder.endswith(".py") or folder == "engine" else folder
        sizes[f"audit/{folder}"] += (lines := code_lines(path.read_text(encoding="utf-8")))
        sizes["audit"] += lines
        sizes["modules"] += 1
    sizes["docaudit"] = sum(code_lines(path.read_text(encoding="utf-8")) for path in tracked(root, "docaudit", ".py"))
    sizes["tests"] = sum(code_lines(path.read_text(encoding="utf-8")) for path in tracked(root, "tests", ".py"))
    sizes["docs words"] = sum(len(path.read_text(encoding="utf-8").split()) for path in tracked(root, "docs", ".md"))
    sizes["scan options"] = scan_options()
    return dict(sizes)


def scan_options() -> int:
    """Count the options of `docaudit scan`, `SHARED` excepted."""
    import typer.main

    from audit.cli import app

    command = typer.main.get_command(app)
    parameters = command.commands["scan"].params  # type: ignore[attr-defined]
    return sum(parameter.param_type_name == "option" and parameter.name not in SHARED for parameter in parameters)


def main() -> None:
    """Print the table of sizes, limits and goals; end with 1 above a limit."""
    table = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    sizes, limits, goals = measure(ROOT), table["limits"], table["goals"]
    if "--lower" in sys.argv[1:]:
        limits = {name: min(limit, max(sizes.get(name, 0), goals.get(name, 0))) for name, limit in limits.items()}
        limits = {name: limit for name, limit in limits.items() if limit}
        LIMITS.write_text(render(limits, goals), encoding="utf-8")
    print(f"{'':20}{'size':>8}{'limit':>8}{'goal':>8}")
    for name, size in sorted(sizes.items()):
        print(f"{name:20}{size:8,}{limits.get(name, 0):8,}{goals.get(name, 0):8,}")
    above = [name for name, size in sizes.items() if size > limits.get(name, 0)]
    if above:
        sys.exit(f"above the limit of .ci/size.toml: {', '.join(sorted(above))}; delete code, or say why it grows")


def render(limits: dict[str, int], goals: dict[str, int]) -> str:
    """Write the file of limits and goals."""
    head = LIMITS.read_text(encoding="utf-8").partition("[limits]")[0]
    tables = {"limits": limits, "goals": goals}
    lines = ([f"[{title}]", *(f'"{name}" = {n}' for name, n in sorted(tables[title].items())), ""] for title in tables)
    return head + "\n".join(line for table in lines for line in table).rstrip() + "\n"


if __name__ == "__main__":
    main()
