"""Checks an `AttackReport` against its attack: a misspelt name fails here, not as "not measured" in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from audit.attacks.reporting import (
    CATEGORY_LABELS,
    AttackReport,
    CategoryFigure,
    Figure,
    MetricPanel,
    OverlapFigure,
    TableSpec,
    name_parts,
)


def check_report(attack: str, report: AttackReport, metrics: Sequence[str], power: str | None = None) -> None:
    """Refuse a report that names what the attack does not measure, or says nothing of what it measures.

    Args:
        attack: its name, for the message.
        report: what it says about itself.
        metrics: those that a policy may name.
        power: the one that says how strong the attacker was.

    Raises:
        ValueError: with every problem.
    """
    problems = list(_problems(report, {*metrics, *report.measured}, [*metrics, *([power] if power else [])]))
    if problems:
        raise ValueError(f"the report of {attack}: {'; '.join(dict.fromkeys(problems))}")


def _problems(report: AttackReport, known: AbstractSet[str], metrics: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys([*metrics, *report.measured] if report.metrics else ()):
        yield from _unlabelled(name, report)
    yield from (f"no measurement begins with {head!r}" for head in report.metrics if head not in _heads(known))
    yield from (f"unlisted {part!r} has no label" for part in report.unlisted if part not in _qualifiers(report))
    named = {name: place for place, name in _named(report)}
    yield from (f"{place}: no measurement {name!r}" for name, place in named.items() if name not in known)
    for part in report.parts:
        for table in part.tables:
            yield from _in_table(table, report, known)
    for name in _diagnostics(report):
        if not declared(name, report.diagnostics):
            yield f"diagnostic {name!r} is not declared"


def declared(name: str, diagnostics: Sequence[str]) -> bool:
    """Return True for a diagnostic that is declared by its name or by the first part of it."""
    return name in diagnostics or name_parts(name)[0] in diagnostics


def _heads(names: AbstractSet[str]) -> set[str]:
    return {name_parts(name)[0] for name in names}


def _qualifiers(report: AttackReport) -> set[str]:
    return {*CATEGORY_LABELS, *report.qualifiers}


def _unlabelled(name: str, report: AttackReport) -> Iterator[str]:
    """The parts of a name that have no label."""
    head, *rest = name_parts(name)
    if head not in report.metrics:
        yield f"no label for the metric {head!r}"
    yield from (f"no label for {part!r} of {name!r}" for part in rest if part not in _qualifiers(report))


def _named(report: AttackReport) -> Iterator[tuple[str, str]]:
    """Every measurement that is named in full outside tables, behind the place that names it."""
    for figure in (*report.figures, *(figure for part in report.parts for figure in part.figures)):
        yield from (("figure", name) for name in _drawn(figure))
    trend = report.trend
    yield from (("found", name) for name in (report.found,) if name)
    yield from (("tells", name) for pair in report.tells.items() for name in pair)
    yield from (("trend", name) for panel in trend.panels for name in _series(panel))
    yield from (("trend", name) for name in (*(column.metric for column in trend.columns), *trend.summary.values()))


def _drawn(figure: Figure) -> list[str]:
    """The measurements that a figure draws."""
    match figure:
        case CategoryFigure():
            return [name for panel in figure.panels for name in _series(panel)]
        case OverlapFigure():
            return [
                name
                for row in figure.rows
                for name in (row.first, row.second, row.only_first, row.only_second, row.net)
            ]
        case _:
            return []


def _series(panel: MetricPanel) -> list[str]:
    return [series.metric for series in panel.series]


def _in_table(table: TableSpec, report: AttackReport, known: AbstractSet[str]) -> Iterator[str]:
    """A cell may stay empty, as not every measurement has every row; a whole row or column is misspelt."""
    columns = [column for column in table.columns if column.metric]
    bases = {column.metric for column in columns}
    for row in table.rows:
        names = [name for column in columns if (name := row.name(column.metric, column.after))]
        yield from (f"table: {problem}" for name in names for problem in _unlabelled(name, report))
        if not {*names} & known:
            yield f"table: no measurement in the row {row.label!r}"
        yield from (f"table: no column of {base!r}" for base in row.instead if base not in bases)
    for column in columns:
        if not {row.name(column.metric, column.after) for row in table.rows} & known:
            yield f"table: no measurement in the column of {column.metric!r}"


def _diagnostics(report: AttackReport) -> Iterator[str]:
    """Every diagnostic that a part names."""
    for part in report.parts:
        if part.mark:
            yield part.mark.diagnostic
        for column in (column for table in part.tables for column in table.columns):
            yield from filter(None, (column.diagnostic, column.p))
