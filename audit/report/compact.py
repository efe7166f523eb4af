"""Compact tables: a few numbers of a kind side by side, each with its interval, instead of a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.record import Estimate, Unresolved
from audit.report import numbers
from audit.report.words import Numbers, Words


@dataclass(frozen=True)
class Cell:
    """A number with both ends of its interval (without unit), and the units it stands for; empty: no number."""

    value: str = ""
    between: str = ""
    counted: str = ""


@dataclass(frozen=True)
class CompactRow:
    """A row with its label and how many units (and independent ones) its numbers come from."""

    label: str
    units: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class CompactTable:
    """A table whose columns are metrics; `gaps` are the reasons for numbers that could not be resolved."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[CompactRow, ...]
    gaps: tuple[str, ...]
    methods: tuple[str, ...]


def cell(item: Estimate | Unresolved | None, words: Words, counted: bool = False) -> Cell:
    """One number as it stands in a compact table; `counted` adds the whole number of units behind a proportion."""
    if item is None:
        return Cell()
    if isinstance(item, Unresolved):
        return Cell("not resolved")
    form = words.form(item.name)
    return Cell(numbers.show(item.value, form), numbers.between(item, form), numbers.reached(item) if counted else "")


def compact_tables(asked: Sequence[dict[str, Any]], measured: Numbers, words: Words) -> tuple[CompactTable, ...]:
    """The tables that a template asks for, without rows (and tables) for which nothing was measured."""
    found = (_table(spec, measured, words) for spec in asked)
    return tuple(table for table in found if table.rows)


def _table(spec: dict[str, Any], measured: Numbers, words: Words) -> CompactTable:
    rows: list[CompactRow] = []
    seen: list[Estimate | Unresolved] = []
    for row in spec["rows"]:
        items = [measured.find(f"{column['metric']}.{row['suffix']}") for column in spec["columns"]]
        present = [item for item in items if item is not None]
        if present:
            pairs = zip(items, spec["columns"], strict=True)
            cells = tuple(cell(item, words, column.get("counted", False)) for item, column in pairs)
            rows.append(CompactRow(str(row["label"]), _units(present), cells))
            seen += present
    return CompactTable(
        caption=str(spec["caption"]),
        columns=tuple(str(column["label"]) for column in spec["columns"]),
        rows=tuple(rows),
        gaps=tuple(dict.fromkeys(gap(item) for item in seen if isinstance(item, Unresolved))),
        methods=tuple(dict.fromkeys(item.method for item in seen if isinstance(item, Estimate))),
    )


def gap(item: Unresolved) -> str:
    """Why a number is missing."""
    needed = f", {item.needed:,} needed" if item.needed is not None else ""
    return f"{item.reason} (n = {item.n:,}{needed})"


def _units(items: Sequence[Estimate | Unresolved]) -> str:
    """The units of the number that averages most of them: the others are parts of these."""
    estimates = [item for item in items if isinstance(item, Estimate)]
    if not estimates:
        return ""
    largest = max(estimates, key=lambda item: item.n)
    return f"n = {largest.n:,} {largest.unit}, {largest.clusters:,} independent"
