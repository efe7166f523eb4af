"""Lay out the report's tables as text: limits with their decisions, and measurements.

Nothing is computed here.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.attacks.figure_text import Form, TableColumn, TableRow, TableSpec
from audit.attacks.text import AttackText
from audit.measurements import Estimate, Measurement, Unresolved
from audit.policy import Decision
from audit.report import numbers
from audit.report.labels import LABELS
from audit.report.templates import ResultIndex

OUTCOME_LABELS = LABELS["outcomes"]
"""What a decision on one limit is called; the order is the one in which page one shows them."""
RAN_LABELS = {**OUTCOME_LABELS, **LABELS["ran"]}
"""The same for the worst limit of an attack that ran; "": no limit is on the attack."""
NULL_LABELS = LABELS["nulls"]


@dataclass(frozen=True)
class Gauge:
    """An interval against a limit: all positions from 0 to 100 across the drawing."""

    low: float
    value: float
    high: float
    limit: float
    zero: float
    upper: bool


@dataclass(frozen=True)
class DecisionRow:
    """One limit of the policy, as text."""

    decision: Decision
    outcome: str
    label: str
    meaning: str
    limit: str
    measured: str
    between: str
    n: str
    power: str
    p_value: str
    gauge: Gauge | None


def decision_row(decision: Decision, report: AttackText) -> DecisionRow:
    """Make the table row of a decision: its limit, the number compared with it, and its outcome."""
    limit = decision.limit
    item = decision.measured
    form = report.metric(limit.metric).form
    bound = numbers.bound_of(limit)
    digits = numbers.digits_of(decision, form)
    word = "at most" if limit.max is not None else "at least"
    row = DecisionRow(
        decision=decision,
        outcome=OUTCOME_LABELS[decision.outcome],
        label=report.label(limit.metric),
        meaning=report.metric(limit.metric).meaning,
        limit=f"{word} {numbers.limit_text(bound, form)}",
        measured="",
        between=interval_of(decision, form, digits),
        n="",
        power=_attacker_strength(decision, report),
        p_value=_p_value_text(decision.p_value),
        gauge=None,
    )
    if item is None:
        return row
    return replace(
        row,
        measured=numbers.amount(item, form, digits),
        n=numbers.basis(item),
        gauge=_gauge(item, bound, limit.max is not None),
    )


def _p_value_text(p_value: float | None) -> str:
    """Write the evidence against a limit; empty where nothing was tested."""
    if p_value is None:
        return ""
    if p_value < 1:
        return f"p at most {p_value:.2g}"
    return "no evidence against the limit"


def interval_of(decision: Decision, form: Form, digits: int = 2) -> str:
    """Write the interval of a limited number.

    Of a count what is shown and not excluded; empty without a number.
    """
    if decision.measured is None:
        return ""
    return decision.count_range or numbers.interval(decision.measured, form, digits)


def _attacker_strength(decision: Decision, report: AttackText) -> str:
    """Compare the attacker's strength with what the limit asks for.

    Empty where neither is known.
    """
    power = decision.power
    least = decision.limit.min_power
    if power is None or least is None:
        return ""
    form = report.metric(power.name).form
    digits = numbers.distinct_digits(power, least, form)
    return (
        f"{report.metric(power.name).label} {numbers.show(power.value, form, digits)}, "
        f"the policy asks for at least {numbers.limit_text(least, form)}"
    )


def _gauge(measured: Estimate, limit: float, upper: bool) -> Gauge:
    """Scale from the lowest of everything (0 included) to the highest, with a little air beside."""
    lowest = min(0.0, measured.low, limit)
    highest = max(measured.high, 2 * limit if limit > 0 else limit)
    air = 0.06 * ((highest - lowest) or 1.0)
    start = lowest - air
    span = (highest - lowest) + 2 * air

    def place(value: float) -> float:
        """Return where a value lies on the gauge, in percent of its width."""
        return round(100 * (value - start) / span, 2)

    return Gauge(
        low=place(measured.low),
        value=place(measured.value),
        high=place(measured.high),
        limit=place(limit),
        zero=place(0.0),
        upper=upper,
    )


@dataclass(frozen=True)
class LimitTables:
    """The limits of a policy.

    Attributes:
        measured: by attack, rows with what their outcome does not say already, the worst first.
        unmeasured: title, outcome, reason and remedy of limits for which an attack that ran gave no
            number, counted.
        without: by outcome, in a line, the attacks that did not run, with the number of their
            limits.
        inapplicable: attacks that do not apply, with the number of their limits.
    """

    measured: Mapping[str, Sequence[tuple[DecisionRow, str]]]
    unmeasured: Mapping[tuple[str, str, str, str], int]
    without: Mapping[str, str]
    inapplicable: str


def limit_tables(rows: Sequence[tuple[str, DecisionRow]], ran: Collection[str]) -> LimitTables:
    """Sort limits by what there is to show of them: a number, none, no run, nothing to ask.

    Args:
        rows: each limit with the title of its attack, in the order of the policy.
        ran: the attacks that ran to their end; the others stand under what was not examined.
    """
    measured: dict[str, list[tuple[DecisionRow, str]]] = {}
    unmeasured: Counter[tuple[str, str, str, str]] = Counter()
    without: dict[str, list[str]] = {}
    order = list(OUTCOME_LABELS)
    for title, row in sorted(rows, key=lambda pair: order.index(pair[1].decision.outcome)):
        decision = row.decision
        if decision.measured is not None:
            measured.setdefault(title, []).append((row, _decision_note(decision)))
        elif decision.outcome != "inapplicable" and decision.limit.attack in ran:
            unmeasured[title, decision.outcome, decision.reason, decision.remedy] += 1
        else:
            without.setdefault(decision.outcome, []).append(title)
    titles_of = {outcome: _count_titles(titles) for outcome, titles in without.items()}
    inapplicable = titles_of.pop("inapplicable", "")
    return LimitTables(
        {title: _merge_repeated_notes(limits) for title, limits in measured.items()},
        unmeasured,
        titles_of,
        inapplicable,
    )


def _count_titles(titles: Iterable[str]) -> str:
    """List titles of attacks, each with the number of its limits."""
    return "; ".join(
        f"{title} ({n} limit{'s' if n != 1 else ''})" for title, n in Counter(titles).items()
    )


def _merge_repeated_notes(
    limits: Sequence[tuple[DecisionRow, str]],
) -> list[tuple[DecisionRow, str]]:
    """Keep a note that several limits in a row share under the last of them alone."""
    following = [note for _, note in limits[1:]]
    following.append("")
    merged = []
    for (row, note), next_note in zip(limits, following, strict=True):
        merged.append((row, "" if note == next_note else note))
    return merged


def _decision_note(decision: Decision) -> str:
    """Return what a decision's outcome does not say already, and what would decide it."""
    if decision.cause == "weakened":
        return "the attacker was not at its full strength, see what was not examined"
    reason = decision.reason
    # Of a limit that is met the interval that the row shows has to say it.
    if decision.outcome != "passed" or _interval_is_within(decision):
        reason = reason[len(decision.restates) :]
    notes = [reason.lstrip(",; ")]
    if decision.remedy:
        notes.append(f"to decide it: {decision.remedy}")
    return "; ".join(filter(None, notes))


def _interval_is_within(decision: Decision) -> bool:
    """Tell whether the two-sided interval, which a row shows, lies within the limit."""
    limit = decision.limit
    measured = decision.measured
    if measured is None or limit.holds == "estimate":
        return False
    return limit.encloses(measured.low, measured.high, is_area=measured.is_area)


@dataclass(frozen=True)
class MeasurementGroup:
    """The measurements that share the first part of their name.

    Attributes:
        unit: set where all count the same.
        rows: label, name, value, interval, n, independent units, and what each is compared with.
        methods: how their intervals were made.
    """

    label: str
    meaning: str
    unit: str
    rows: tuple[tuple[str, ...], ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class MeasurementTable:
    """Groups of measurements, and the missing ones.

    `gaps` are label and name of these by the reason why there is no number.
    """

    groups: tuple[MeasurementGroup, ...]
    gaps: Mapping[str, Sequence[tuple[str, str]]]


def measurement_table(measurements: Sequence[Measurement], report: AttackText) -> MeasurementTable:
    """Lay out every measurement by the first part of its name, else in the record's order."""
    groups: dict[str, list[Estimate]] = {}
    gaps: dict[str, list[tuple[str, str]]] = {}
    for item in measurements:
        if isinstance(item, Estimate):
            groups.setdefault(report.metric(item.name).label, []).append(item)
        else:
            gaps.setdefault(gap(item), []).append((report.label(item.name), item.name))
    return MeasurementTable(
        tuple(_measurement_group(items, report) for items in groups.values()), gaps
    )


def _measurement_group(items: Sequence[Estimate], report: AttackText) -> MeasurementGroup:
    """Make the rows of estimates of one metric; a unit that all share is named once."""
    units = {item.unit for item in items}
    unit = units.pop() if len(units) == 1 else ""
    rows = tuple(_measurement_row(item, report, unit) for item in items)
    methods = tuple(dict.fromkeys(item.method for item in items))
    metric = report.metric(items[0].name)
    return MeasurementGroup(metric.label, metric.meaning, unit, rows, methods)


def _measurement_row(item: Estimate, report: AttackText, unit: str) -> tuple[str, ...]:
    """Write an estimate as cells: qualifier, name, value, interval, units, clusters and null.

    `unit`: the unit that the whole group counts; empty where the row has to name its own.
    """
    form = report.metric(item.name).form
    n = f"{item.n:,}"
    if not unit:
        n = f"{n}{numbers.NBSP}{item.unit}"
    return (
        report.qualifier(item.name) or "overall",
        item.name,
        _value_with_count(item, report),
        f"{numbers.interval(item, form, 3)}{_other_level(item)}",
        n,
        f"{item.clusters:,}",
        _null_with_kind(item, form),
    )


def _value_with_count(item: Estimate, report: AttackText) -> str:
    """Write a value, with the count behind a share that is one of whole units."""
    metric = report.metric(item.name)
    value = numbers.amount(item, metric.form, 3)
    if metric.form != "share" or not metric.counted:
        return value
    hits = numbers.exact_count(item)
    return value if hits is None else f"{value} ({hits:,})"


def _other_level(item: Estimate) -> str:
    """Name the level of an interval; empty where it is the usual one."""
    if item.level == 0.95:
        return ""
    return f" ({numbers.show(item.level, 'share')})"


def _null_with_kind(item: Estimate, form: Form) -> str:
    """Write what a number is compared with, and where that comes from."""
    if item.null is None:
        return "none"
    null = numbers.show(item.null, form, 3)
    kind = NULL_LABELS.get(item.null_kind or "", "")
    return f"{null} ({kind})" if kind else null


@dataclass(frozen=True)
class TableCell:
    """A number with both ends of its interval (without unit), and its count of units.

    Empty: no number.

    Where `missing` is set, `value` says why there is none. `note` is printed under the number.
    """

    value: str = ""
    between: str = ""
    counted: str = ""
    note: str = ""
    missing: bool = False


@dataclass(frozen=True)
class CompactRow:
    """A row with its label and how many units (and independent ones) its numbers come from."""

    label: str
    units: str
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class CompactTable:
    """A table whose columns are metrics.

    `gaps` are the reasons for numbers that could not be resolved.

    `units` is how many units there are when that is the same in all rows, whose own `units` are
    empty then.
    """

    caption: str
    units: str
    columns: tuple[str, ...]
    rows: tuple[CompactRow, ...]
    gaps: tuple[str, ...]


def cell(
    item: Estimate | Unresolved | None, report: AttackText, counted: bool = False
) -> TableCell:
    """Return one number of a compact table, with the count behind a share if that is asked for."""
    if item is None:
        return TableCell()
    if isinstance(item, Unresolved):
        return TableCell("not resolved", missing=True)
    form = report.metric(item.name).form
    reached = numbers.reached(item) if counted else ""
    return TableCell(numbers.show(item.value, form), numbers.between(item, form), reached)


def compact_table(spec: TableSpec, index: ResultIndex, report: AttackText) -> CompactTable:
    """Fill one table of a part, without rows for which nothing was measured."""
    rows: list[CompactRow] = []
    gaps: dict[str, None] = {}
    for row in spec.rows:
        items = _measurements_of_row(row, spec.columns, index)
        if any(item is not None for item in items):
            rows.append(_compact_row(row, spec.columns, items, report))
        for item in items:
            if isinstance(item, Unresolved):
                gaps[gap(item)] = None
    common = _common_units(rows)
    if common:
        rows = [replace(row, units="") for row in rows]
    return CompactTable(
        caption=spec.caption,
        units=common,
        columns=tuple(column.label for column in spec.columns),
        rows=tuple(rows),
        gaps=tuple(gaps),
    )


def _measurements_of_row(
    row: TableRow, columns: Sequence[TableColumn], index: ResultIndex
) -> list[Estimate | Unresolved | None]:
    """Return the measurement of each cell of a row; None where the record lacks it."""
    names = [row.name(column.metric, column.after) for column in columns]
    return [_find_measurement(index, name) for name in names]


def _compact_row(
    row: TableRow,
    columns: Sequence[TableColumn],
    items: Sequence[Estimate | Unresolved | None],
    report: AttackText,
) -> CompactRow:
    """Fill one row; it says how many units it counts where no cell does."""
    cells = []
    for item, column in zip(items, columns, strict=True):
        cells.append(_fill_cell(item, report, column, row))
    units = ""
    if not any(column.n for column in columns):
        units = _count_units([item for item in items if item is not None])
    return CompactRow(row.label, units, tuple(cells))


def _common_units(rows: Sequence[CompactRow]) -> str:
    """Return the units that all of several rows count; empty where they differ."""
    units = {row.units for row in rows if row.units}
    if len(units) == 1 and len(rows) > 1:
        return units.pop()
    return ""


def _find_measurement(index: ResultIndex, name: str | None) -> Estimate | Unresolved | None:
    """Return the measurement of this name from the index; None without a name."""
    return None if name is None else index.find(name)


def _fill_cell(
    item: Estimate | Unresolved | None, report: AttackText, column: TableColumn, row: TableRow
) -> TableCell:
    """Fill a cell with the number that its column asks for, or with its null, and the note."""
    note = ""
    if column.n and isinstance(item, Estimate):
        note = f"n{numbers.NBSP}={numbers.NBSP}{item.n:,}"
    return replace(_number_cell(item, report, column, row), note=note)


def _number_cell(
    item: Estimate | Unresolved | None, report: AttackText, column: TableColumn, row: TableRow
) -> TableCell:
    """Fill a cell with the number of a column, or with the null of that number."""
    if item is None and row.instead:
        return TableCell("–")
    if not column.null:
        return cell(item, report, column.counted)
    if not isinstance(item, Estimate) or item.null is None:
        return TableCell()
    return TableCell(numbers.show(item.null, report.metric(column.metric).form))


def gap(item: Unresolved) -> str:
    """Return why a number is missing."""
    needed = f", {item.needed:,} needed" if item.needed is not None else ""
    return f"{item.reason} (n = {item.n:,}{needed})"


def _count_units(items: Sequence[Estimate | Unresolved]) -> str:
    """Count the units of the number that averages most of them: the others are parts of these."""
    largest = max(
        (item for item in items if isinstance(item, Estimate)),
        key=lambda item: item.n,
        default=None,
    )
    if largest is None:
        return ""
    independent = f", {largest.clusters:,} independent" if largest.clusters != largest.n else ""
    return f"n = {largest.n:,} {largest.unit}{independent}"
