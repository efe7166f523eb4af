"""Compact tables: a few numbers of a kind side by side, each with its interval, instead of a row each.

What an attack's template asks for:

    caption     text
    columns     [{"label", "metric", "after" (last part of the name, behind the row's suffix), and what to show:
                  "counted" (true, or "first": the count leads), "null" (true: what it is compared with), "drawn" (true:
                  a drawing instead), "zero" (in the drawing: no difference, else 0), "n" (true: how many units, here
                  instead of beside the row's label)}
                 or {"label", "diagnostic", "form" (audit.report.numbers.Form)}; either with
                  "p" (name of the diagnostic that is printed as p under the number)]
    rows        [{"label", "suffix" (empty: the metric itself)}], the suffix of diagnostics as well, or {"label",
                 "instead" (for some metrics, the name of another measurement)}; without any measurement it is left out
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.measurements import Estimate, Unresolved
from audit.report import numbers
from audit.report.words import AttackText, ResultIndex


@dataclass(frozen=True)
class IntervalBar:
    """An interval on the scale of its column: all positions from 0 to 100 across the drawing."""

    low: float
    value: float
    high: float
    zero: float
    """Where what means "no difference" lies."""


@dataclass(frozen=True)
class TableCell:
    """A number with both ends of its interval (without unit), and the units it stands for; empty: no number.

    Where `missing` is set, `value` says why there is none.
    Where `drawn` is set, a drawing stands in place of the number: `bar`, or nothing where there is no number.
    `beside` is what else stands under the number.
    """

    value: str = ""
    between: str = ""
    counted: str = ""
    beside: str = ""
    missing: bool = False
    drawn: bool = False
    bar: IntervalBar | None = None


NOTHING = TableCell("–")
"""Where there is nothing to measure."""


@dataclass(frozen=True)
class CompactRow:
    """A row with its label and how many units (and independent ones) its numbers come from."""

    label: str
    units: str
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class CompactTable:
    """A table whose columns are metrics; `gaps` are the reasons for numbers that could not be resolved.

    `units` is how many units there are when that is the same in all rows, whose own `units` are empty then.
    """

    caption: str
    units: str
    columns: tuple[str, ...]
    rows: tuple[CompactRow, ...]
    gaps: tuple[str, ...]
    methods: tuple[str, ...]


def cell(item: Estimate | Unresolved | None, words: AttackText, counted: bool | str = False) -> TableCell:
    """One number as it stands in a compact table.

    `counted` adds the whole number of units behind a proportion; with "first" that number leads and the share follows.
    """
    if item is None:
        return TableCell()
    if isinstance(item, Unresolved):
        return TableCell("not resolved", missing=True)
    form = words.form(item.name)
    value, between = numbers.show(item.value, form), numbers.between(item, form)
    if counted == "first" and numbers.exact_count(item) is not None:
        return TableCell(numbers.reached(item), f"{value}; {between}")
    return TableCell(value, between, numbers.reached(item) if counted else "")


def compact_tables(
    asked: Sequence[dict[str, Any]], measured: ResultIndex, words: AttackText
) -> tuple[CompactTable, ...]:
    """The tables that a template asks for, without rows (and tables) for which nothing was measured."""
    found = (_table(spec, measured, words) for spec in asked)
    return tuple(table for table in found if table.rows)


def _table(spec: dict[str, Any], measured: ResultIndex, words: AttackText) -> CompactTable:
    rows: list[CompactRow] = []
    seen: list[Estimate | Unresolved] = []
    estimates: list[list[Estimate | Unresolved | None]] = []
    apart = any(column.get("n", False) for column in spec["columns"])
    for row in spec["rows"]:
        items = [_measured(column, row, measured) for column in spec["columns"]]
        present = [item for item in items if item is not None]
        if present:
            pairs = zip(items, spec["columns"], strict=True)
            cells = tuple(_cell(item, words, column, row, measured) for item, column in pairs)
            rows.append(CompactRow(str(row["label"]), "" if apart else _units(present), cells))
            seen += present
            estimates.append(items)
    units = {row.units for row in rows if row.units}
    common = units.pop() if len(units) == 1 and len(rows) > 1 else ""
    if common:
        rows = [dataclasses.replace(row, units="") for row in rows]
    return CompactTable(
        caption=str(spec["caption"]),
        units=common,
        columns=tuple(str(column["label"]) for column in spec["columns"]),
        rows=_with_bars(rows, estimates, spec["columns"]),
        gaps=tuple(dict.fromkeys(gap(item) for item in seen if isinstance(item, Unresolved))),
        methods=tuple(dict.fromkeys(item.method for item in seen if isinstance(item, Estimate))),
    )


def _measured(column: dict[str, Any], row: dict[str, Any], measured: ResultIndex) -> Estimate | Unresolved | None:
    """The measurement that a column asks for in one row; none in a column of diagnostics."""
    name = _name(column, "metric", row)
    return None if name is None else measured.find(name)


def _diagnostic(column: dict[str, Any], what: str, row: dict[str, Any], measured: ResultIndex) -> float | None:
    name = _name(column, what, row)
    return None if name is None else measured.diagnostic(name)


def _cell(
    item: Estimate | Unresolved | None,
    words: AttackText,
    column: dict[str, Any],
    row: dict[str, Any],
    measured: ResultIndex,
) -> TableCell:
    """The number that a column asks for, or what it is compared with, and what stands under it."""
    if "diagnostic" in column:
        value = _diagnostic(column, "diagnostic", row, measured)
        found = NOTHING if value is None else TableCell(numbers.show(value, column.get("form", "number")))
    elif item is None and "instead" in row:
        found = NOTHING
    elif column.get("null", False):
        found = _null(item, words)
    else:
        found = cell(item, words, column.get("counted", False))
    beside = []
    if column.get("n", False) and isinstance(item, Estimate):
        beside.append(f"n = {item.n:,}")
    p_value = _diagnostic(column, "p", row, measured)
    if p_value is not None:
        beside.append(f"p = {numbers.plain(p_value)}")
    return dataclasses.replace(found, beside="; ".join(beside).replace(" = ", f"{numbers.NBSP}={numbers.NBSP}"))


def _null(item: Estimate | Unresolved | None, words: AttackText) -> TableCell:
    """What a number is compared with, which has no interval of its own: as a share, and as so many units."""
    if not isinstance(item, Estimate) or item.null is None:
        return TableCell()
    share = numbers.show(item.null, words.form(item.name))
    counted = numbers.count_of(item.null, item.n)
    return TableCell(share) if counted is None else TableCell(f"{counted:,} of {item.n:,}", share)


def _name(column: dict[str, Any], what: str, row: dict[str, Any]) -> str | None:
    """The whole name of what a column asks for in a row; an empty suffix asks for the metric itself. None: nothing."""
    if what not in column:
        return None
    asked = str(column[what])
    if "instead" in row:
        return str(row["instead"][asked]) if asked in row["instead"] else None
    return ".".join(part for part in (asked, str(row["suffix"]), str(column.get("after", ""))) if part)


def _with_bars(
    rows: Sequence[CompactRow],
    items: Sequence[Sequence[Estimate | Unresolved | None]],
    columns: Sequence[dict[str, Any]],
) -> tuple[CompactRow, ...]:
    """The rows, with drawings in place of numbers in the columns that ask for them ("drawn")."""
    cells = [list(row.cells) for row in rows]
    for place, column in enumerate(columns):
        if column.get("drawn", False):
            for row, drawn in zip(
                cells, bars([row[place] for row in items], float(column.get("zero", 0.0))), strict=True
            ):
                row[place] = TableCell(drawn=True, bar=drawn)
    return tuple(dataclasses.replace(row, cells=tuple(own)) for row, own in zip(rows, cells, strict=True))


def bars(items: Sequence[Estimate | Unresolved | None], zero: float = 0.0) -> list[IntervalBar | None]:
    """Where each interval lies on one scale for all of them, `zero` included; None for what is no number."""
    found = [item for item in items if isinstance(item, Estimate)]
    lowest = min([zero, *(item.low for item in found)])
    highest = max([zero, *(item.high for item in found)])
    air = 0.05 * ((highest - lowest) or 1.0)

    def place(value: float) -> float:
        return round(100 * (value - lowest + air) / (highest - lowest + 2 * air), 2)

    return [
        IntervalBar(place(item.low), place(item.value), place(item.high), place(zero))
        if isinstance(item, Estimate)
        else None
        for item in items
    ]


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
    independent = f", {largest.clusters:,} independent" if largest.clusters != largest.n else ""
    return f"n = {largest.n:,} {largest.unit}{independent}"
