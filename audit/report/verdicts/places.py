"""Places in a repository that findings are shown at: the line of a limit, else a file that stands for all of them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

_TABLE = re.compile(r"\s*\[\[\s*limits\s*\]\]")


@dataclass(frozen=True)
class Place:
    """A line of a file; the path is relative to the root of the repository, with slashes."""

    path: str
    line: int = 1


@dataclass(frozen=True)
class Places:
    """Where limits lie.

    Attributes:
        limits: of each limit of the policy, in its order; empty where the policy lies outside the repository.
        whole: stands for all that has no line of its own; None: there is no such file.
        in_git: whether there is a repository at all.
    """

    limits: tuple[Place, ...] = ()
    whole: Place | None = None
    in_git: bool = True

    def of(self, index: int) -> Place | None:
        """Where the limit of this index lies."""
        return self.limits[index] if index < len(self.limits) else self.whole


NOWHERE = Places()
ANCHORS = ("README.md", "README.rst", "README.txt", "README", "pyproject.toml", ".gitignore", "LICENSE")
"""Files at the root of a repository that stand for limits of a policy outside of it, the first that is there."""


def find_places(policy: Path, data: Path | None = None) -> Places:
    """Find where limits lie in the repository that holds the current directory.

    Args:
        policy: its file.
        data: the folder of the data set, whose manifest.toml stands for the limits of a policy that lies elsewhere;
            where it does so too, a file at the root of the repository.
    """
    root = repository(Path.cwd())
    own = _inside(root, policy)
    if own is not None:
        limits = tuple(Place(own, line) for line in lines_of_limits(policy.read_text(encoding="utf-8")))
        return Places(limits, Place(own))
    for other in (*([data / "manifest.toml"] if data else []), *(root / name for name in ANCHORS)):
        path = _inside(root, other)
        if path is not None:
            return Places(whole=Place(path))
    return Places(in_git=(root / ".git").exists())


def repository(start: Path) -> Path:
    """The root of the git work tree that holds a folder; without one the folder itself."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def _inside(root: Path, path: Path) -> str | None:
    """The path of a file relative to the root; None where it is no file or lies elsewhere."""
    found = path.resolve()
    return found.relative_to(root).as_posix() if found.is_file() and found.is_relative_to(root) else None


def lines_of_limits(toml: str) -> list[int]:
    """The line, from 1, of each table `[[limits]]`; empty where a policy writes its limits otherwise.

    A heading counts only where the lines before it are whole TOML, so that none is found within a text.
    """
    lines = toml.splitlines()
    found: list[int] = []
    for number, line in enumerate(lines):
        if _TABLE.match(line) and _count_limits(lines[:number]) == len(found):
            found.append(number + 1)
    return found if len(found) == _count_limits(lines) else []


def _count_limits(lines: list[str]) -> int:
    """The number of limits in these lines; -1 where they are no whole TOML."""
    try:
        return len(tomllib.loads("\n".join(lines)).get("limits", ()))
    except ValueError:
        return -1
