"""The tables of all pieces: one JSON and one Markdown file, each table with its device, date, versions and commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from audit.files import write_atomically

JSON = "tables.json"
MARKDOWN = "tables.md"
TINY = (
    "**TINY RUN: tiny models with random weights on a few invented pages. It shows that every piece runs; no number "
    "here is a result.**"
)
HEAD = "# What ran on a GPU\n\nMade by `python -m benchmarks.gpu`; every table names its device, date and versions."


class Tables:
    """The tables that there are, from earlier runs and this one.

    Args:
        out: gets `tables.json` and `tables.md`.
        work: keeps a copy of the JSON, since `out` may be emptied between runs.
        tiny: whether they are of tiny runs, which are never mixed with others.
    """

    def __init__(self, out: Path, work: Path, *, tiny: bool) -> None:
        self._folders = (out, work)
        self._tiny = tiny
        self._found: dict[str, dict[str, Any]] = {}
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / JSON).exists():
                self._found |= json.loads((folder / JSON).read_text())
        mixed = [name for name, table in self._found.items() if table["tiny"] != tiny]
        if mixed:
            raise SystemExit(
                f"{out} or {work} holds {'full' if tiny else 'tiny'} tables: give other folders"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self._found[name]

    def add(self, name: str, table: dict[str, Any]) -> None:
        """Keep a piece's table and write all."""
        self._found[name] = table
        self.write()

    def write(self, order: list[str] | None = None) -> None:
        """Write both files, the tables in this order."""
        if order is not None:
            known = [name for name in order if name in self._found]
            self._found = {
                name: self._found[name] for name in dict.fromkeys([*known, *self._found])
            }
        for folder in self._folders:
            write_atomically(folder / JSON, (json.dumps(self._found, indent=1) + "\n").encode())
        write_atomically(self._folders[0] / MARKDOWN, "\n".join(self._lines()).encode())

    def _lines(self) -> list[str]:
        lines = [HEAD, "", *([TINY, ""] if self._tiny else [])]
        for name, table in self._found.items():
            versions = ", ".join(
                f"{package} {version}" for package, version in table["versions"].items()
            )
            lines += [
                f"## {name}",
                "",
                f"{table['shows'][:1].upper()}{table['shows'][1:]}.",
                "",
                *table["lines"],
                "",
            ]
            lines += [
                f"{'Tiny run. ' if table['tiny'] else ''}{table['device']}, {table['date']}, {versions}, commit "
                f"{table['commit']}.",
                "",
            ]
        return lines


def commit() -> str:
    """The commit that is measured, and whether files differ from it.

    "unknown" outside a repository.
    """
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
        )
    except OSError:
        return "unknown"
    return said.stdout.strip() or "unknown"
