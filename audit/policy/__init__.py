"""A policy, and what it says about a record. Pure: the one place where a verdict is reached."""

from audit.policy.decision import EXIT_CODES, Decision, Outcome, Overall, Verdict
from audit.policy.guarantee import contradiction
from audit.policy.limits import Gap, Limit, Policy, Waiver, check_names, check_ranges, load
from audit.policy.verdict import SIGNIFICANCE, evaluate, today

__all__ = [
    "EXIT_CODES",
    "SIGNIFICANCE",
    "Decision",
    "Gap",
    "Limit",
    "Outcome",
    "Overall",
    "Policy",
    "Verdict",
    "Waiver",
    "check_names",
    "check_ranges",
    "contradiction",
    "evaluate",
    "load",
    "today",
]
