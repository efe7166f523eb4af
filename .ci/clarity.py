"""Compare how dense the code is with `.ci/clarity.toml`: `python .ci/clarity.py [--lower | --worst N FOLDER]`.

A reader pays for decisions, names and nesting, and not for lines. So each folder has limits on what
folds thoughts together: branches inside expressions, nested comprehensions, parallel assignments,
ternaries, vague names, functions with many decisions or arguments. Lines, syntax nodes and modules
are printed and have no limit.

Ends with 1 where a number exceeds its limit. `--lower` lowers the limits to today's numbers and
raises none. `--worst N FOLDER` lists the N functions of a folder with the most decisions.
"""

from __future__ import annotations

import ast
import math
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_name("clarity.toml")
HEAD = """\
# Limits of density and size that the gate checks (`python .ci/clarity.py`). They only go down: lower them in the commit
# that earns it (`python .ci/clarity.py --lower`). Density.limited defines the numbers; `new folders` are our targets.
"""
MEASURED = ("audit", "tests", "benchmarks")
"""Folders whose own folders are measured, each by itself."""
MOST_DECISIONS = 10
"""Decisions of a function over which a reader loses them; those in expressions count."""
MOST_ARGUMENTS = 6
MOST_COLUMNS = 100
MOST_LINES = 600
"""Lines of a file, all of them."""
NODES_A_VALUE = 3
"""Syntax nodes that a value of a TOML file counts as: sentences and cases that moved there are
still to be read."""
VAGUE = frozenset(
    {
        "able",
        "asked",
        "begun",
        "done",
        "found",
        "given",
        "held",
        "kept",
        "known",
        "named",
        "one",
        "other",
        "others",
    }
    | {"own", "part", "read", "rest", "said", "shown", "taken", "told", "wanted", "whole"}
)
"""Names that say nothing about the value that they are bound to."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
STATEMENTS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
SHARED_OPTIONS = frozenset({"help", "help_all", "allow_network"})
"""Options of every command, or of every one that opens a model: they are no options of `docaudit
scan` alone."""


@dataclass(frozen=True)
class Function:
    """A function with what makes it hard to read; the place is `file:line name`."""

    decisions: int
    arguments: int
    place: str


@dataclass
class Density:
    """Count what a folder holds.

    Attributes:
        lines: code lines, without blanks, comments and docstrings.
        statements: decisions that are statements.
        expressions: decisions inside expressions.
        nested: comprehensions that hold another one, or that have two loops.
        parallel: assignments of several unrelated values at once.
        vague: bindings of a name of `VAGUE`.
        long_lines: lines over `MOST_COLUMNS`.
        long_files: files over `MOST_LINES`.
    """

    modules: int = 0
    lines: int = 0
    nodes: int = 0
    statements: int = 0
    expressions: int = 0
    nested: int = 0
    parallel: int = 0
    ternaries: int = 0
    bindings: int = 0
    vague: int = 0
    long_lines: int = 0
    long_files: int = 0
    functions: list[Function] = field(default_factory=list)

    def add(self, density: Density) -> None:
        """Add the counts of a file or folder to these."""
        for counted in fields(self):
            setattr(
                self, counted.name, getattr(self, counted.name) + getattr(density, counted.name)
            )

    def limited(self) -> dict[str, float]:
        """Return the numbers that have limits: percentages, counts per 1,000 code lines, counts of functions."""
        per_thousand = 1000 / max(1, self.lines)
        decisions = max(1, self.statements + self.expressions)
        complex_functions = [
            function for function in self.functions if function.decisions > MOST_DECISIONS
        ]
        wide_functions = [
            function for function in self.functions if function.arguments > MOST_ARGUMENTS
        ]
        return {
            "branches in expressions": 100 * self.expressions / decisions,
            "nested comprehensions": self.nested * per_thousand,
            "parallel assignments": self.parallel * per_thousand,
            "ternaries": self.ternaries * per_thousand,
            "vague names": 100 * self.vague / max(1, self.bindings),
            "functions over 10 decisions": len(complex_functions),
            "functions over 6 arguments": len(wide_functions),
            "lines over 100 columns": self.long_lines,
            "files over 600 lines": self.long_files,
        }


def count_code_lines(source: str, tree: ast.Module) -> int:
    """Count the lines of Python source that hold code."""
    lines = source.splitlines()
    texts = {number: line.strip() for number, line in enumerate(lines, 1)}
    numbers = {number for number, text in texts.items() if text and not text.startswith("#")}
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            numbers.difference_update(
                range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
            )
    return len(numbers)


class Branches(NamedTuple):
    """What lies in a node and below it.

    Attributes:
        statements: decisions that are statements.
        expressions: decisions inside expressions.
        comprehensions: comprehensions of any kind.
    """

    statements: int
    expressions: int
    comprehensions: int


def count_own_branches(node: ast.AST) -> Branches:
    """Count the decisions of a node itself."""
    if isinstance(node, STATEMENTS):
        return Branches(1, 0, 0)
    if isinstance(node, ast.IfExp):
        return Branches(0, 1, 0)
    if isinstance(node, ast.BoolOp):
        return Branches(0, len(node.values) - 1, 0)
    if isinstance(node, ast.comprehension):
        return Branches(0, 1 + len(node.ifs), 0)
    return Branches(0, 0, int(isinstance(node, COMPREHENSIONS)))


def is_parallel(node: ast.Assign) -> bool:
    """Test for `a, b = x, y` of unrelated values; a swap of the same names is none."""
    if not isinstance(node.value, ast.Tuple):
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or len(target.elts) != len(node.value.elts):
        return False
    names = {ast.dump(element).replace("Store", "Load") for element in target.elts}
    values = {ast.dump(element) for element in node.value.elts}
    return names != values


def measure_source(source: str, place: str) -> Density:
    """Measure one Python file.

    Args:
        source: its text.
        place: its path, for the places of its functions.
    """
    tree = ast.parse(source)
    density = Density(modules=1, lines=count_code_lines(source, tree))
    branches = measure_node(tree, density, place)
    density.statements = branches.statements
    density.expressions = branches.expressions
    lines = source.splitlines()
    density.long_lines = sum(len(line) > MOST_COLUMNS for line in lines)
    density.long_files = int(len(lines) > MOST_LINES)
    return density


def measure_node(node: ast.AST, density: Density, place: str) -> Branches:
    """Add a node and all below it to the counts, decisions excepted.

    Returns:
        The decisions and comprehensions of the node and below it.
    """
    statements, expressions, comprehensions = count_own_branches(node)
    for child in ast.iter_child_nodes(node):
        below = measure_node(child, density, place)
        statements += below.statements
        expressions += below.expressions
        comprehensions += below.comprehensions
    branches = Branches(statements, expressions, comprehensions)
    density.nodes += 1
    if isinstance(node, COMPREHENSIONS):
        density.nested += comprehensions > 1 or len(node.generators) > 1
    elif isinstance(node, ast.IfExp):
        density.ternaries += 1
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        density.bindings += 1
        density.vague += node.id in VAGUE
    elif isinstance(node, ast.Assign):
        density.parallel += is_parallel(node)
    elif isinstance(node, FUNCTIONS):
        density.functions.append(measure_function(node, branches, place))
    return branches


def measure_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, branches: Branches, place: str
) -> Function:
    """Measure one function: its decisions, 1 where there is none, and its arguments."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    decisions = 1 + branches.statements + branches.expressions
    return Function(decisions, len(arguments), f"{place}:{node.lineno} {node.name}")


def count_values(table: object) -> int:
    """Count the values of a TOML table, at any depth."""
    if isinstance(table, dict):
        return sum(count_values(value) for value in table.values())
    if isinstance(table, list):
        return sum(count_values(value) for value in table)
    return 1


def list_tracked(root: Path, folder: str, suffix: str) -> list[Path]:
    """List the files of a folder that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder]
    names = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [root / name for name in sorted({*names}) if name.endswith(suffix)]
    return [path for path in paths if path.exists()]


def measure_folders(root: Path) -> dict[str, Density]:
    """Measure each folder in the folders of `MEASURED`.

    Modules at their top count as a folder of the same name.
    """
    folders: dict[str, Density] = defaultdict(Density)
    for top in MEASURED:
        for path in list_tracked(root, top, ".py"):
            relative = path.relative_to(root)
            folders["/".join(relative.parts[:-1][:2])].add(
                measure_source(path.read_text("utf-8"), str(relative))
            )
        for path in list_tracked(root, top, ".toml"):
            relative = path.relative_to(root)
            n_values = count_values(tomllib.loads(path.read_text("utf-8")))
            folders["/".join(relative.parts[:-1][:2])].nodes += NODES_A_VALUE * n_values
    return dict(folders)


def measure_sizes(root: Path) -> dict[str, int]:
    """Count what a user has to learn: words of the docs, and options of `docaudit scan`."""
    n_words = sum(
        len(path.read_text("utf-8").split()) for path in list_tracked(root, "docs", ".md")
    )
    return {"docs words": n_words, "scan options": count_scan_options()}


def count_scan_options() -> int:
    """Count the options of `docaudit scan`, `SHARED_OPTIONS` excepted."""
    import typer.main

    from audit.cli import app

    command = typer.main.get_command(app)
    parameters = command.commands["scan"].params  # type: ignore[attr-defined]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    return sum(option.name not in SHARED_OPTIONS for option in options)


Table = dict[str, dict[str, float]]
"""By folder, the limit or value of each number; sizes are under `sizes`."""
NEW = "new folders"
"""The table with the limits of folders that have none of their own yet."""


def lower(limits: Table, values: Table) -> Table:
    """Return limits lowered to the values.

    A folder that has none gets the lower of its values and those of `NEW`.

    Values are rounded up to whole numbers, so that small changes of clear code need no new limit.
    """
    lowered: Table = {NEW: limits[NEW]}
    for folder, numbers in values.items():
        before = limits.get(folder, limits[NEW])
        lowered[folder] = {
            name: min(float(math.ceil(number)), before.get(name, math.inf))
            for name, number in numbers.items()
        }
    return lowered


def list_excesses(limits: Table, values: Table) -> Iterator[str]:
    """Yield each number above its limit, which is that of `NEW` for a folder without limits."""
    for folder, numbers in values.items():
        folder_limits = limits.get(folder, limits[NEW])
        for name, number in numbers.items():
            if number > folder_limits[name]:
                yield f"{folder}: {name} {number:.2f}, limit {folder_limits[name]:g}"


def render(limits: Table) -> str:
    """Write the file of limits."""
    lines = [HEAD]
    for folder, numbers in sorted(limits.items()):
        lines.append(f'["{folder}"]\n')
        lines.extend(f'"{name}" = {number:g}\n' for name, number in numbers.items())
        lines.append("\n")
    return "".join(lines).rstrip() + "\n"


def print_table(folders: dict[str, Density]) -> None:
    """Print a row for each folder, and one for each of `MEASURED` as a whole."""
    rows = dict(folders)
    for top in MEASURED:
        total = Density()
        for folder, density in folders.items():
            if folder.split("/")[0] == top:
                total.add(density)
        rows[f"{top} (all)"] = total
    print(
        f"{'':28}{'modules':>8}{'lines':>8}{'nodes':>9}  in expr. nested parallel ternary vague  >10  >6 >100 >600"
    )
    for folder, density in sorted(rows.items()):
        numbers = density.limited().values()
        cells = "".join(f"{number:8.1f}" for number in numbers)
        print(f"{folder:28}{density.modules:8,}{density.lines:8,}{density.nodes:9,}{cells}")


def print_worst(folder: str, n: int) -> None:
    """Print the functions of a folder that have the most decisions."""
    functions: list[Function] = []
    for path in list_tracked(ROOT, folder, ".py"):
        functions.extend(
            measure_source(path.read_text("utf-8"), str(path.relative_to(ROOT))).functions
        )
    for function in sorted(functions, key=lambda function: -function.decisions)[:n]:
        print(
            f"{function.decisions:4} decisions, {function.arguments:2} arguments  {function.place}"
        )


def main() -> None:
    """Print density and sizes; end with 1 above a limit."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--worst"]:
        print_worst(arguments[2], int(arguments[1]))
        return
    folders = measure_folders(ROOT)
    sizes = measure_sizes(ROOT)
    values: Table = {folder: density.limited() for folder, density in folders.items()}
    values["sizes"] = {name: float(size) for name, size in sizes.items()}
    limits: Table = tomllib.loads(LIMITS.read_text("utf-8"))
    if arguments == ["--lower"]:
        limits = lower(limits, values)
        LIMITS.write_text(render(limits), "utf-8")
    print_table(folders)
    for name, size in sizes.items():
        print(f"{name}: {size:,} of {limits['sizes'][name]:,.0f}")
    excesses = list(list_excesses(limits, values))
    if excesses:
        advice = "Unfold what you wrote or touched: one thought a line, decisions in statements"
        sys.exit("\n".join(["above the limits of .ci/clarity.toml:", *excesses, advice]))


if __name__ == "__main__":
    main()
