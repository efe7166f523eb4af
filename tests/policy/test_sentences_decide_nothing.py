"""Sentences decide nothing: editing English changes no verdict, no remedy and no exit code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "audit"
ROOMS = ("policy", "workflows", "attacks")
"""Rooms that decide; reports shorten sentences of verdicts to fit a page, which decides nothing."""
SENTENCES = frozenset({"reason", "remedy", "why", "sentence", "confounded", "closed"})
"""Attributes that hold a sentence."""
TESTS = frozenset({"startswith", "endswith", "removeprefix", "removesuffix", "find", "partition"})
"""Methods that look into a text, or take it apart."""


def is_sentence(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr in SENTENCES


def looks_into_a_sentence(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return is_sentence(text)
        case ast.Call(func=ast.Name()):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[_, text, *_]):
            return is_sentence(text)
        case ast.Call(func=ast.Attribute(value=text, attr=method)):
            if method in TESTS:
                return is_sentence(text)
    return False


def lines_that_look(source: str) -> list[int]:
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in filter(looks_into_a_sentence, nodes)]


@pytest.mark.parametrize(
    ("source", "looks"),
    [
        pytest.param('"too weak" in result.confounded', True, id="a part of a sentence"),
        pytest.param('decision.reason.removeprefix("skipped: ")', True, id="a beginning"),
        pytest.param('re.search("unseen", measured.reason)', True, id="a pattern"),
        pytest.param("decision.remedy in (MORE, ALL)", False, id="one of several remedies"),
        pytest.param('name.removeprefix("leak.")', False, id="a name"),
    ],
)
def test_what_looks_into_a_sentence_is_found(source: str, looks: bool) -> None:
    assert bool(lines_that_look(source)) is looks


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_that_decides_looks_into_a_sentence(room: str) -> None:
    places = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for line in lines_that_look(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(ROOT)}:{line}"
            places.append(place)
    assert not places
