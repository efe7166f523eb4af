"""What each limit of a policy is decided on: a result, and the numbers held against the limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from audit.measurements import Check, Condition, Estimate, Measurement
from audit.policy.checks import SettledRecord, p_explained
from audit.policy.limits import Gap, Limit, Policy
from audit.record import AuditRecord, Reason, Result
from audit.stats.p_values import holm

Side = Literal["limit", "mirror"]
"""Where a leak is looked for: beyond the limit, or beyond its mirror image on the other side of
chance."""
NOT_RUN = "this attack was not run"
SCAN_ALL = "scan without --only"


@dataclass(frozen=True)
class LimitFacts:
    """What one limit is decided on, before any rule is applied.

    Attributes:
        record: settled record of the scan.
        limit: limit with the maximum that applies to what this scan counted.
        result: result of its attack, whatever its status.
        number: what the attack measured for the limited metric; None where it gave nothing.
        methods: estimates that the limit is held against, by name, one for each method.
        worst: estimate that stands most against a pass; None where there are no estimates.
        over: estimate whose whole interval lies over the limit, the farthest; None: there is none.
        are_within: whether a pass has all that it needs of the estimates.
        p_values: one-sided p of a leak by method and side, after Holm's rule over all limits.
        power: strength of the attacker; None where the attack has no such number.
        check: strongest check of the attack that fires and bears on the metric; None: none does.
        confounded: what else than memory can explain the numbers; None where nothing can.
        confounding: check that found this; None where no check did.
        is_unvouched: whether only a blind check over too few units confounds the numbers.
        condition: first condition of a pass that the scan does not show; None where it shows all.
        untried: whether a bound or the budget left untried what the data set holds.
        smaller_side: documents of the smaller one of the two compared sides.
        permitted: whether the policy does without this attack for models of this task.
    """

    record: AuditRecord
    limit: Limit
    result: Result
    number: Measurement | None
    methods: Mapping[str, Estimate]
    worst: Estimate | None
    over: Estimate | None
    are_within: bool
    power: Estimate | None
    check: Check | None
    confounded: str | None
    confounding: Check | None
    is_unvouched: bool
    condition: Condition | None
    untried: bool
    smaller_side: int
    permitted: bool
    p_values: Mapping[tuple[str, Side], float] = field(default_factory=dict)

    @property
    def about_text(self) -> bool:
        """Tell whether the number is about the documents' own text, whatever the model."""
        return self.number is not None and self.limit.metric in self.result.about_text

    @property
    def p_worst(self) -> float | None:
        """Return the p-value of the estimate that stands most against a pass."""
        return self.p_of(self.worst)

    def p_of(self, measured: Estimate | None) -> float | None:
        """Return the smaller p-value of both sides of an estimate; None where there is none."""
        if measured is None:
            return None
        return min(p for (name, _), p in self.p_values.items() if name == measured.name)


def gather(settled: SettledRecord, policy: Policy) -> list[LimitFacts]:
    """Gather the facts of each limit of a policy, in the policy's order.

    Args:
        settled: settled record.
        policy: policy that it is held against.
    """
    gathered = [facts_on(settled, limit, policy.gaps) for limit in policy.limits]
    tests = {}
    for place, facts in enumerate(gathered):
        for (name, side), p_value in facts.p_values.items():
            tests[place, name, side] = p_value
    adjusted: list[dict[tuple[str, Side], float]] = [{} for _ in gathered]
    for (place, name, side), p_value in holm(tests).items():
        adjusted[place][name, side] = p_value
    return [
        replace(facts, p_values=p_values)
        for facts, p_values in zip(gathered, adjusted, strict=True)
    ]


def facts_on(settled: SettledRecord, limit: Limit, gaps: Sequence[Gap] = ()) -> LimitFacts:
    """Return the facts of one limit, whose p-values are not adjusted for other limits.

    Args:
        settled: settled record.
        limit: limit as the policy has it.
        gaps: gaps that the policy permits.
    """
    record = settled.record
    result = _result_of(record, limit.attack)
    number = None
    if result.reason is None and limit.attack in record.battery:
        number = _measurement(result, limit.metric)
    methods = _methods_of(limit, record.completed.get(limit.attack))
    limit = limit.applied(methods.get(limit.metric, next(iter(methods.values()), None)))
    documents = record.corpus.documents
    return LimitFacts(
        record,
        limit,
        result,
        number,
        methods,
        worst=max(methods.values(), key=limit.reach, default=None),
        over=_over_limit(limit, methods),
        are_within=all(limit.is_met_by(measured) for measured in methods.values()),
        power=power_of(result),
        check=_strongest_check(result, limit.metric),
        confounded=settled.confounded(limit.attack),
        confounding=settled.confounding.get(limit.attack),
        is_unvouched=settled.is_unvouched(limit.attack),
        condition=_missing_condition(record, limit.attack),
        untried=record.left_untried(limit.attack),
        smaller_side=min(documents.get("member", 0), documents.get("heldout", 0)),
        permitted=any(
            gap.attack == limit.attack and record.target.task in gap.tasks for gap in gaps
        ),
        p_values=_p_values(settled, limit, result, methods),
    )


def _result_of(record: AuditRecord, attack: str) -> Result:
    """Return the result of an attack; of one that a record does not hold, that nobody asked for it.

    Records of older versions hold no result of attacks that were left out.
    """
    result = record.results.get(attack)
    if result is None:
        return Result(attack, "left out", Reason("left out", NOT_RUN, SCAN_ALL))
    return result


def _measurement(result: Result, metric: str) -> Measurement | None:
    """Return the measurement of a metric from a result; None where the result lacks it."""
    return next((item for item in result.measurements if item.name == metric), None)


def _methods_of(limit: Limit, result: Result | None) -> dict[str, Estimate]:
    """Return the estimates that a limit is held against, by name.

    Those that this case cannot have are left out.
    """
    if result is None:
        return {}
    measured = {item.name: item for item in result.measurements}
    estimates = {}
    for name in result.methods.get(limit.metric, (limit.metric,)):
        item = measured.get(name)
        if isinstance(item, Estimate):
            estimates[name] = item
    limited = measured.get(limit.metric)
    if not estimates and isinstance(limited, Estimate):
        estimates[limit.metric] = limited
    return estimates


def power_of(result: Result) -> Estimate | None:
    """Return the attacker's strength, as the attack measured it.

    None when it has no such number.
    """
    power = next((item for item in result.measurements if item.name == result.power), None)
    if isinstance(power, Estimate):
        return power
    return None


def _strongest_check(result: Result, metric: str) -> Check | None:
    """Return the strongest check that keeps a limit on this metric from being passed."""
    fired = [check for check in result.checks if check.bears_on(metric) and check.fires]
    return min(fired, key=lambda check: check.p_value, default=None)


def _missing_condition(record: AuditRecord, attack: str) -> Condition | None:
    """Return the first condition of a pass on this attack that the scan does not show.

    None when it shows all.
    """
    met = record.met_conditions
    for condition in record.every_condition:
        if attack not in condition.attacks or condition.name in met:
            continue
        replaced = bool(condition.substitutes) and met.issuperset(condition.substitutes)
        if not replaced:
            return condition
    return None


def _over_limit(limit: Limit, methods: Mapping[str, Estimate]) -> Estimate | None:
    """Return the estimate whose whole interval lies over the limit, the farthest.

    None where there is none.
    """
    over = [measured for measured in methods.values() if limit.excess(measured) > 0]
    return max(over, key=limit.excess, default=None)


def _p_values(
    settled: SettledRecord, limit: Limit, result: Result, methods: Mapping[str, Estimate]
) -> dict[tuple[str, Side], float]:
    """Return the one-sided p of a leak beyond the limit, by method and side.

    It is the smallest recorded level whose bound lies beyond; 1 when none does. An area under
    chance separates members from others as well as one above it, so it is also held against the
    mirrored limit. A leak is there if the number lies beyond the limit and nothing but memory
    explains that: the larger p of the two tests holds for both together, without a correction
    (Berger 1982).
    """
    p_values: dict[tuple[str, Side], float] = {}
    for name, measured in methods.items():
        for side, p_value in _p_beyond(limit, measured).items():
            p_values[name, side] = p_value
    if settled.confounded(result.attack) is None or limit.metric in result.about_text:
        return p_values
    for name, side in p_values:
        if limit.max is None:
            p_values[name, side] = 1.0
        else:
            explained = p_explained(
                settled, result, methods[name], limit.max, mirrored=side == "mirror"
            )
            p_values[name, side] = max(p_values[name, side], explained)
    return p_values


def _p_beyond(limit: Limit, measured: Estimate) -> dict[Side, float]:
    """Return the p of a number beyond the limit, and beyond the mirror image of an area's."""
    if limit.max is None:
        assert limit.min is not None
        return {"limit": measured.p_below(limit.min)}
    p_values: dict[Side, float] = {"limit": measured.p_above(limit.max)}
    if measured.is_area:
        p_values["mirror"] = measured.p_below(1 - limit.max)
    return p_values
