"""Cases of verdicts: what is judged under which limits, and how it ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judged import MET_BESIDE, judge, judged, limit, words_of

from audit.policy import Limit, Verdict
from audit.record import Result

OVERALL = {0: ("passed", "waived"), 10: ("violated",), 11: ("undecided",)}
"""What a verdict can be called, by exit code."""


@dataclass(frozen=True)
class Case:
    """What is judged.

    Attributes:
        results: results of a record.
        limits: limits of the policy.
        settings: further settings of `judged`.
    """

    results: Sequence[Result]
    limits: Sequence[Limit]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Ending:
    """How a verdict must end.

    Attributes:
        code: exit code.
        outcomes: outcome of each limit.
        words: texts that the verdict holds.
        warned: exit code under a policy that warns of undecided limits, beside a limit that is met.
    """

    code: int
    outcomes: Sequence[str]
    words: Sequence[str]
    warned: int


def judging(*results: Result, on: Sequence[Limit] = (limit(),), **settings: Any) -> Case:
    """Return results to be judged under the limits `on`."""
    return Case(results, on, settings)


def ends(code: int, *outcomes: str, words: Sequence[str] = (), warned: int | None = None) -> Ending:
    """Return an ending; a policy that warns ends the same way unless `warned` is given."""
    return Ending(code, outcomes, words, code if warned is None else warned)


def check_ending(case: Case, ending: Ending) -> None:
    """Fail unless the case ends so, whatever the order of its limits."""
    for step in (1, -1):
        _, verdict = judged(case.results, *case.limits[::step], **case.settings)
        outcomes = [decision.outcome for decision in verdict.decisions]
        assert outcomes == [*ending.outcomes[::step]]
        if not verdict.text_counts:
            assert verdict.exit_code == ending.code
            assert verdict.overall in OVERALL[ending.code]
    record, verdict = judged(case.results, *case.limits, **case.settings)
    for words in ending.words:
        assert words in words_of(record, verdict)
    check_decisions(verdict)
    check_under_warnings(case, verdict, ending.warned)


def check_decisions(verdict: Verdict) -> None:
    """Fail unless what is undecided has a cause and a remedy, and what is decided a number."""
    for decision in verdict.decisions:
        assert (decision.outcome == "undecided") == bool(decision.cause)
        assert decision.remedy or decision.outcome != "undecided"
        assert "gaps" not in decision.remedy
        if decision.outcome in ("passed", "violated", "waived"):
            assert decision.measured is not None


def check_under_warnings(case: Case, verdict: Verdict, code: int) -> None:
    """Check the exit code under a policy that warns: width is no excuse where no limit is met.

    Args:
        case: what is judged.
        verdict: verdict under a policy that fails.
        code: exit code under a policy that warns, beside a limit that is met.
    """
    outcomes = {decision.outcome for decision in verdict.decisions}
    warned = judge(case.results, *case.limits, **case.settings, undecided="warn")
    alone = verdict.exit_code
    if outcomes & {"passed", "waived"}:
        alone = code
    assert (warned.overall, warned.exit_code) == (verdict.overall, alone)
    covers_width_only = '; undecided = "warn" covers only wide intervals, not ' in warned.reason
    assert covers_width_only == (warned.exit_code == 11)
    if "undecided" in outcomes and verdict.exit_code == 11:
        results = [*case.results, MET_BESIDE]
        limits = [*case.limits, limit(attack="beside")]
        beside = judge(results, *limits, **case.settings, undecided="warn")
        assert (beside.overall, beside.exit_code) == ("undecided", code)
