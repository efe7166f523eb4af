"""Sentences decide nothing: editing English changes no verdict, no remedy and no exit code."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.policy import demands, findings, remedies, rules
from audit.policy.grounds import Ground, Remedy
from audit.policy.reasons import REMEDIES, SENTENCES, WRITERS

ROOT = Path(__file__).parents[2] / "audit"
SHORTENING = {"cli/console/verdict.py", "report/answer.py", "report/tables.py"}
"""Modules that shorten a sentence of a verdict to fit a page, which decides nothing."""
SENTENCE_NAMES = frozenset(
    {"closed", "confounded", "counted", "fix", "reason", "remedy", "sentence", "text_reason", "why"}
)
"""Attributes that hold a sentence."""
METHODS = frozenset(
    {
        "count",
        "endswith",
        "find",
        "index",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rpartition",
        "rsplit",
        "split",
        "startswith",
    }
)
"""Methods that look into a text, or take it apart."""
SPACING = {"report/sentences.py"}
"""Modules that put other spaces into a sentence."""
ROOMS = ("compare", "policy", "report")
"""Rooms that read verdicts: there no variable of these names is looked into or compared either."""
DECIDING = {"demands": demands, "findings": findings, "remedies": remedies, "rules": rules}
"""Modules that decide limits."""
OF_BASELINE = {Ground.LOST, Ground.WORSE}
"""Grounds whose sentence is that of the comparison with a baseline."""
IN_WORDS = {Remedy.ALL, Remedy.OF_ATTACK, Remedy.OF_RECORD, Remedy.OTHER_ATTACK}
"""Remedies in words that depend on the record."""


def is_sentence(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr in SENTENCE_NAMES


def looks_into_a_sentence(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return is_sentence(text)
        case ast.Call(func=ast.Name()):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[_, text, *_]):
            return is_sentence(text)
        case ast.Call(func=ast.Attribute(value=text, attr=method)):
            if method in METHODS:
                return is_sentence(text)
    return False


def lines_that_look(source: str) -> list[int]:
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in filter(looks_into_a_sentence, nodes)]


def is_named_as_a_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in SENTENCE_NAMES
    return is_sentence(node)


def turns_on_a_sentence(node: ast.AST) -> bool:
    """Tell whether an expression compares a sentence, or looks into a variable that holds one."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return is_named_as_a_sentence(left) or is_named_as_a_sentence(right)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return is_named_as_a_sentence(left) or is_named_as_a_sentence(right)
        case ast.Call(func=ast.Attribute(value=ast.Name() as text, attr=method)):
            return method in METHODS and is_named_as_a_sentence(text)
    return False


def lines_that_turn(source: str) -> list[int]:
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in filter(turns_on_a_sentence, nodes)]


@pytest.mark.parametrize(
    ("source", "turns"),
    [
        pytest.param("decision.remedy in (MORE, ALL)", True, id="one of several sentences"),
        pytest.param("decision.remedy == AGAIN", True, id="one sentence"),
        pytest.param("check.reason == result.confounded", True, id="the same sentence"),
        pytest.param("remedy.endswith(MORE)", True, id="the end of a variable"),
        pytest.param("reason.startswith(attack)", True, id="the beginning of a variable"),
        pytest.param("decision.remedy_id is Remedy.MORE", False, id="the name of a remedy"),
        pytest.param("result.reason is None", False, id="whether there is one"),
    ],
)
def test_what_turns_on_a_sentence_is_found(source: str, turns: bool) -> None:
    assert bool(lines_that_turn(source)) is turns


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_that_reads_verdicts_turns_on_a_sentence(room: str) -> None:
    places = []
    for path in sorted((ROOT / room).rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if module in SHORTENING | SPACING:
            continue
        lines = lines_that_turn(path.read_text(encoding="utf-8"))
        places += [f"{module}:{line}" for line in lines]
    assert not places


@pytest.mark.parametrize(
    ("source", "looks"),
    [
        pytest.param('"too weak" in result.confounded', True, id="a part of a sentence"),
        pytest.param('decision.reason.removeprefix("skipped: ")', True, id="a beginning"),
        pytest.param('verdict.reason.replace(" not tested", "")', True, id="a replaced part"),
        pytest.param('re.search("unseen", measured.reason)', True, id="a pattern"),
        pytest.param("decision.remedy in (MORE, ALL)", False, id="one of several remedies"),
        pytest.param('name.removeprefix("leak.")', False, id="a name"),
    ],
)
def test_what_looks_into_a_sentence_is_found(source: str, looks: bool) -> None:
    assert bool(lines_that_look(source)) is looks


def test_no_module_that_decides_looks_into_a_sentence() -> None:
    places = []
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if module in SHORTENING:
            continue
        lines = lines_that_look(path.read_text(encoding="utf-8"))
        places += [f"{module}:{line}" for line in lines]
    assert not places


def sentences_of(source: str) -> Iterator[str]:
    """Yield the texts of three words and more in a module, apart from its docstrings."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node in docstrings:
            continue
        if isinstance(node.value, str) and len(node.value.split()) > 2:
            yield node.value


@pytest.mark.parametrize("name", DECIDING)
def test_a_module_that_decides_limits_writes_no_sentence(name: str) -> None:
    assert not [*sentences_of(inspect.getsource(DECIDING[name]))]


def test_a_sentence_in_a_module_is_found() -> None:
    source = '"""What it is for."""\nWHY = "the attack failed"\nOUTCOME = "not run"'
    assert [*sentences_of(source)] == ["the attack failed"]


@pytest.mark.parametrize(
    "ground",
    [ground for ground in Ground if ground not in OF_BASELINE],
    ids=lambda ground: ground.name,
)
def test_each_ground_has_one_sentence(ground: Ground) -> None:
    assert (ground in SENTENCES) != (ground in WRITERS)


@pytest.mark.parametrize("remedy", Remedy, ids=lambda remedy: remedy.name)
def test_each_remedy_has_one_sentence(remedy: Remedy) -> None:
    assert (remedy in REMEDIES) != (remedy in IN_WORDS)
