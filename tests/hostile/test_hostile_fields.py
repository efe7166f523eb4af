"""Every field of every source and tokenizer, given values of other types: refused in a sentence or taken.

Random edits reach a field of a large file rarely. Here each distinct field gets each value, some 3,000 cases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_surfaces import SURFACES, Surface, fresh, run

ODD: tuple[Any, ...] = (
    10**400,
    5,
    None,
    True,
    "x",
    [],
    {},
    float("nan"),
    -1,
    1.5,
    [5],
    {"a": 5},
    2**63,
    "ftp://127.0.0.1:9/x.png",
    [[["x"]]],
    "/etc/passwd",
)
FORMS = tuple(surface for surface in SURFACES if surface.name.startswith("import "))
MODELS = tuple(surface for surface in SURFACES if surface.name in ("checkpoint bert", "checkpoint t5"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and pidfd are Linux's"),
]


def fields_of(tree: Any) -> list[tuple[Any, ...]]:
    """The path to the first of each distinct field: entries of a list, and of a vocabulary, are one field."""
    found: dict[tuple[str, ...], tuple[Any, ...]] = {}

    def walk(node: Any, path: tuple[Any, ...], name: tuple[str, ...]) -> None:
        if path:
            found.setdefault(name, path)
        entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inner in entries:
            alike = isinstance(node, list) or len(node) > 20
            walk(inner, (*path, key), (*name, "*" if alike else str(key)))

    walk(tree, (), ())
    return list(found.values())


def replaced(path: Path, place: Sequence[Any], value: Any) -> None:
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    tree = [json.loads(line) for line in lines]
    inner: Any = tree if path.suffix == ".jsonl" else tree[0]
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    path.write_text("\n".join(json.dumps(one) for one in tree))


def places_in(surface: Surface, root: Path) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """The files, by their names in the surface's folder, and the fields in them."""
    folder, seen = surface.folder(root), set[tuple[Any, ...]]()
    for path in surface.edited(folder):
        if path.suffix not in (".json", ".jsonl"):
            continue
        text = path.read_text()
        tree = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        for place in fields_of(tree):
            kind = (path.parent.name, path.suffix, *map(str, place))
            if kind not in seen:
                seen.add(kind)
                yield path.relative_to(folder), place


def faults(server: Any, surface: Surface, root: Path) -> list[str]:
    """What is wrong once a field has another value, for every field and value."""
    for arguments in surface.commands:
        server.run(surface.folder(root), arguments, fresh(root / "scratch"), warm=True)
    found = []
    for name, place in places_in(surface, root):
        for value in ODD:
            folder = surface.folder(root)
            replaced(folder / name, place, value)
            found += [f"{name} {place} = {ascii(value)[:40]}: {one}" for one in run(server, surface, folder, root)]
    return found


@pytest.mark.night
@pytest.mark.parametrize("surface", [*FORMS, *MODELS], ids=lambda one: one.name)
def test_a_field_of_another_type_is_refused_or_taken(surface, server, tmp_path):
    assert faults(server, surface, tmp_path) == []
