"""A verdict held against an earlier scan: what became worse violates its limit."""

from collections.abc import Sequence
from dataclasses import replace

from audit.policy.decision import EXIT_CODES, Baseline, ComparedLimit, Decision, Verdict
from audit.policy.grounds import Ground, Remedy
from audit.policy.overall import count
from audit.policy.reasons import REMEDIES
from audit.policy.remedies import OF_REMEDY

WORSE = "worse than in the {role}"
LOST = "measured in the {role} and not in this record"
UNCOMPARED = "no limit could be compared with the {role}"


def hold_against_baseline(verdict: Verdict, baseline: Baseline) -> Verdict:
    """Let what became worse violate its limit, and what is no longer measured leave it open.

    Nothing passes that the baseline measured and this scan did not. A waiver accepts the violation
    of a limit, not that it becomes worse.

    Args:
        verdict: verdict by the policy alone.
        baseline: earlier scan, with what became of each limit since.
    """
    changes = {(limit.attack, limit.metric): limit for limit in baseline.limits}
    decisions = []
    for decision in verdict.decisions:
        change = changes.get((decision.limit.attack, decision.limit.metric))
        decisions.append(_decide_against(decision, change, baseline))
    alone = f"by the policy alone: {verdict.word}, "
    counts = count([decision for decision in decisions if not decision.about_text])
    verdict = replace(verdict, decisions=tuple(decisions), counts=counts, baseline=baseline)
    worse = baseline.of("worse")
    if worse:
        became = WORSE.format(role=baseline.role)
        verdict = _with_lead(verdict, f"{_count_in_words(worse, became)}; {alone}")
        return replace(verdict, overall="violated", exit_code=EXIT_CODES["violated"])
    if verdict.overall == "violated":
        return verdict
    lost = baseline.of("no longer measured")
    if lost:
        gone = _count_in_words(lost, LOST.format(role=baseline.role))
    elif not baseline.compared:
        gone = UNCOMPARED.format(role=baseline.role)
    else:
        return verdict
    exit_code = verdict.exit_code or EXIT_CODES["undecided"]
    verdict = _with_lead(verdict, f"{gone}; {alone}")
    return replace(verdict, overall="undecided", exit_code=exit_code)


def _with_lead(verdict: Verdict, lead: str) -> Verdict:
    """Put words before the reason of a verdict."""
    return replace(verdict, reason=f"{lead}{verdict.reason}", before=f"{lead}{verdict.before}")


def _count_in_words(limits: Sequence[ComparedLimit], became: str) -> str:
    """Say how many limits there are, what became of them, and their names."""
    names = ", ".join(f"{limit.attack} {limit.metric}" for limit in limits)
    if len(limits) == 1:
        return f"1 limit is {became}: {names}"
    return f"{len(limits)} limits are {became}: {names}"


def _decide_against(
    decision: Decision, change: ComparedLimit | None, baseline: Baseline
) -> Decision:
    """Return a decision as the change of its limit makes it; unchanged where nothing changed."""
    if change is None:
        return decision
    if change.outcome == "worse":
        return _worsened(decision, change, baseline)
    if change.outcome != "no longer measured" or decision.outcome in ("violated", "undecided"):
        return decision
    return replace(
        decision,
        outcome="undecided",
        reason=change.reason,
        remedy=REMEDIES[Remedy.AS_IN_BASELINE],
        waiver=None,
        cause="unmeasured",
        restates="",
        ground=Ground.LOST,
        remedy_id=Remedy.AS_IN_BASELINE,
        urgency=OF_REMEDY[Remedy.AS_IN_BASELINE],
    )


def _worsened(decision: Decision, change: ComparedLimit, baseline: Baseline) -> Decision:
    """Return a decision as a violation, because the limited number became worse."""
    worse = WORSE.format(role=baseline.role)
    reason = f"{worse}, beyond the interval of the change: {change.reason}"
    restates = ""
    if decision.outcome == "violated":
        reason = f"{decision.reason}; {reason}"
        restates = decision.restates
    if decision.waiver is not None:
        reason = f"{reason}; its waiver accepts the leak, not a larger one"
    return replace(
        decision,
        outcome="violated",
        reason=reason,
        remedy="",
        waiver=None,
        cause=None,
        restates=restates,
        ground=Ground.WORSE,
        remedy_id=None,
        urgency=None,
    )
