"""Compact tables: a few numbers of a kind side by side, each with its interval, instead of a row each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from audit.attacks.figure_text import Shown, TableColumn, TableRow, TableSpec
from audit.attacks.text import AttackText
from audit.measurements import Estimate, Unresolved
from audit.report import numbers
from audit.report.attack_text import ResultIndex


@dataclass(frozen=True)
class IntervalBar:
    """An interval on the scale of its column: all positions from 0 to 100 across the drawing."""

    low: float
    value: float
    high: float
    zero: float
    """The position of "no difference"."""


@dataclass(frozen=True)
class TableCell:
    """A number with both ends of its interval (without unit), and its count of units; empty: no number.

    Where `missing` is set, `value` says why there is none.
    Where `drawn` is set, a drawing replaces the number: `bar`, or nothing where there is no number.
    `note` is printed under the number.
    """

    value: str = ""
    between: str = ""
    counted: str = ""
    note: str = ""
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


def cell(item: Estimate | Unresolved | None, report: AttackText, shown: Shown = "value") -> TableCell:
    """Return one number of a compact table, as `shown` says."""
    if item is None:
        return TableCell()
    if isinstance(item, Unresolved):
        return TableCell("not resolved", missing=True)
    form = report.form(item.name)
    value, between = numbers.show(item.value, form), numbers.between(item, form)
    if shown == "count first" and numbers.exact_count(item) is not None:
        return TableCell(numbers.reached(item), f"{value}; {between}")
    return TableCell(value, between, "" if shown == "value" else numbers.reached(item))


def compact_tables(specs: Sequence[TableSpec], index: ResultIndex, report: AttackText) -> tuple[CompactTable, ...]:
    """Fill the tables of a part, without rows (and tables) for which nothing was measured."""
    tables = (_table(spec, index, report) for spec in specs)
    return tuple(table for table in tables if table.rows)


def _table(spec: TableSpec, index: ResultIndex, report: AttackText) -> CompactTable:
    rows: list[CompactRow] = []
    measured: list[Estimate | Unresolved] = []
    estimates: list[list[Estimate | Unresolved | None]] = []
    units_in_cells = any(column.n for column in spec.columns)
    for row in spec.rows:
        items = [_measured(column, row, index) for column in spec.columns]
        present = [item for item in items if item is not None]
        if present:
            pairs = zip(items, spec.columns, strict=True)
            cells = tuple(_cell(item, report, column, row, index) for item, column in pairs)
            rows.append(CompactRow(row.label, "" if units_in_cells else _units(present), cells))
            measured += present
            estimates.append(items)
    units = {row.units for row in rows if row.units}
    common = units.pop() if len(units) == 1 and len(rows) > 1 else ""
    if common:
        rows = [dataclasses.replace(row, units="") for row in rows]
    return CompactTable(
        caption=spec.caption,
        units=common,
        columns=tuple(column.label for column in spec.columns),
        rows=_with_bars(rows, estimates, spec.columns),
        gaps=tuple(dict.fromkeys(gap(item) for item in measured if isinstance(item, Unresolved))),
        methods=tuple(dict.fromkeys(item.method for item in measured if isinstance(item, Estimate))),
    )


def _measured(column: TableColumn, row: TableRow, index: ResultIndex) -> Estimate | Unresolved | None:
    """The measurement that a column asks for in one row; none in a column of diagnostics."""
    name = row.name(column.metric, column.after)
    return None if name is None else index.find(name)


def _diagnostic(base: str, column: TableColumn, row: TableRow, index: ResultIndex) -> float | None:
    name = row.name(base, column.after)
    return None if name is None else index.diagnostic(name)


def _cell(
    item: Estimate | Unresolved | None, report: AttackText, column: TableColumn, row: TableRow, index: ResultIndex
) -> TableCell:
    """The number that a column asks for, or what it is compared with, and what is printed under it."""
    if column.diagnostic:
        value = _diagnostic(column.diagnostic, column, row, index)
        filled = NOTHING if value is None else TableCell(numbers.show(value, column.form))
    elif item is None and row.instead:
        filled = NOTHING
    elif column.shown == "null":
        filled = _null(item, report)
    else:
        filled = cell(item, report, column.shown)
    notes = []
    if column.n and isinstance(item, Estimate):
        notes.append(f"n = {item.n:,}")
    p_value = _diagnostic(column.p, column, row, index)
    if p_value is not None:
        notes.append(f"p = {numbers.plain(p_value)}")
    return dataclasses.replace(filled, note="; ".join(notes).replace(" = ", f"{numbers.NBSP}={numbers.NBSP}"))


def _null(item: Estimate | Unresolved | None, report: AttackText) -> TableCell:
    """What a number is compared with, which has no interval of its own: as a share, and as so many units."""
    if not isinstance(item, Estimate) or item.null is None:
        return TableCell()
    share = numbers.show(item.null, report.form(item.name))
    counted = numbers.count_of(item.null, item.n)
    return TableCell(share) if counted is None else TableCell(f"{counted:,} of {item.n:,}", share)


def _with_bars(
    rows: Sequence[CompactRow],
    items: Sequence[Sequence[Estimate | Unresolved | None]],
    columns: Sequence[TableColumn],
) -> tuple[CompactRow, ...]:
    """The rows, with drawings in place of numbers in the columns that ask for them."""
    cells = [list(row.cells) for row in rows]
    for index, column in enumerate(columns):
        if column.shown == "drawn":
            for row, drawn in zip(cells, bars([row[index] for row in items], column.zero), strict=True):
                row[index] = TableCell(drawn=True, bar=drawn)
    return tuple(dataclasses.replace(row, cells=tuple(own)) for row, own in zip(rows, cells, strict=True))


def bars(items: Sequence[Estimate | Unresolved | None], zero: float = 0.0) -> list[IntervalBar | None]:
    """Place each interval on one scale for all of them, `zero` included; None for what is no number."""
    estimates = [item for item in items if isinstance(item, Estimate)]
    lowest = min([zero, *(item.low for item in estimates)])
    highest = max([zero, *(item.high for item in estimates)])
    air = 0.05 * ((highest - lowest) or 1.0)

    def position(value: float) -> float:
        return round(100 * (value - lowest + air) / (highest - lowest + 2 * air), 2)

    return [
        IntervalBar(position(item.low), position(item.value), position(item.high), position(zero))
        if isinstance(item, Estimate)
        else None
        for item in items
    ]


def gap(item: Unresolved) -> str:
    """Return why a number is missing."""
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
