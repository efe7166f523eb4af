"""Countermeasures compared with the model as it was: limits, usefulness, memory (Pinto et al. 2024, tables 1, 2).

Everything shown was measured elsewhere: the records of the scans before and after, and paired differences over the same
questions. Nothing is computed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audit.attacks.text import AttackText, sentence_case
from audit.errors import DocauditError, RecordError
from audit.measurements import Estimate, Measurement, Unresolved
from audit.policy import Policy
from audit.record import AuditRecord, Completed
from audit.report import compact, defense_battery, defense_choice, numbers
from audit.report.conditions import conditions
from audit.report.files import remove, write_pages
from audit.report.guarantee import card_view
from audit.report.jinja import environment, template_errors
from audit.report.labels import report_of

if TYPE_CHECKING:
    from audit.defenses.comparison import Change
    from audit.defenses.measured import Comparison

HTML_NAME = "defences.html"
PDF_NAME = "defences.pdf"
ATTACK = "memorisation"
EXACT = "exact"
"""The context with page and question as in training, as paired differences call it; its metrics have no suffix."""
PER_TABLE = 2
"""Countermeasures in one table of contexts, next to the model as it was (chosen here: what fits on A4)."""
MEMORISED, NET, ANLS = "memorised", "net", "anls"
"""The three numbers that a countermeasure is judged by, as paired differences call them."""
MEMBERS, READING = "memorised.member", "anls.heldout.target"
"""|M| / n and held-out ANLS, as the attack's metrics call them."""


@dataclass(frozen=True)
class DefenseRow:
    """A countermeasure, or the model as it was.

    Attributes:
        name: its label: "Extraction blocking"; for the first row "As it was".
        record: the scan with the countermeasure in place.
        changes: paired differences from the first row; empty for the first row itself.
        side_channel: AUC of "the model says that the answer is not there" as a sign of membership; None: not measured.
        comparison: of the whole battery; None: of memorised answers alone, as in older comparisons.
    """

    name: str
    record: AuditRecord
    changes: tuple[Change, ...] = ()
    side_channel: Measurement | None = None
    comparison: Comparison | None = None

    def measured(self, name: str) -> Estimate | Unresolved | None:
        """A measurement of the memorisation attack; None when the record lacks it."""
        return next((item for item in _attack(self.record).measurements if item.name == name), None)

    def change(self, metric: str, context: str) -> Change | None:
        """A paired difference from the first row."""
        return next((item for item in self.changes if (item.metric, item.context) == (metric, context)), None)


@dataclass(frozen=True)
class Compared:
    """A number of one row: as it is now, and its difference from the first row (empty there)."""

    now: compact.TableCell
    difference: str = ""


@dataclass(frozen=True)
class ComparisonLine:
    """A row of the first table."""

    name: str
    units: str
    memorised: Compared
    net: Compared
    anls: Compared
    side_channel: compact.TableCell
    derived_by: tuple[str, ...]
    confounded: str | None


@dataclass(frozen=True)
class ContextLine:
    """A row of the second table: a context, and |M| and net of each row of the first."""

    label: str
    cells: tuple[tuple[Compared, Compared], ...]


def write(
    rows: Sequence[DefenseRow], out: Path, policy: Policy | None = None, left_out: Mapping[str, str] | None = None
) -> list[str]:
    """Write `defences.html` and `defences.pdf` into `out`, each whole or not at all.

    Args:
        rows: the model as it was first, then the countermeasures, at least one.
        out: an existing folder.
        policy: by which the scans were judged; None: nothing is said of it.
        left_out: countermeasures that do not apply, with the reasons.

    Returns:
        Warnings, one line each: why there is no PDF.

    Raises:
        RecordError: the records cannot be compared, with every difference.
        RenderError: the HTML could not be drawn.
        EngineError: the HTML could not be written.
    """
    try:
        check_comparable(rows)
        text = html(rows, policy, left_out or {})
    except DocauditError as error:
        remove(out / HTML_NAME, out / PDF_NAME, after=error)
        raise
    return list(write_pages(text, out / HTML_NAME, out / PDF_NAME))


def check_comparable(rows: Sequence[DefenseRow]) -> None:
    """Refuse records that differ in more than the countermeasure.

    Raises:
        RecordError: fewer than two records, one without a finished memorisation attack where nothing else is compared,
            or every difference.
    """
    if len(rows) < 2:
        raise RecordError("no countermeasure to compare", "give the record before and at least one after")
    alone = any(row.comparison is None for row in rows[1:])
    lacking = [
        f"{row.name}: the memorisation attack did not run to its end" for row in rows if alone and not _ran(row.record)
    ]
    if lacking:
        raise RecordError(lacking, "scan with --only memorisation and see why")
    first = _conditions(rows[0].record)
    problems = [
        f"{row.name} and {rows[0].name} differ in {what}"
        for row in rows[1:]
        for what, own in _conditions(row.record).items()
        if own != first[what] and None not in (own, first[what])
    ]
    if problems:
        raise RecordError(problems, "scan both with the same data, seed and budget")


def _conditions(record: AuditRecord) -> dict[str, object]:
    """What must not differ, by label."""
    return {
        **conditions(record),
        # As JSON: a record that was read has lists where one that was just made has tuples.
        "the parameters of the attack": json.dumps(_attack(record).parameters) if _ran(record) else None,
    }


def _ran(record: AuditRecord) -> bool:
    return any(isinstance(result, Completed) and result.attack == ATTACK for result in record.attacks)


def _attack(record: AuditRecord) -> Completed:
    return next(item for item in record.attacks if isinstance(item, Completed) and item.attack == ATTACK)


def html(rows: Sequence[DefenseRow], policy: Policy | None = None, left_out: Mapping[str, str] | None = None) -> str:
    """Draw the whole page.

    Args:
        rows: comparable, the model as it was first.
        policy: by which the scans were judged.
        left_out: countermeasures that do not apply, with the reasons.

    Raises:
        RenderError: a template is missing or broken.
    """
    with template_errors():
        templates = environment()
        report, membership = report_of(ATTACK), report_of("membership")
        told = rows if all(_ran(row.record) for row in rows) else []
        lines = [_line(row, report, membership) for row in told]
        comparisons = [row.comparison for row in rows if row.comparison is not None]
        return templates.get_template("defenses.html").render(
            rows=rows,
            first=rows[0].record,
            finished=max(row.record.timing.finished for row in rows),
            lines=lines,
            policy=policy,
            left_out=left_out or {},
            views=[defense_battery.view_of(one) for one in comparisons],
            choice=defense_choice.view_of(comparisons) if len(comparisons) > 1 else None,
            percent=defense_choice.percent,
            guarantees=[(row.name, view) for row in rows if (view := card_view(row.record)) is not None],
            verdicts=[defense_choice.cheapest_sentence(comparisons)] if comparisons else [],
            sentences=[sentence(row) for row in told[1:]],
            tables=[(part, _contexts(part, report)) for part in _parts(told)] if told else [],
            side_channel=any(line.side_channel.value for line in lines),
            gaps=_gaps(told, report),
            methods=_methods(told, report),
        )


def sentence(row: DefenseRow) -> str:
    """Return what the paired differences say about one countermeasure, and no more."""
    net, anls = row.change(NET, EXACT), row.change(ANLS, "")
    clauses = []
    for change, falls, rises in (
        (net, "less is answered from memory", "more is answered from memory"),
        (anls, "the model answers worse", "the model answers better"),
    ):
        if change is None:
            continue
        measure = "net" if change is net else "held-out ANLS"
        shown = _difference(change)
        if change.difference.high < 0:
            clauses.append(f"{falls}: {measure} {shown}")
        elif change.difference.low > 0:
            clauses.append(f"{rises}: {measure} {shown}")
        else:
            clauses.append(f"no change of {measure} could be shown: {shown}")
    if not clauses:
        return f"{row.name}: no paired difference was measured, so nothing is said about its effect."
    left = [item for item in row.changes if item.metric == NET and item.context != EXACT and item.after.low > 0]
    tried = [item for item in row.changes if item.metric == NET and item.context != EXACT]
    if tried:
        clauses.append(f"memory still shows in {len(left)} of {len(tried)} other contexts")
    return f"{row.name}: {'; '.join(clauses)}."


def _difference(change: Change) -> str:
    """A paired difference with its interval and p, as text."""
    item = change.difference
    p = "under 0.0001" if change.p < 0.0001 else f"{change.p:.2g}"
    return f"{_signed(item.value)} ({numbers.between(item, 'points')}; p {p})"


def _signed(value: float) -> str:
    shown = numbers.show(value, "points")
    return f"+{shown}" if value > 0 else shown


def _line(row: DefenseRow, report: AttackText, membership: AttackText) -> ComparisonLine:
    net = row.measured(NET)
    return ComparisonLine(
        name=row.name,
        units=f"n = {net.n:,} {net.unit}, {net.clusters:,} independent" if isinstance(net, Estimate) else "",
        memorised=_compared(row, MEMORISED, EXACT, MEMBERS, report, counted=True),
        net=_compared(row, NET, EXACT, NET, report),
        anls=_compared(row, ANLS, "", READING, report),
        side_channel=compact.cell(row.side_channel, membership) if row.side_channel else compact.TableCell(),
        derived_by=row.record.derived_by,
        confounded=_attack(row.record).confounded,
    )


def _compared(
    row: DefenseRow, metric: str, context: str, name: str, report: AttackText, counted: bool = False
) -> Compared:
    now = compact.cell(row.measured(name), report, "count first" if counted else "value")
    change = row.change(metric, context)
    return Compared(now, _difference(change) if change else "")


def _parts(rows: Sequence[DefenseRow]) -> list[tuple[DefenseRow, ...]]:
    """The first row with a few others at a time: more columns do not fit on a page."""
    return [(rows[0], *rows[start : start + PER_TABLE]) for start in range(1, len(rows), PER_TABLE)]


def _contexts(rows: Sequence[DefenseRow], report: AttackText) -> list[ContextLine]:
    """Every context that the first record holds, the one of training first."""
    own = {item.name.removeprefix(f"{NET}.") for item in _attack(rows[0].record).measurements}
    tried = [name for name in report.qualifiers["changed"] if name in own]
    return [
        ContextLine(
            sentence_case(report.qualifier(f"{NET}.{name}")),
            tuple(_in_context(row, name, "" if name == EXACT else f".{name}", report) for row in rows),
        )
        for name in [EXACT, *tried]
    ]


def _in_context(row: DefenseRow, name: str, suffix: str, report: AttackText) -> tuple[Compared, Compared]:
    return (
        _compared(row, MEMORISED, name, f"{MEMBERS}{suffix}", report, counted=True),
        _compared(row, NET, name, f"{NET}{suffix}", report),
    )


def _shown(rows: Sequence[DefenseRow], report: AttackText) -> list[Estimate | Unresolved]:
    """Every measurement behind a number of the tables."""
    used = [
        name
        for context in ("", *(f".{name}" for name in report.qualifiers["changed"]))
        for name in (NET + context, MEMBERS + context)
    ]
    return [item for row in rows for name in (*used, READING) if (item := row.measured(name)) is not None]


def _gaps(rows: Sequence[DefenseRow], report: AttackText) -> list[str]:
    return list(dict.fromkeys(compact.gap(item) for item in _shown(rows, report) if isinstance(item, Unresolved)))


def _methods(rows: Sequence[DefenseRow], report: AttackText) -> list[str]:
    paired = [change.difference.method for row in rows for change in row.changes]
    return list(dict.fromkeys([*(item.method for item in _shown(rows, report) if isinstance(item, Estimate)), *paired]))
