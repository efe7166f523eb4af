"""An audit of a checkpoint in training as numbers for a log, and as one sentence for people."""

from __future__ import annotations

from collections.abc import Iterator

from audit.policy import EXIT_CODES, Decision, Verdict
from audit.report import numbers
from audit.report.labels import report_of
from audit.report.tables import decision_row

PREFIX = "docaudit/"
FAILED = 1
"""What a failed audit has in place of a verdict's exit code, as on the command line."""


def metrics(verdict: Verdict, seconds: float) -> dict[str, float]:
    """What a log gets of an audit: the numbers that limits were held against with their intervals, and the verdict.

    A number that could not be measured is left out, for there is none.
    """
    counts = verdict.counts
    said: dict[str, float] = {
        "audit_failed": 0,
        "exit_code": verdict.exit_code,
        "limits_met": counts.met,
        "limits_violated": counts.violated,
        "limits_undecided": counts.undecided,
        "seconds": round(seconds, 1),
    }
    said.update(_numbers(verdict))
    return {f"{PREFIX}{name}": value for name, value in said.items()}


def failed_metrics() -> dict[str, float]:
    """What a log gets of an audit that broke down: never the numbers of an earlier one, never those of a pass."""
    return {f"{PREFIX}audit_failed": 1, f"{PREFIX}exit_code": FAILED}


def is_violated(verdict: Verdict) -> bool:
    """Return whether a gate would refuse: a limit is violated, and nobody answers for it."""
    return verdict.exit_code == EXIT_CODES["violated"]


def sentence(verdict: Verdict) -> str:
    """The stamp, and why: the violated limits with their numbers, else the counts."""
    violated = [one for one in verdict.decisions if one.outcome == "violated"]
    why = [verdict.contradicted] if verdict.contradicted else []
    why += [violation(one) for one in violated] or [verdict.reason]
    return f"{verdict.stamp}: {'; '.join(why)}".replace(numbers.NBSP, " ")


def violation(decision: Decision) -> str:
    """A violated limit with the number it was held against and its interval."""
    row = decision_row(decision, report_of(decision.limit.attack))
    named = f"{decision.limit.attack} {decision.limit.metric}"
    return f"{named} is {row.measured} ({row.between}), confirmed beyond the limit of {row.limit}"


def _numbers(verdict: Verdict) -> Iterator[tuple[str, float]]:
    for decision in verdict.decisions:
        measured = decision.measured
        if measured is not None:
            name = f"{decision.limit.attack}_{decision.limit.metric}"
            yield name, measured.value
            yield f"{name}_low", measured.low
            yield f"{name}_high", measured.high
