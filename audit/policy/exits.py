"""Exit codes of verdicts, and which undecided limits a policy that warns lets through."""

from __future__ import annotations

from collections.abc import Sequence

from audit.policy.decision import EXIT_CODES, Cause, Decision, Overall
from audit.policy.limits import Policy

WIDTH: frozenset[Cause] = frozenset({"wide", "unresolved"})
"""Causes that more documents would mend, and that say nothing for or against a leak."""


def lets_through(policy: Policy, decision: Decision) -> bool:
    """Tell whether the policy warns of an undecided limit instead of failing: its interval is too wide, and no more."""
    return policy.undecided == "warn" and decision.outcome == "undecided" and _is_width(decision)


def exit_code(policy: Policy, overall: Overall, decisions: Sequence[Decision]) -> tuple[int, str]:
    """Return the exit code of an outcome, and a clause on what `undecided = "warn"` does not cover, or empty.

    Args:
        policy: that was held against the record.
        overall: the outcome.
        decisions: those that it follows from.
    """
    if overall != "undecided" or policy.undecided == "fail":
        return EXIT_CODES[overall], ""
    undecided = [one for one in decisions if one.outcome == "undecided"]
    other = next((one for one in undecided if not _is_width(one)), None)
    if undecided and other is None:
        return 0, ""
    cause = "an audit that decides nothing" if other is None else _named(other)
    return EXIT_CODES["undecided"], f'; undecided = "warn" covers width alone, not {cause}'


def _is_width(decision: Decision) -> bool:
    return decision.cause in WIDTH and not _is_over(decision)


def _is_over(decision: Decision) -> bool:
    most, measured = decision.limit.max, decision.measured
    return most is not None and measured is not None and measured.low > most


def _named(decision: Decision) -> str:
    cause = "the interval lies over the limit" if decision.cause in WIDTH else decision.cause
    return f"{decision.limit.attack} {decision.limit.metric} ({cause})"
