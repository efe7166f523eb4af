"""The tables of false_passes.md that follow from false_passes.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.calibration.false_passes import table
from benchmarks.calibration.false_passes.cases import CONSTRUCTIONS

NAMES = ("constructions", "counts of clean models", "clean models")
"""Of the tables, between the marks on the page."""


def sections(results: Mapping[str, Any]) -> dict[str, str]:
    """Write the tables of the results, by their names: constructions in the order of the findings, clean models."""
    clean = []
    leaking = []
    for name, direct in results["direct"].items():
        entry = CONSTRUCTIONS[name]
        row = {
            "name": name,
            "describe": entry.describe,
            "finding": entry.finding,
            "size": entry.size,
            "direct": direct,
        }
        if entry.kind == "clean":
            clean.append(row)
        else:
            leaking.append(row)
    leaking.sort(key=lambda row: str(row["finding"]))
    columns = results["columns"]
    tables = (
        table.table(leaking, columns),
        table.clean_table(clean, columns),
        table.table(clean, columns),
    )
    return {name: "\n".join(lines) for name, lines in zip(NAMES, tables, strict=True)}


def marks(name: str) -> tuple[str, str]:
    """Return what stands before and behind a table on the page."""
    return f"<!-- {name} -->\n\n", f"\n\n<!-- end of {name} -->"


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Replace the tables on the page."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        begin, end = marks(name)
        before, marked, behind = text.partition(begin)
        _, closed, after = behind.partition(end)
        if not marked or not closed:
            raise SystemExit(
                f"{page}: no table between {begin.strip()} and {end.strip()}; put both marks back"
            )
        text = before + begin + lines + end + after
    page.write_text(text, encoding="utf-8")
