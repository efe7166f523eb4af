"""Limits as the decision report shows them: what was measured in a table, all else in a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.policy import Decision, Outcome
from audit.policy.looser import Looser
from audit.report.tables import OUTCOME_LABELS, DecisionRow

CONFIRMED = "the leak is confirmed over the limit"
WITHIN = "the whole interval is within the limit"


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
