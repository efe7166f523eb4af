"""What became of each limit since an earlier scan, drawn from the comparison of both."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from audit.compare.comparison import Comparison, MetricChange
from audit.policy import Decision
from audit.policy.decision import Baseline, Change, ComparedLimit

ABOUT_TEXT = "concerns the documents themselves, whatever the model"
UNMEASURED = "neither scan measured it"


def baseline_of(
    comparison: Comparison, decisions: Sequence[Decision], record_sha256: str
) -> Baseline:
    """Summarise a comparison as the baseline of a verdict.

    Args:
        comparison: comparison of the earlier scan with the one that is judged.
        decisions: decisions on the limits of the policy.
        record_sha256: digest of the earlier scan's record.
    """
    limits: dict[tuple[str, str], ComparedLimit] = {}
    for decision in decisions:
        limit = _compared_limit(decision, comparison)
        limits[limit.attack, limit.metric] = limit
    old = comparison.old
    return Baseline(
        record_sha256,
        old.subject,
        old.sha256,
        old.scanned,
        old.docaudit,
        tuple(limits.values()),
        comparison.notes,
    )


def _compared_limit(decision: Decision, comparison: Comparison) -> ComparedLimit:
    """Summarise the change of a limit, by its worst method."""
    attack = decision.limit.attack
    metric = decision.limit.metric
    changes = [
        change
        for change in comparison.changes
        if change.attack == attack and metric in change.limits
    ]
    if not changes:
        return ComparedLimit(attack, metric, "not compared", _why_absent(decision, comparison))
    outcome, reason = _worst_change(changes)
    return ComparedLimit(attack, metric, outcome, reason)


def _worst_change(changes: Sequence[MetricChange]) -> tuple[Change, str]:
    """Return the outcome of a limit: better only where every compared method is better."""
    groups = _group(changes)
    if groups.worse:
        return "worse", max(groups.worse, key=_size_of_change).words
    if groups.lost:
        last = groups.lost[-1]
        return "no longer measured", f"{last.metric} was measured in the baseline: {last.reason}"
    if groups.undecided:
        largest = max(groups.undecided, key=_size_of_change)
        return "cannot be told", f"{largest.words}: {largest.reason}"
    if groups.lower:
        smallest = min(groups.lower, key=_size_of_change)
        return "lower", f"{smallest.words}; not called better: {smallest.reason}"
    if groups.better:
        return "better", min(groups.better, key=_size_of_change).words
    return "not compared", changes[0].reason


@dataclass
class _Groups:
    """The changes of the methods of one limit, by what became of them."""

    worse: list[MetricChange] = field(default_factory=list)
    lost: list[MetricChange] = field(default_factory=list)
    undecided: list[MetricChange] = field(default_factory=list)
    lower: list[MetricChange] = field(default_factory=list)
    better: list[MetricChange] = field(default_factory=list)


def _group(changes: Sequence[MetricChange]) -> _Groups:
    """Group changes; those that could not be compared are in no group."""
    groups = _Groups()
    for change in changes:
        if change.outcome == "worse":
            groups.worse.append(change)
        elif change.lost:
            groups.lost.append(change)
        elif not change.compared:
            continue
        elif change.outcome == "better":
            groups.better.append(change)
        elif change.outcome == "lower":
            groups.lower.append(change)
        else:
            groups.undecided.append(change)
    return groups


def _why_absent(decision: Decision, comparison: Comparison) -> str:
    """Explain why a limit has no number in either scan."""
    if decision.about_text:
        return ABOUT_TEXT
    for missing in comparison.missing:
        if missing.attack == decision.limit.attack:
            return missing.reason
    return UNMEASURED


def _size_of_change(change: MetricChange) -> float:
    """Return the size of a change; 0 where there is none."""
    if change.difference is None:
        return 0.0
    return abs(change.difference.value)
