"""Evaluation of a record against a policy: one decision per limit, the verdict and its exit code."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from audit.measurements import Estimate
from audit.policy import reasons
from audit.policy.checks import (
    AGAIN,
    hold_demands,
    name_unexamined,
    p_explained,
    settle,
)
from audit.policy.decision import (
    EXIT_CODES,
    Baseline,
    Cause,
    ComparedLimit,
    Counts,
    Decision,
    Outcome,
    Overall,
    Verdict,
    count,
    register,
    waive,
)
from audit.policy.limits import Limit, Policy, check_subject, contradiction
from audit.policy.reading import check_names, identify
from audit.record import SIGNIFICANCE, AuditRecord, Result
from audit.stats.p_values import holm

WIDTH: frozenset[Cause] = frozenset({"wide", "unresolved"})
"""Causes that more units would mend, and that say nothing for or against a leak. A missing
reference is none."""


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
    uncovered = _uncovered(policy, decisions)
    if not uncovered:
        return 0, ""
    return EXIT_CODES[
        "undecided"
    ], f'; undecided = "warn" covers only wide intervals, not {uncovered}'


def _uncovered(policy: Policy, decisions: Sequence[Decision]) -> str:
    """Say what keeps a warning from being enough; empty where only width leaves limits undecided.

    Width is no excuse where nothing was decided: one limit has to be met, or waived, on each
    demanded question.
    """
    for decision in decisions:
        if decision.outcome == "undecided" and not _is_width(decision):
            return _named(decision)
    met = _attacks_with(decisions, "passed", "waived")
    if not met:
        return "an audit that decides nothing"
    undecided = _attacks_with(decisions, "undecided")
    for demand in policy.demands:
        if undecided.intersection(demand.any_of) and not met.intersection(demand.any_of):
            return f"a question of which no limit is met ({demand.question})"
    return ""


def _attacks_with(decisions: Sequence[Decision], *outcomes: Outcome) -> set[str]:
    return {decision.limit.attack for decision in decisions if decision.outcome in outcomes}


def _is_width(decision: Decision) -> bool:
    measured = decision.measured
    over = (
        measured is not None
        and reasons.over_limit(decision.limit, {measured.name: measured}) is not None
    )
    return decision.cause in WIDTH and not over


def _named(decision: Decision) -> str:
    cause = "the interval lies above the limit" if decision.cause in WIDTH else decision.cause
    return f"{decision.limit.attack} {decision.limit.metric} ({cause})"


Side = Literal["limit", "mirror"]
"""Where a leak is looked for: beyond the limit, or beyond its mirror image on the other side of
chance."""
_WORST_FIRST: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")


def today() -> dt.date:
    """Return the day that waivers are held against (UTC)."""
    return dt.datetime.now(dt.UTC).date()


def finished_on(record: AuditRecord) -> dt.date:
    """Return the day on which the scan ended (UTC): no verdict on it can be of an earlier one."""
    try:
        ended = dt.datetime.fromisoformat(record.timing.finished)
    except ValueError:
        return dt.date.min
    return ended.astimezone(dt.UTC).date() if ended.tzinfo else ended.date()


def evaluate(record: AuditRecord, policy: Policy, today: dt.date) -> Verdict:
    """Hold a record against a policy.

    A limit is held against every method of its attack that answers its question. It is *violated*
    when the leak is confirmed over it for any (one-sided p at most 0.05, adjusted for all
    methods of the gated limits; areas count on both sides of chance). It is *passed*
    when the one-sided bounds of all methods (`Estimate.pass_bound`), or of a count their estimates
    (`Limit.holds`), are within it and nothing speaks against a pass (see `reasons.hindrance`), and
    *undecided* otherwise. The overall verdict is the worst one, of the limits on the model and of
    those on the documents' own text apart. A record that contradicts the guarantee which the
    model's training claims is violated, whatever the limits.

    A clock that is set back revives no waiver: the day is never one before the end of the scan.

    Raises:
        PolicyError: the policy is for other records, or misspells an attack that the record's
            version knows.
    """
    check_subject(policy, forgotten=record.corpus.forgotten is not None)
    record = settle(record, policy.limits)
    today = max(today, finished_on(record))
    results = record.completed
    check_names(
        policy,
        dict.fromkeys(record.battery, tuple(one.metric for one in policy.limits)),
        complete=False,
    )
    limits = [_applied(limit, results.get(limit.attack)) for limit in policy.limits]
    held = [_methods(limit, results.get(limit.attack)) for limit in limits]
    p_values = {
        (index, name, side): p
        for index, (limit, methods) in enumerate(zip(limits, held, strict=True))
        for name, measured in methods.items()
        for side, p in _p_values(record, limit, results.get(limit.attack), measured).items()
    }
    confirmed = holm(p_values)
    checks = [*record.checks, *(check for one in record.completed.values() for check in one.checks)]
    remedies = {check.reason: check.remedy for check in checks}
    decisions = []
    for index, (limit, methods) in enumerate(zip(limits, held, strict=True)):
        decision = reasons.missing_result(record, policy, limit)
        if decision is None:
            own = {
                (name, side): p
                for (position, name, side), p in confirmed.items()
                if position == index
            }
            completed = results[limit.attack]
            few = reasons.unresolved(record, policy, limit, completed)
            whole = reasons.against_attack(record, limit, completed)
            decision = (
                _decide(limit, completed, methods, own, whole, remedies) if few is None else few
            )
            decision = replace(decision, about_text=limit.metric in completed.about_text)
            decision = reasons.remedy_at_hand(record, decision)
        decisions.append(waive(decision, policy, today))
    decisions, closed = hold_demands(record, policy, decisions)
    if record.target.is_model:
        verdict = _verdict(record, policy, tuple(decisions), closed)
    else:
        verdict = _verdict_on_text(policy, tuple(decisions))
    return replace(
        verdict,
        waivers=tuple(register(decisions, policy, today)),
        identity=identify(record, policy),
    )


def _verdict_on_text(policy: Policy, decisions: tuple[Decision, ...]) -> Verdict:
    """Return the verdict where no model was audited: that of the limits on the text, which then always counts."""
    counts = count([decision for decision in decisions if decision.about_text])
    overall, reason = _overall(counts, "no limit of the policy could be checked on the text alone")
    code, uncovered = exit_code(
        policy, overall, [decision for decision in decisions if decision.about_text]
    )
    reason = f"on the text alone, {reason}; no model was audited{uncovered}"
    return Verdict(
        policy.name, overall, decisions, code, reason, counts=counts, counted=counts.sentence
    )


def _verdict(
    record: AuditRecord, policy: Policy, decisions: tuple[Decision, ...], closed: str
) -> Verdict:
    """Return the verdict on a model.

    Args:
        record: the scan.
        policy: that it is held against.
        decisions: one for each limit.
        closed: clauses on the demands that nothing can answer, for a pass.
    """
    on_model = [decision for decision in decisions if not decision.about_text]
    on_text = [decision for decision in decisions if decision.about_text]
    counts = count(on_model)
    overall, reason = _overall(counts, "no limit of the policy could be checked on this model")
    counted = counts.sentence
    if overall in ("passed", "waived"):
        counted = name_unexamined(counts, record, on_model)
        reason = f"{counted}{closed}"
    contradicted = contradiction(record)
    if contradicted is not None:
        overall = "violated"
        reason = f"{contradicted}; {reason}"
    text: Overall | None = None
    text_reason = ""
    if on_text:
        text, text_reason = _overall(count(on_text), "no limit on the text could be checked")
    worst = overall
    deciding = on_model
    gates = policy.text == "fail"
    if gates:
        deciding = [*decisions]
        if text is not None:
            worst = min(overall, text, key=_WORST_FIRST.index)
    code, uncovered = exit_code(policy, worst, deciding)
    return Verdict(
        policy.name,
        overall,
        decisions,
        code,
        f"{reason}{uncovered}",
        text,
        text_reason,
        contradicted,
        counts,
        counted,
        text_counts=gates,
    )


def _applied(limit: Limit, result: Result | None) -> Limit:
    """Return the limit with the maximum that applies to what this scan counted (`Limit.applied`)."""
    if result is None:
        return limit
    methods = _methods(limit, result)
    return limit.applied(methods.get(limit.metric, next(iter(methods.values()), None)))


def _methods(limit: Limit, result: Result | None) -> dict[str, Estimate]:
    """Return the measurements that a limit is held against, by name, without those that this case cannot have."""
    if result is None:
        return {}
    measured = {item.name: item for item in result.measurements}
    names = result.methods.get(limit.metric, (limit.metric,))
    estimates = {name: item for name in names if isinstance(item := measured.get(name), Estimate)}
    own = measured.get(limit.metric)
    return estimates or ({limit.metric: own} if isinstance(own, Estimate) else {})


def _p_beyond(limit: Limit, measured: Estimate) -> dict[Side, float]:
    """Return the p of a number beyond the limit, and beyond its mirror image of an area, whatever explains it."""
    if limit.max is None:
        assert limit.min is not None
        return {"limit": measured.p_below(limit.min)}
    mirror: dict[Side, float] = (
        {"mirror": measured.p_below(1 - limit.max)} if measured.is_area else {}
    )
    return {"limit": measured.p_above(limit.max), **mirror}


def _p_values(
    record: AuditRecord, limit: Limit, result: Result | None, measured: Estimate
) -> dict[Side, float]:
    """One-sided p of a leak beyond the limit: the smallest recorded level whose bound lies beyond.

    1 when none does.

    An area under chance separates members from others as well as one above it, so it is also held
    against the mirrored limit. A leak is there if the number lies beyond the limit and nothing but
    memory explains that: the larger p of the two tests holds for both together, without a
    correction (Berger 1982).
    """
    p_values = _p_beyond(limit, measured)
    if result is None or limit.metric in result.about_text:
        return p_values
    if limit.max is None:
        return p_values if result.confounded is None else {"limit": 1.0}
    return {
        side: max(p, p_explained(record, result, measured, limit.max, mirrored=side == "mirror"))
        for side, p in p_values.items()
    }


Test = tuple[int, str, Side]
"""A test against a limit: the limit's place in its policy, the measurement, and the side."""


def _decide(
    limit: Limit,
    result: Result,
    methods: Mapping[str, Estimate],
    confirmed: Mapping[tuple[str, Side], float],
    whole: reasons.Reason | None,
    remedies: Mapping[str, str],
) -> Decision:
    about_text = limit.metric in result.about_text
    name, side = min(confirmed, key=lambda key: (confirmed[key], -_reach(limit, methods[key[0]])))
    p_value, power = confirmed[name, side], reasons.power_of(result)

    worst = _worst(limit, result, methods)
    p_worst = min(p for (method, _), p in confirmed.items() if method == worst.name)

    def undecided(reason: str, remedy: str, cause: Cause) -> Decision:
        return Decision(limit, "undecided", reason, remedy, worst, power, p_worst, cause=cause)

    if p_value <= SIGNIFICANCE:
        told = "" if side == "limit" else "the documents have the opposite sign: "
        reason = f"{told}the leak above the limit is confirmed"
        return Decision(limit, "violated", reason, "", methods[name], power, p_value)
    if result.confounded is not None and not about_text:
        remedy = remedies.get(result.confounded, AGAIN)
        if result.unvouched:
            remedy = reasons.STATE_RULE
        return undecided(result.confounded, remedy, "confounded")
    over = reasons.over_limit(limit, methods)
    if over is not None:
        p_over = min(p for (method, _), p in confirmed.items() if method == over.name)
        why, remedy, cause = reasons.not_confirmed(limit, result, p_over, SIGNIFICANCE)
        return Decision(limit, "undecided", why, remedy, over, power, p_over, cause=cause)
    against = reasons.hindrance(limit, result, methods, None if about_text else whole)
    if against is not None:
        return undecided(*against)
    if _all_within(limit, result, methods):
        return Decision(
            limit, "passed", reasons.within(limit, result, worst), "", worst, power, p_worst
        )
    return undecided(*reasons.crosses(limit, worst))


def _deciding(limit: Limit, result: Result, methods: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the methods whose bounds a pass needs within the limit: the one that joins the others, or all."""
    joining = result.joined.get(limit.metric, "")
    if joining in methods:
        return {joining: methods[joining]}
    return dict(methods)


def _worst(limit: Limit, result: Result, methods: Mapping[str, Estimate]) -> Estimate:
    """Return the method that stands most against a pass: a number over the limit, or the one that reaches farthest."""
    deciding = _deciding(limit, result, methods)
    over = [
        measured
        for name, measured in methods.items()
        if name not in deciding and _lies_over(limit, measured)
    ]
    candidates = over or [*deciding.values()]
    return max(candidates, key=lambda measured: _reach(limit, measured))


def _all_within(limit: Limit, result: Result, methods: Mapping[str, Estimate]) -> bool:
    """Tell whether a pass has all it needs of the numbers: see `Result.joined`."""
    deciding = _deciding(limit, result, methods)
    for name, measured in methods.items():
        if name in deciding and not _within(limit, measured):
            return False
        if name not in deciding and _lies_over(limit, measured):
            return False
    return True


def _lies_over(limit: Limit, measured: Estimate) -> bool:
    """Tell whether the number itself is not within the limit."""
    return not limit.encloses(measured.value, measured.value, is_area=measured.is_area)


def _within(limit: Limit, measured: Estimate) -> bool:
    if limit.holds == "estimate":
        return not _lies_over(limit, measured)
    bound = measured.pass_bound
    return limit.encloses(bound.lower, bound.upper, is_area=measured.is_area)


def _reach(limit: Limit, measured: Estimate) -> float:
    """Measure how far the bounds for a pass, or a count itself, reach towards and over the limit.

    Larger = worse.
    """
    if limit.holds == "estimate":
        return measured.value
    bound = measured.pass_bound
    if limit.max is None:
        return -bound.lower
    return max(bound.upper, 1 - bound.lower) if measured.is_area else bound.upper


def _overall(counts: Counts, unchecked: str) -> tuple[Overall, str]:
    """Return the worst of what became of limits, and why.

    `unchecked` where nothing is known of any.
    """
    if counts.violated:
        return "violated", counts.sentence
    if counts.undecided:
        return "undecided", counts.sentence
    if not counts.examined:
        return "undecided", unchecked
    return "waived" if counts.waived else "passed", counts.sentence


WORSE = "worse than in the baseline"
UNCOMPARED = "no limit could be compared with the baseline"
_REMEDY = "measure it as in the baseline, or choose another baseline"


def hold_against_baseline(verdict: Verdict, baseline: Baseline) -> Verdict:
    """Let what became worse violate its limit, and let nothing pass that the baseline measured and this scan did not.

    A waiver accepts the violation of a limit, not that it becomes worse.

    Args:
        verdict: by the policy alone.
        baseline: what became of each limit.
    """
    changed = {(limit.attack, limit.metric): limit for limit in baseline.limits}
    pairs = [(one, changed.get((one.limit.attack, one.limit.metric))) for one in verdict.decisions]
    decisions = tuple(_decide_against(one, change) for one, change in pairs)
    alone = f"by the policy alone: {verdict.overall}, {verdict.reason}"
    counts = count([decision for decision in decisions if not decision.about_text])
    verdict = replace(verdict, decisions=decisions, counts=counts, baseline=baseline)
    worse, lost = baseline.of("worse"), baseline.of("no longer measured")
    if worse:
        reason = f"{_counted(worse, WORSE)}; {alone}"
        return replace(verdict, overall="violated", exit_code=EXIT_CODES["violated"], reason=reason)
    if verdict.overall == "violated" or not (lost or not baseline.compared):
        return verdict
    gone = _counted(lost, "measured in the baseline and not in this record") if lost else UNCOMPARED
    exit_code = verdict.exit_code or EXIT_CODES["undecided"]
    return replace(verdict, overall="undecided", exit_code=exit_code, reason=f"{gone}; {alone}")


def _counted(limits: Sequence[ComparedLimit], became: str) -> str:
    """Return how many limits there are, what became of them, and their names."""
    named = ", ".join(f"{limit.attack} {limit.metric}" for limit in limits)
    return f"{'1 limit is' if len(limits) == 1 else f'{len(limits)} limits are'} {became}: {named}"


def _decide_against(decision: Decision, change: ComparedLimit | None) -> Decision:
    if change is not None and change.outcome == "worse":
        reason = f"{WORSE}, beyond the interval of the change: {change.reason}"
        if decision.outcome == "violated":
            reason = f"{decision.reason}; {reason}"
        if decision.waiver is not None:
            reason = f"{reason}; its waiver accepts the leak, not a larger one"
        return replace(
            decision, outcome="violated", reason=reason, remedy="", waiver=None, cause=None
        )
    lost = change is not None and change.outcome == "no longer measured"
    if change is not None and lost and decision.outcome not in ("violated", "undecided"):
        return replace(
            decision,
            outcome="undecided",
            reason=change.reason,
            remedy=_REMEDY,
            waiver=None,
            cause="unmeasured",
        )
    return decision
