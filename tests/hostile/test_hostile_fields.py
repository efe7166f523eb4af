"""Every field of every source and of two checkpoints, given values of other types: refused in a sentence or taken.

Random edits reach a field of a large file rarely. Here each distinct field gets each value, some
3,000 cases.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_surfaces import SURFACES, Surface, fresh, run

ODD: tuple[Any, ...] = (
    *(10**400, 5, None, True, "x", [], {}, float("nan"), -1, 1.5, [5], {"a": 5}, 2**63, [[["x"]]]),
    *("ftp://127.0.0.1:9/x.png", "/etc/passwd"),
)


def is_read(surface: Surface) -> bool:
    """Test whether the fields of a surface are given odd values: importers without options, and two checkpoints."""
    if "--" in surface.name:
        return False
    if surface.name.startswith("import "):
        return True
    return surface.name in ("checkpoint bert", "checkpoint t5")


READ = [*filter(is_read, SURFACES)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.night,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and pidfd are Linux's"),
]


def parsed(path: Path) -> list[Any]:
    return [
        json.loads(text)
        for text in (
            path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        )
    ]


def fields_of(tree: Any) -> list[tuple[Any, ...]]:
    """The path to the first of each distinct field: entries of a list, and of a vocabulary, are one field."""
    found: dict[tuple[str, ...], tuple[Any, ...]] = {}

    def walk(node: Any, path: tuple[Any, ...], name: tuple[str, ...]) -> None:
        if len(path) > 1:
            found.setdefault(name, path)
        entries = (
            node.items()
            if isinstance(node, dict)
            else enumerate(node)
            if isinstance(node, list)
            else ()
        )
        for key, inner in entries:
            walk(
                inner,
                (*path, key),
                (*name, "*" if isinstance(node, list) or len(node) > 20 else str(key)),
            )

    walk(tree, (), ())
    return list(found.values())


def places_in(surface: Surface, root: Path) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """The files, by their names in the surface's folder, and the fields in them."""
    folder = surface.folder(root)
    seen = set[tuple[Any, ...]]()
    for path in surface.edited(folder):
        for place in fields_of(parsed(path)) if path.suffix in (".json", ".jsonl") else ():
            kind = (path.parent.name, path.suffix, *map(str, place))
            if kind not in seen:
                seen.add(kind)
                yield path.relative_to(folder), place


def replaced(path: Path, place: tuple[Any, ...], value: Any) -> None:
    tree = inner = parsed(path)
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    path.write_text("\n".join(json.dumps(one) for one in tree))


@pytest.mark.parametrize("surface", READ, ids=lambda one: one.name)
def test_a_field_of_another_type_is_refused_or_taken(surface, server, tmp_path):
    for arguments in surface.commands:
        server.run(surface.folder(tmp_path), arguments, fresh(tmp_path / "scratch"), warm=True)
    found = []
    for name, place in list(places_in(surface, tmp_path)):
        for value in ODD:
            folder = surface.folder(tmp_path)
            replaced(folder / name, place, value)
            faults = run(server, surface, folder, tmp_path)
            found += [f"{name} {place} = {ascii(value)[:40]}: {one}" for one in faults]
    assert found == []
