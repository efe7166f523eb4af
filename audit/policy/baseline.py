"""A verdict held against an earlier scan as well: no limit may have become worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.policy.compared import Baseline, ComparedLimit
from audit.policy.counts import count
from audit.policy.decision import EXIT_CODES, Decision, Verdict

WORSE = "worse than in the baseline"
REGRESSED = f"{WORSE}, beyond the interval of the change"
UNCOMPARED = "no limit could be compared with the baseline"
_NAMED = 3
"""Limits that the sentence of a verdict names (ours); each says its change itself."""
_REMEDY = "measure it as in the baseline, or choose another baseline"


def hold_against_baseline(verdict: Verdict, baseline: Baseline) -> Verdict:
    """Let what became worse violate its limit, and let nothing pass that the baseline measured and this scan did not.

    A waiver accepts the violation of a limit, not that it becomes worse.

    Args:
        verdict: by the policy alone.
        baseline: what became of each limit.
    """
    changed = {(limit.attack, limit.metric): limit for limit in baseline.limits}
    decisions = tuple(_decide(one, changed.get((one.limit.attack, one.limit.metric))) for one in verdict.decisions)
    alone = f"by the policy alone: {verdict.overall}, {verdict.reason}"
    counts = count([decision for decision in decisions if not decision.about_text])
    verdict = replace(verdict, decisions=decisions, counts=counts, baseline=baseline)
    worse, lost = baseline.of("worse"), baseline.of("no longer measured")
    if worse:
        reason = f"{_counted(worse)} {WORSE}: {_named(worse)}; {alone}"
        return replace(verdict, overall="violated", exit_code=EXIT_CODES["violated"], reason=reason)
    if lost or not baseline.compared:
        gone = f"{_counted(lost)} measured in the baseline and not in this record: {_named(lost)}"
        return _undecided(verdict, f"{gone if lost else UNCOMPARED}; {alone}")
    return verdict


def _undecided(verdict: Verdict, reason: str) -> Verdict:
    if verdict.overall == "violated":
        return verdict
    exit_code = verdict.exit_code or EXIT_CODES["undecided"]
    return replace(verdict, overall="undecided", exit_code=exit_code, reason=reason)


def _named(limits: Sequence[ComparedLimit]) -> str:
    """The first limits by name, the metrics of an attack together, and how many there are besides."""
    by_attack: dict[str, list[str]] = {}
    for limit in limits[:_NAMED]:
        by_attack.setdefault(limit.attack, []).append(limit.metric)
    named = "; ".join(f"{attack} {', '.join(metrics)}" for attack, metrics in by_attack.items())
    return f"{named} and {len(limits) - _NAMED} more" if len(limits) > _NAMED else named


def _counted(limits: Sequence[ComparedLimit]) -> str:
    return "1 limit is" if len(limits) == 1 else f"{len(limits)} limits are"


def _decide(decision: Decision, change: ComparedLimit | None) -> Decision:
    if change is not None and change.outcome == "worse":
        reason = f"{REGRESSED}: {change.reason}"
        if decision.outcome == "violated":
            reason = f"{decision.reason}; {reason}"
        if decision.waiver is not None:
            reason = f"{reason}; its waiver accepts the leak, not a larger one"
        return replace(decision, outcome="violated", reason=reason, remedy="", waiver=None, cause=None)
    lost = change is not None and change.outcome == "no longer measured"
    if change is not None and lost and decision.outcome not in ("violated", "undecided"):
        return replace(
            decision, outcome="undecided", reason=change.reason, remedy=_REMEDY, waiver=None, cause="unmeasured"
        )
    return decision
