"""Rows for the report's tables: decisions and measurements, as text. Nothing is computed, only laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.attacks.text import AttackText
from audit.measurements import Estimate, Measurement, Unresolved
from audit.policy import Decision, Outcome
from audit.policy.identity import Looser
from audit.report import numbers
from audit.report.compact import gap

OUTCOME_LABELS = {
    "violated": "Violated",
    "undecided": "Undecided",
    "waived": "Waived",
    "passed": "Met",
    "not run": "Not tested",
    "inapplicable": "Does not apply",
}
"""What a decision on one limit is called; the order is the one in which page one shows them."""
NULL_LABELS = {
    "chance": "chance",
    "public model": "public",
    "held-out": "unseen",
    "blind": "no model",
}

CONFIRMED = "the leak is confirmed over the limit"
WITHIN = "the whole interval is within the limit"


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
    weak: bool
    p_value: str
    gauge: Gauge | None


@dataclass(frozen=True)
class MeasurementRow:
    """One measurement that could be resolved."""

    name: str
    label: str
    value: str
    between: str
    n: str
    clusters: str
    null: str
    method: str


@dataclass(frozen=True)
class MeasurementGroup:
    """The measurements that share the first part of their name; `unit` is set where all count the same."""

    label: str
    meaning: str
    unit: str
    rows: tuple[MeasurementRow, ...]


@dataclass(frozen=True)
class MissingMeasurements:
    """Why measurements are missing, and which: what they are called, and what each of them is, with its name."""

    reason: str
    missing: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(frozen=True)
class MeasurementTable:
    """Groups of measurements, the missing ones by reason, and a letter for each way in which intervals were made."""

    groups: tuple[MeasurementGroup, ...]
    gaps: tuple[MissingMeasurements, ...]
    letters: dict[str, str]


def decision_row(decision: Decision, report: AttackText) -> DecisionRow:
    """A limit, the number it was held against and what came of it."""
    limit, measured = decision.limit, decision.measured
    form = report.form(limit.metric)
    bound = limit.max if limit.max is not None else (limit.min or 0.0)
    digits = 2
    if measured is not None:
        digits = numbers.distinct_digits(measured, bound, form)
    return DecisionRow(
        decision=decision,
        outcome=OUTCOME_LABELS[decision.outcome],
        label=report.label(limit.metric),
        meaning=report.meaning(limit.metric),
        limit=f"{'at most' if limit.max is not None else 'at least'} {numbers.limit_text(bound, form)}",
        measured=numbers.show(measured.value, form, digits) if measured else "",
        between=numbers.interval(measured, form, digits) if measured else "",
        n=_units(measured) if measured else "",
        power=_power(decision, report),
        weak=decision.cause == "weak",
        p_value=_p_value(decision.p_value),
        gauge=_gauge(measured, bound, limit.max is not None) if measured else None,
    )


def _power(decision: Decision, report: AttackText) -> str:
    """The attacker's strength against what the limit asks for; empty where neither is known."""
    power, wanted = decision.power, decision.limit.min_power
    if power is None or wanted is None:
        return ""
    form = report.form(power.name)
    digits = numbers.distinct_digits(power, wanted, form)
    return (
        f"{report.family(power.name)} {numbers.show(power.value, form, digits)}, "
        f"the policy asks for at least {numbers.limit_text(wanted, form)}"
    )


def _p_value(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "no evidence against the limit" if p_value >= 1 else f"p at most {p_value:.2g}"


def _gauge(measured: Estimate, limit: float, upper: bool) -> Gauge:
    """Scale from the lowest of everything (0 included) to the highest, with a little air on both sides."""
    lowest = min(0.0, measured.low, limit)
    highest = max(measured.high, 2 * limit if limit > 0 else limit)
    air = 0.06 * ((highest - lowest) or 1.0)
    start, span = lowest - air, (highest - lowest) + 2 * air

    def position(value: float) -> float:
        return round(100 * (value - start) / span, 2)

    low, value, high = position(measured.low), position(measured.value), position(measured.high)
    return Gauge(low, value, high, position(limit), position(0.0), upper)


def _units(estimate: Estimate) -> str:
    return f"{estimate.n:,}{numbers.NBSP}{estimate.unit}"


def measurement_table(measurements: Sequence[Measurement], report: AttackText) -> MeasurementTable:
    """Every measurement, grouped by the first part of its name, otherwise in the record's order."""
    estimates = [item for item in measurements if isinstance(item, Estimate)]
    letters = {method: _letter(index) for index, method in enumerate(dict.fromkeys(item.method for item in estimates))}
    groups: dict[str, list[Estimate]] = {}
    for item in estimates:
        groups.setdefault(report.family(item.name), []).append(item)
    return MeasurementTable(
        tuple(_group(items, report, letters) for items in groups.values()), _gaps(measurements, report), letters
    )


def _gaps(measurements: Sequence[Measurement], report: AttackText) -> tuple[MissingMeasurements, ...]:
    """What could not be resolved: a sentence for each measurement would fill pages with a few reasons."""
    reasons: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for item in measurements:
        if isinstance(item, Unresolved):
            missing = reasons.setdefault(gap(item), {}).setdefault(report.family(item.name), [])
            missing.append((report.qualifier(item.name), item.name))
    return tuple(
        MissingMeasurements(reason, tuple((family, tuple(items)) for family, items in missing.items()))
        for reason, missing in reasons.items()
    )


def _group(items: Sequence[Estimate], report: AttackText, letters: dict[str, str]) -> MeasurementGroup:
    units = {item.unit for item in items}
    unit = units.pop() if len(units) == 1 else ""
    rows = [measurement_row(item, report, letters) for item in items]
    if unit:
        rows = [replace(row, n=row.n.removesuffix(f"{numbers.NBSP}{unit}")) for row in rows]
    return MeasurementGroup(report.family(items[0].name), report.meaning(items[0].name), unit, tuple(rows))


def _letter(index: int) -> str:
    """a, b ... z, aa, ab ..."""
    first, last = divmod(index, 26)
    return (chr(ord("a") + first - 1) if first else "") + chr(ord("a") + last)


def measurement_row(item: Estimate, report: AttackText, letters: dict[str, str]) -> MeasurementRow:
    """One measurement with everything needed to trust it."""
    form = report.form(item.name)
    hits = numbers.exact_count(item) if report.counted(item.name) else None
    value = numbers.show(item.value, form, 3)
    level = "" if item.level == 0.95 else f" ({numbers.show(item.level, 'share')})"
    return MeasurementRow(
        name=item.name,
        label=report.qualifier(item.name) or "overall",
        value=value if hits is None else f"{value} ({hits:,})",
        between=numbers.interval(item, form, 3) + level,
        n=_units(item),
        clusters=f"{item.clusters:,}",
        null=_null(item, report),
        method=letters[item.method],
    )


def _null(item: Estimate, report: AttackText) -> str:
    if item.null is None:
        return "none"
    kind = NULL_LABELS.get(item.null_kind or "", "")
    return numbers.show(item.null, report.form(item.name), 3) + (f" ({kind})" if kind else "")


@dataclass(frozen=True)
class MeasuredLimit:
    """A limit that a number was held against; `note` says what its outcome does not say already."""

    row: DecisionRow
    note: str


@dataclass(frozen=True)
class OpenLimits:
    """Limits of one attack that ran and gave no number for them, and why."""

    title: str
    count: int
    outcome: str
    word: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class LimitTables:
    """The limits of a policy.

    Attributes:
        measured: by attack, the worst first.
        unmeasured: those for which an attack that ran gave no number.
        without: outcome, its word, and in a line the attacks that did not run, with the number of their limits.
        inapplicable: attacks that do not apply, with the number of their limits.
        looser: by attack and metric, that a limit asks less than the shipped one.
    """

    measured: tuple[tuple[str, tuple[MeasuredLimit, ...]], ...]
    unmeasured: tuple[OpenLimits, ...]
    without: tuple[tuple[str, str, str], ...]
    inapplicable: str
    looser: Mapping[tuple[str, str], str]


def limit_tables(
    rows: Sequence[tuple[str, DecisionRow]], ran: Collection[str], loose: Sequence[Looser] = ()
) -> LimitTables:
    """Sort limits by what is to be said of them.

    Args:
        rows: each limit with the title of its attack, in the order of the policy.
        ran: the attacks that ran to their end; what became of the others is told under what was not examined.
        loose: those that ask less than the shipped ones.
    """
    said = {(one.attack, one.metric): one.sentence for one in loose}
    order = list(OUTCOME_LABELS)
    worst = sorted(rows, key=lambda pair: order.index(pair[1].decision.outcome))
    measured: dict[str, list[MeasuredLimit]] = {}
    open_limits: Counter[tuple[str, Outcome, str, str]] = Counter()
    without: dict[Outcome, list[str]] = {}
    for title, row in worst:
        decision = row.decision
        if decision.measured is not None:
            measured.setdefault(title, []).append(MeasuredLimit(row, _note(row, said.get(_key(decision), ""))))
        elif decision.outcome != "inapplicable" and decision.limit.attack in ran:
            open_limits[title, decision.outcome, decision.reason, decision.remedy] += 1
        else:
            without.setdefault(decision.outcome, []).append(title)
    absent = without.pop("inapplicable", [])
    return LimitTables(
        tuple((title, _told_once(limits)) for title, limits in measured.items()),
        tuple(
            OpenLimits(title, count, outcome, OUTCOME_LABELS[outcome], reason, remedy)
            for (title, outcome, reason, remedy), count in open_limits.items()
        ),
        tuple((outcome, OUTCOME_LABELS[outcome], _counted(titles)) for outcome, titles in without.items()),
        _counted(absent),
        said,
    )


def _told_once(limits: Sequence[MeasuredLimit]) -> tuple[MeasuredLimit, ...]:
    """The limits, with a note that several in a row share under the last of them alone."""
    following = [*(limit.note for limit in limits[1:]), ""]
    return tuple(
        replace(limit, note="" if limit.note == after else limit.note)
        for limit, after in zip(limits, following, strict=True)
    )


def _counted(titles: Sequence[str]) -> str:
    counts = Counter(titles)
    return "; ".join(f"{title} ({count} limit{'s' if count != 1 else ''})" for title, count in counts.items())


def _key(decision: Decision) -> tuple[str, str]:
    return decision.limit.attack, decision.limit.metric


def _note(row: DecisionRow, looser: str = "") -> str:
    """The reason of a decision without what its outcome says already, what would decide it, and how loose it is."""
    return "; ".join(filter(None, (_reason(row), looser)))


def _reason(row: DecisionRow) -> str:
    decision = row.decision
    if decision.cause == "weakened":
        return "the attacker was not at its full strength, see what was not examined"
    reason = decision.reason
    for known in (CONFIRMED, WITHIN):
        reason = reason.removeprefix(known).lstrip(",; ")
    told = [reason]
    if decision.remedy:
        told.append(f"to decide it: {decision.remedy}")
    return "; ".join(part for part in told if part)
