"""Compare an audit with the last one, limit by limit, for the decision report."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.attacks import text_of
from audit.policy import Decision, Verdict
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.labels import LABELS
from audit.report.tables import OUTCOME_LABELS

VERDICTS = LABELS["verdicts"]
COMPARED = ("model", "data set", "budget", "seed")


@dataclass(frozen=True)
class ChangeRow:
    """Hold one limit in both audits; an empty side has no number."""

    title: str
    label: str
    before: str
    before_outcome: str
    after: str
    outcome: str


@dataclass(frozen=True)
class Changes:
    """Hold the differences of two audits under the same policy.

    Attributes:
        date: when the earlier scan ended.
        before, after: both verdicts in words.
        differs: what is not the same in both scans, so that numbers are not strictly comparable.
        rows: limits whose result or number changed.
        same: how many limits changed neither.
    """

    date: str
    before: str
    after: str
    differs: tuple[str, ...]
    rows: tuple[ChangeRow, ...]
    same: int


def compare(
    previous: AuditRecord, earlier: Verdict, record: AuditRecord, verdict: Verdict
) -> Changes:
    """Compare an audit with an earlier one; both verdicts are of the same policy."""
    earlier_decisions = {_limit_key(decision): decision for decision in earlier.decisions}
    rows = [
        _change_row(earlier_decisions[_limit_key(decision)], decision)
        for decision in verdict.decisions
        if _limit_key(decision) in earlier_decisions
    ]
    changed = [row for row in rows if (row.before, row.before_outcome) != (row.after, row.outcome)]
    sides = zip(COMPARED, _identity(previous), _identity(record), strict=True)
    return Changes(
        date=previous.timing.finished,
        before=VERDICTS[earlier.overall],
        after=VERDICTS[verdict.overall],
        differs=tuple(name for name, before, after in sides if before != after),
        rows=tuple(changed),
        same=len(rows) - len(changed),
    )


def _limit_key(decision: Decision) -> tuple[str, str]:
    """Return attack and metric of a decision's limit, the key that pairs it with an earlier one."""
    return decision.limit.attack, decision.limit.metric


def _identity(record: AuditRecord) -> Sequence[object]:
    """Return the values of a record that `COMPARED` lists: what both audits must share."""
    sampling = (record.budget, record.share, record.shares, record.bounds)
    return record.target.sha256, record.corpus.sha256, sampling, record.seed


def _change_row(old: Decision, new: Decision) -> ChangeRow:
    """Make the table row that compares two decisions on a limit, both with number and outcome."""
    text = text_of(new.limit.attack)
    return ChangeRow(
        title=text.title or new.limit.attack,
        label=text.label(new.limit.metric),
        before=_number_with_interval(old),
        before_outcome=OUTCOME_LABELS[old.outcome],
        after=_number_with_interval(new),
        outcome=OUTCOME_LABELS[new.outcome],
    )


def _number_with_interval(decision: Decision) -> str:
    """Write the measured number of a decision with its interval; empty where none was measured."""
    item = decision.measured
    if item is None:
        return ""
    form = text_of(decision.limit.attack).metric(decision.limit.metric).form
    return f"{numbers.show(item.value, form)} ({numbers.interval(item, form)})"
