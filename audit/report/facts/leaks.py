"""Find measurements that speak for a leak by themselves, whatever the policy limits."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from audit.attacks import TEXTS
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.policy.checks import SettledRecord, p_explained
from audit.record import AuditRecord, Result
from audit.report.facts.definitions import MeasuredLeak
from audit.stats.p_values import holm

LEVEL = 0.025
"""One-sided level at which a measurement counts as a leak by itself: that of a two-sided interval
of 95 %."""
FAMILY = 0.01
"""Level of all measurements of a record together, by Holm's rule: at 0.05 one clean scan in 20 is
accused."""


class _Tell(NamedTuple):
    """A metric that shows a leak by itself, with the numbers of its methods.

    `plainest` names the number that says it most plainly.
    """

    result: Result
    metric: str
    plainest: str
    methods: list[Estimate]


def leaks(
    settled: SettledRecord,
    level: float | None = None,
    counts: Callable[[str, Estimate], bool] | None = None,
) -> list[MeasuredLeak]:
    """List the measurements that show a leak by themselves, the worst first.

    Args:
        settled: the settled record with the measurements.
        level: level of all measurements of the record together, by Holm's rule; None: `LEVEL` for
            each.
        counts: whether a measurement of an attack is looked at; None: all are.
    """
    tells = [_only(tell, counts) for tell in _tells(settled.record)]
    p_values = {}
    for tell in tells:
        for estimate in tell.methods:
            p_values[tell.result.attack, estimate.name] = _p_value(estimate)
    if level is not None:
        p_values = holm(p_values)
    measured_leaks = []
    for tell in tells:
        leak = _leak_of(settled, tell, p_values, _level_of(tell, level))
        if leak is not None:
            measured_leaks.append(leak)
    return sorted(measured_leaks, key=lambda leak: -leak.reach)


def _tells(record: AuditRecord) -> Iterator[_Tell]:
    """Yield, of each completed attack, its metrics that show a leak, with their estimates."""
    for result in record.completed.values():
        for metric, plainest in _leak_metrics(result).items():
            yield _Tell(result, metric, plainest, list(_estimates_of_metric(result, metric)))


def _only(tell: _Tell, counts: Callable[[str, Estimate], bool] | None) -> _Tell:
    """Leave out of a metric the numbers of methods that do not count."""
    if counts is None:
        return tell
    methods = [item for item in tell.methods if counts(tell.result.attack, item)]
    return tell._replace(methods=methods)


def telling_numbers(result: Result) -> list[Estimate]:
    """List the numbers of an attack that can show a leak by themselves, of every method."""
    numbers: list[Estimate] = []
    for metric in _leak_metrics(result):
        numbers += _estimates_of_metric(result, metric)
    return numbers


def _level_of(tell: _Tell, level: float | None) -> float:
    """Return the level of one number.

    Methods of a metric share `LEVEL`; Holm's rule has shared a level of all measurements.
    """
    if level is not None:
        return level
    return LEVEL / max(1, len(tell.methods))


def _leak_of(
    settled: SettledRecord, tell: _Tell, p_values: Mapping[tuple[str, str], float], level: float
) -> MeasuredLeak | None:
    """Return the leak that the strongest method of a metric shows.

    None where no method shows one.
    """
    result = tell.result
    showing = [item for item in tell.methods if p_values[result.attack, item.name] <= level]
    if not showing:
        return None
    strongest = max(showing, key=lambda item: _share_to_maximum(result.attack, item, level))
    # Something else than memory may explain that a number lies beyond its null.
    null = strongest.null or 0.0
    explained = p_explained(settled, result, strongest, null, mirrored=strongest.value < null)
    confounded = None
    if explained > level:
        confounded = settled.confounded(result.attack)
    return MeasuredLeak(
        attack=result.attack,
        metric=tell.metric,
        measured=strongest,
        reach=_share_to_maximum(result.attack, strongest, level),
        shown=_plainest_estimate(tell, strongest),
        about_text=tell.metric in result.about_text,
        confounded=confounded,
    )


def _plainest_estimate(tell: _Tell, strongest: Estimate) -> Estimate:
    """Return the number that says a finding most plainly.

    That of the strongest method where there is none.
    """
    if tell.plainest == tell.metric:
        return strongest
    for item in tell.result.measurements:
        if item.name == tell.plainest and isinstance(item, Estimate):
            return item
    return strongest


def unlimited(verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List the measured leaks that no limit of the policy is about, the worst first."""
    limited = {(decision.limit.attack, decision.limit.metric) for decision in verdict.decisions}
    return tuple(
        leak for leak in leaks(verdict.settled) if (leak.attack, leak.metric) not in limited
    )


def within(verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List the measured leaks whose limit is met all the same, the worst first.

    All measurements together are held at `FAMILY`, as they are for signs of the training.
    """
    met = {
        (decision.limit.attack, decision.limit.metric)
        for decision in verdict.decisions
        if decision.outcome == "passed"
    }
    return tuple(
        leak for leak in leaks(verdict.settled, FAMILY) if (leak.attack, leak.metric) in met
    )


def signs_of_training(settled: SettledRecord) -> tuple[MeasuredLeak, ...]:
    """List the measured leaks that nothing but the training explains, the worst first."""
    return tuple(
        leak for leak in leaks(settled, FAMILY) if not leak.about_text and leak.confounded is None
    )


def _leak_metrics(result: Result) -> dict[str, str]:
    """Return the metrics that show a leak by themselves, each with the one that says it plainly.

    Of an unknown attack those that policies limit.
    """
    text = TEXTS.get(result.attack)
    if text is None:
        return {metric: metric for metric in result.methods}
    return text.tells or {metric: metric for metric in text.trend.summary.values()}


def _estimates_of_metric(result: Result, metric: str) -> Iterator[Estimate]:
    """Yield the estimates with a null that belong to a metric."""
    names = result.methods.get(metric, (metric,))
    for item in result.measurements:
        if isinstance(item, Estimate) and item.name in names and item.null is not None:
            yield item


def _null_value(measured: Estimate) -> float:
    """Return the value that a number has without a leak; one of unseen documents is at least 0."""
    null = measured.null or 0.0
    if measured.null_kind == "held-out":
        return max(null, 0.0)
    return null


def _p_value(measured: Estimate) -> float:
    """Return a p-value against no leak: one-sided, two-sided of an area.

    Without bounds by the interval.
    """
    null = _null_value(measured)
    if not measured.bounds:
        below = measured.is_area and measured.high < null
        return LEVEL if measured.low > null or below else 1.0
    above = measured.p_above(null)
    if not measured.is_area:
        return above
    # An area under chance tells as much; each side is held at the level of its own bound.
    return min(above, measured.p_below(null))


def _share_to_maximum(attack: str, measured: Estimate, level: float) -> float:
    """Return how much of the way from the null to the maximum a one-sided bound shows.

    0 or less: no leak.
    """
    null = _null_value(measured)
    beyond = _beyond_null(measured, null, level)
    most = _largest_value(attack, measured)
    if most is None:
        return math.copysign(abs(beyond) / (1 + abs(beyond)), beyond)
    return beyond / (most - null) if most > null else 0.0


def _beyond_null(measured: Estimate, null: float, level: float) -> float:
    """Return how far beyond its null a number is shown to lie, on either side of an area's."""
    bounds = [bound for bound in measured.bounds if bound.alpha <= level]
    lower = max((bound.lower for bound in bounds), default=measured.low)
    if not measured.is_area:
        return lower - null
    upper = min((bound.upper for bound in bounds), default=measured.high)
    return max(lower - null, null - upper)


def _largest_value(attack: str, measured: Estimate) -> float | None:
    """Return the largest value that a number can have; None: any."""
    text = TEXTS.get(attack)
    if text is None or measured.name not in text.names:
        return None
    return text.metric(measured.name).upper
