"""Measurements that speak for a leak, whatever the policy limits: what its verdict leaves out, and the headline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from audit.attacks import TEXTS
from audit.measurements import Estimate
from audit.policy import Verdict
from audit.policy.checks import p_explained
from audit.record import AuditRecord, Completed
from audit.report.found import finding_sentence
from audit.report.numbers import show
from audit.stats.multiplicity import holm

LEVEL = 0.025
"""One-sided level at which a measurement counts as a leak by itself (ours): that of a two-sided interval of 95 %."""
FAMILY = 0.01
"""Level of all measurements of a record together, by Holm's rule (ours): at 0.05 one clean scan in 20 is accused."""
EXTRACTING = ("reconstruction", "memorisation", "attribute_inference", "canaries")
RECOGNISING = ("membership",)


@dataclass(frozen=True)
class MeasuredLeak:
    """A measurement whose interval lies beyond what no leak gives.

    Attributes:
        attack: that measured it.
        metric: as a policy would limit it.
        measured: the strongest of the methods that answer for the metric.
        reach: how much of the way from its null to the most that it can be is shown, 0 to 1.
        sentence: what it is, with count or value and interval.
        about_text: whether it says what the documents give away, whatever the model.
        confounded: what else may explain it; None where nothing does.
    """

    attack: str
    metric: str
    measured: Estimate
    reach: float
    sentence: str
    about_text: bool = False
    confounded: str | None = None


def leaks(record: AuditRecord, level: float | None = None) -> list[MeasuredLeak]:
    """List what speaks for a leak by itself, the worst first.

    Args:
        record: the measurements.
        level: for all measurements of the record together, by Holm's rule; None: `LEVEL` for each.
    """
    asked = [
        (result, metric, shown, [*_methods(result, metric)])
        for result in record.attacks
        if isinstance(result, Completed)
        for metric, shown in _tells(result).items()
    ]
    p_values = {(result.attack, item.name): _p_value(item) for result, *_, methods in asked for item in methods}
    adjusted = p_values if level is None else holm(p_values)
    found = []
    for result, metric, shown, methods in asked:
        own = LEVEL / len(methods) if methods and level is None else level or LEVEL
        shows = [item for item in methods if adjusted[result.attack, item.name] <= own]
        if not shows:
            continue
        reach, worst = max(((_reach(result.attack, item, own), item) for item in shows), key=lambda pair: pair[0])
        about_text = metric in result.about_text
        sentence = _sentence(result, metric, worst, shown)
        why = result.confounded if _explained(record, result, worst, own) else None
        found.append(MeasuredLeak(result.attack, metric, worst, reach, sentence, about_text, why))
    return sorted(found, key=lambda leak: -leak.reach)


def _explained(record: AuditRecord, result: Completed, measured: Estimate, level: float) -> bool:
    """Return whether something else than memory may explain that a number lies beyond its null."""
    null = measured.null or 0.0
    return p_explained(record, result, measured, null, mirrored=measured.value < null) > level


def unlimited(record: AuditRecord, verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List what was measured and speaks for a leak, and what no limit of the policy is about, the worst first."""
    limited = {(decision.limit.attack, decision.limit.metric) for decision in verdict.decisions}
    return tuple(leak for leak in leaks(record) if (leak.attack, leak.metric) not in limited)


def within(record: AuditRecord, verdict: Verdict) -> tuple[MeasuredLeak, ...]:
    """List what was measured and speaks for a leak although its limit is met, the worst first.

    All measurements together are held at `FAMILY`, as they are for signs of the training (`declared.plausibility`).
    """
    met = {(one.limit.attack, one.limit.metric) for one in verdict.decisions if one.outcome == "passed"}
    return tuple(leak for leak in leaks(record, FAMILY) if (leak.attack, leak.metric) in met)


def untested(verdict: Verdict) -> str:
    """Name what was not decided of what would show a leak: what a model gives back, and whom it was trained on."""
    decided = {one.limit.attack for one in verdict.decisions if one.outcome in ("passed", "violated", "waived")}
    classes = (
        (EXTRACTING, "what the model gives back (no attack that extracts was decided)"),
        (RECOGNISING, "which documents it was trained on (membership was not decided)"),
    )
    return " and ".join(words for attacks, words in classes if not decided & {*attacks})


def headline(record: AuditRecord, verdict: Verdict) -> str:
    """The verdict's reason, with the number of findings that the policy says nothing about."""
    return f"{verdict.reason}{findings_outside(record, verdict)}"


def findings_outside(record: AuditRecord, verdict: Verdict) -> str:
    """The number of findings that limits accept, or the policy says nothing about, behind a sentence; or empty."""
    accepted, outside = len(within(record, verdict)), len(unlimited(record, verdict))
    told = f"; {accepted} met {'limit leaves' if accepted == 1 else 'limits leave'} a measured leak" if accepted else ""
    if not outside:
        return told
    return f"{told}; {outside} measured {'finding lies' if outside == 1 else 'findings lie'} outside this policy"


def _tells(result: Completed) -> dict[str, str]:
    """The measurements that speak for a leak by themselves; of an unknown attack those that policies limit."""
    text = TEXTS.get(result.attack)
    if text is None:
        return {metric: metric for metric in result.methods}
    return text.tells or {metric: metric for metric in text.trend.summary.values()}


def _methods(result: Completed, metric: str) -> Iterator[Estimate]:
    """The estimates with a null that answer for a metric."""
    names = result.methods.get(metric, (metric,))
    for item in result.measurements:
        if isinstance(item, Estimate) and item.name in names and item.null is not None:
            yield item


def _null(measured: Estimate) -> float:
    """The value without a leak; one measured on held-out documents is as uncertain as the number: under 0 it is 0."""
    null = measured.null or 0.0
    return max(null, 0.0) if measured.null_kind == "held-out" else null


def _p_value(measured: Estimate) -> float:
    """Return a p-value against no leak: one-sided, two-sided of an area; without bounds by the interval."""
    null = _null(measured)
    if not measured.bounds:
        beyond = measured.low > null or (measured.is_area and measured.high < null)
        return LEVEL if beyond else 1.0
    # An area under chance tells as much; each side is held at the level of its own bound.
    return min(measured.p_above(null), measured.p_below(null) if measured.is_area else 1.0)


def _reach(attack: str, measured: Estimate, level: float) -> float:
    """The share of the way from the null to the most there is that a one-sided bound shows; 0 or less: no leak."""
    null = _null(measured)
    beyond = _lower(measured, level) - null
    if measured.is_area:
        beyond = max(beyond, null - _upper(measured, level))
    text = TEXTS.get(attack)
    most = None if text is None or measured.name not in text.names else text.metric(measured.name).upper
    if most is None:
        return math.copysign(abs(beyond) / (1 + abs(beyond)), beyond)
    return beyond / (most - null) if most > null else 0.0


def _lower(measured: Estimate, level: float) -> float:
    return max((bound.lower for bound in measured.bounds if bound.alpha <= level), default=measured.low)


def _upper(measured: Estimate, level: float) -> float:
    return min((bound.upper for bound in measured.bounds if bound.alpha <= level), default=measured.high)


def _sentence(result: Completed, metric: str, strongest: Estimate, shown: str) -> str:
    """A finding in a reader's words: by the number that says it plainly, or that of the strongest method."""
    plain = next((item for item in result.measurements if item.name == shown and isinstance(item, Estimate)), None)
    told = strongest if plain is None or shown == metric else plain
    text = TEXTS.get(result.attack)
    if told.low == told.high and text is not None:
        return f"{text.label(told.name)}: {show(told.value, text.form(told.name))}".replace("\u00a0", " ")
    return finding_sentence(result.attack, told)
