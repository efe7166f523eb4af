"""Models of other ecosystems: how each is known by names of files, and the way out of it.

The rows lie in `ecosystems.toml`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from audit.files import table_beside
from audit.targets.checkpoint.tree import LEFT_OVER

Group = Literal["settings", "weights"]
"""What an ecosystem is known by: its files of settings, or those of its weights."""


@dataclass(frozen=True)
class Ecosystem:
    """Models that docaudit does not open.

    Attributes:
        name: what its folders and files hold.
        marks: patterns of names, any of which is enough; of several in one, all must be there.
        way: what to do, a key of the table of ways.
        command: command of the ways that need one.
    """

    name: str
    marks: tuple[str, ...]
    way: str
    command: str = ""


def _read_table() -> tuple[dict[str, str], dict[str, list[Ecosystem]]]:
    """Read the ways out, and the ecosystems by what they are known by."""
    table = table_beside(__file__, "ecosystems.toml")
    ways: dict[str, str] = table.pop("ways")
    ecosystems = {}
    for group, rows in table.items():
        ecosystems[group] = [Ecosystem(**{**row, "marks": tuple(row["marks"])}) for row in rows]
    return ways, ecosystems


WAYS, ECOSYSTEMS = _read_table()


def refusal_of(path: Path, group: Group, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return why a folder or file of another ecosystem is refused, and the way out.

    None where it is of none.

    Args:
        path: folder or file.
        group: what it is to be known by.
        config: configuration beside the weights, which names the class of the model; empty
            without one.
    """
    names = names_in(path) if path.is_dir() else {path.name}
    for ecosystem in ECOSYSTEMS[group]:
        for mark in ecosystem.marks:
            first = _first_of(path, names, mark)
            if first is not None:
                return _texts_of(path, ecosystem, first, config)
    return None


def _first_of(path: Path, names: Collection[str], mark: str) -> str | None:
    """Return the name by which a mark fits; None where a pattern of it fits nothing."""
    firsts = []
    for pattern in mark.split():
        if "/" in pattern:
            matches = sorted(str(file.relative_to(path)) for file in path.glob(pattern))
        else:
            matches = sorted(name for name in names if fnmatchcase(name.lower(), pattern.lower()))
        if not matches:
            return None
        firsts.append(matches[0])
    return firsts[0]


def _texts_of(
    path: Path, ecosystem: Ecosystem, first: str, config: Mapping[str, Any]
) -> tuple[str, str]:
    """Return what the path holds, and what to do.

    Args:
        path: folder or file.
        ecosystem: ecosystem that it is of.
        first: name of the file that it is known by.
        config: configuration beside it.
    """
    classes = classes_of(config)
    command = ecosystem.command.format(
        path=path,
        first=first,
        file=path / first if path.is_dir() else path,
        architecture=classes[0] if classes else "CLASS",
    )
    shown = f" ({first})" if path.is_dir() else ""
    return f"{path} holds {ecosystem.name}{shown}", WAYS[ecosystem.way].format(command=command)


def classes_of(config: Mapping[str, Any]) -> list[str]:
    """Return the names of classes that a configuration states."""
    classes = config.get("architectures")
    return [str(name) for name in classes] if isinstance(classes, list) else []


def names_in(folder: Path) -> set[str]:
    """Return the names in a folder, but for hidden ones and those that a training leaves."""
    names = (path.name for path in folder.iterdir())
    return {name for name in names if not name.startswith((".", *LEFT_OVER))}
