"""A verdict held against an earlier scan as well: no limit may have become worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from audit.policy.counts import count
from audit.policy.decision import EXIT_CODES, Decision, Verdict
from audit.policy.limits import Policy

LimitKey = tuple[str, str]
"""Attack and metric of a limit."""
REGRESSED = "worse than in the baseline, beyond the interval of the change"
UNCOMPARED = "no limit could be compared with the baseline"
_TOLD = 3
"""Changes that the sentence of a verdict tells in full."""
_REMEDY = "measure it as in the baseline, or choose another baseline"


def hold_against_baseline(
    verdict: Verdict,
    policy: Policy,
    worse: Mapping[LimitKey, str],
    lost: Mapping[LimitKey, str],
    *,
    compared: bool,
) -> Verdict:
    """Let what became worse violate its limit, and let nothing pass that the baseline measured and this scan did not.

    A waiver accepts the violation of a limit, not that it becomes worse.

    Args:
        verdict: by the policy alone.
        policy: that it is by.
        worse: the change of every limit that became worse, as text.
        lost: for every limit that cannot be compared any more, why.
        compared: whether any limit could be compared.
    """
    decisions = tuple(_decide(decision, worse, lost) for decision in verdict.decisions)
    alone = f"by the policy alone: {verdict.overall}, {verdict.reason}"
    counts = count([decision for decision in decisions if not decision.about_text])
    verdict = replace(verdict, decisions=decisions, counts=counts)
    if worse:
        told = ", ".join(_told(index, key, worse[key]) for index, key in enumerate(worse))
        reason = f"{_counted(worse)} {REGRESSED}: {told}; {alone}"
        return replace(verdict, overall="violated", exit_code=EXIT_CODES["violated"], reason=reason)
    if lost or not compared:
        told = ", ".join(f"{attack} {metric}" for attack, metric in lost)
        reason = f"{_counted(lost)} measured in the baseline and not in this record: {told}" if lost else UNCOMPARED
        return _undecided(verdict, policy, f"{reason}; {alone}")
    return verdict


def _undecided(verdict: Verdict, policy: Policy, reason: str) -> Verdict:
    if verdict.overall == "violated":
        return verdict
    warned = policy.undecided == "warn"
    exit_code = verdict.exit_code or (0 if warned else EXIT_CODES["undecided"])
    return replace(verdict, overall="undecided", exit_code=exit_code, reason=reason)


def _told(index: int, key: LimitKey, change: str) -> str:
    name = " ".join(key)
    return f"{name} ({change})" if index < _TOLD else name


def _counted(limits: Mapping[LimitKey, str]) -> str:
    return "1 limit is" if len(limits) == 1 else f"{len(limits)} limits are"


def _decide(decision: Decision, worse: Mapping[LimitKey, str], lost: Mapping[LimitKey, str]) -> Decision:
    key = (decision.limit.attack, decision.limit.metric)
    if key in worse:
        reason = f"{REGRESSED}: {worse[key]}"
        if decision.outcome == "violated":
            reason = f"{decision.reason}; {reason}"
        if decision.waiver is not None:
            reason = f"{reason}; its waiver accepts the leak, not a larger one"
        return replace(decision, outcome="violated", reason=reason, remedy="", waiver=None, cause=None)
    if key in lost and decision.outcome not in ("violated", "undecided"):
        return replace(decision, outcome="undecided", reason=lost[key], remedy=_REMEDY, waiver=None, cause="unmeasured")
    return decision
