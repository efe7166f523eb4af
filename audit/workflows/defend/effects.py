"""Two scans compared: limits, the metrics behind them, and usefulness (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.attacks import TEXTS
from audit.defenses.comparison import Change
from audit.defenses.measured import Effect, LimitChange, LimitUse, MissingAttack
from audit.measurements import Estimate
from audit.policy import Decision, Policy
from audit.record import Completed
from audit.stats.paired import joined_difference, ratio_difference
from audit.workflows.changes import ABOUT_TEXT, NOT_RESOLVED, effect_of, filled, measurement
from audit.workflows.defend.scans import ScanOfSide


def effects_on_limits(
    before: ScanOfSide, after: ScanOfSide, policy: Policy, known: Sequence[Change], name: str
) -> tuple[Effect, ...]:
    """The effect on what the policy limits, on the number that decides each limit, and on what sums an attack up.

    Args:
        before: the model as it was.
        after: with the countermeasure.
        policy: whose limits are asked about.
        known: changes of memorised answers; where a row is among them, its numbers are kept.
        name: of the countermeasure; random numbers follow from it.
    """
    found = []
    for attack in TEXTS:
        first, second = before.completed(attack), after.completed(attack)
        if first is None or second is None:
            continue
        for metric in _metrics(attack, before, after, policy):
            effect = _effect(before, after, (first, second), metric, name)
            own = _known(metric, known) if attack == "memorisation" else None
            if own is not None and effect.difference is not None:
                effect = replace(effect, difference=own.difference, p=own.p, paired=True)
            found.append(effect)
    return tuple(found)


def missing_attacks(before: ScanOfSide, after: ScanOfSide) -> tuple[MissingAttack, ...]:
    """The attacks that did not run to an end on both sides, with the reasons."""
    asked = dict.fromkeys(result.attack for side in (before, after) for result in side.record.attacks)
    pairs = [MissingAttack(name, before.missing(name), after.missing(name)) for name in asked]
    return tuple(one for one in pairs if one.before or one.after)


def changes_of_limits(before: ScanOfSide, after: ScanOfSide) -> tuple[LimitChange, ...]:
    """Every limit of the policy, and how far either scan uses it up."""
    pairs = zip(before.verdict.decisions, after.verdict.decisions, strict=True)
    return tuple(
        LimitChange(one.limit.attack, one.limit.metric, use_of_limit(one), use_of_limit(other)) for one, other in pairs
    )


def use_of_limit(decision: Decision) -> LimitUse:
    """The share of a limit that a number uses up: 0 no leak, 1 the limit.

    An area counts from chance, 0.5, on either side. What the documents say of themselves counts for nothing here, and a
    limit from below has no such share.
    """
    limit, measured = decision.limit, decision.measured
    if measured is None or limit.max is None or decision.about_text:
        return LimitUse(decision.outcome)
    area = measured.is_area
    most = limit.max - 0.5 if area else limit.max
    if most <= 0:
        return LimitUse(decision.outcome)
    if area:
        value, reach = abs(measured.value - 0.5), max(measured.high - 0.5, 0.5 - measured.low)
    else:
        value, reach = measured.value, measured.low if limit.holds == "lower" else measured.high
    return LimitUse(decision.outcome, max(0.0, value) / most, max(0.0, reach) / most)


def effects_on_usefulness(before: ScanOfSide, after: ScanOfSide, name: str) -> tuple[Effect, ...]:
    """The effect on every measure of the model's own task, by document."""
    others = {item.name: item for item in after.record.utility}
    found = []
    for one in before.record.utility:
        other = others.get(one.name)
        effect = Effect("", one.name, one, other, note=NOT_RESOLVED)
        if isinstance(one, Estimate) and isinstance(other, Estimate):
            sums = before.useful.get(one.name), after.useful.get(one.name)
            paired = None
            if sums[0] is not None and sums[1] is not None:
                paired = ratio_difference(sums[0], sums[1], (one, other), _rng(before, name, one.name))
            effect = filled(effect, paired or joined_difference(one, other), one)
        found.append(effect)
    return tuple(found)


def _metrics(attack: str, before: ScanOfSide, after: ScanOfSide, policy: Policy) -> list[str]:
    limited = [limit.metric for limit in policy.limits if limit.attack == attack]
    decisions = (*before.verdict.decisions, *after.verdict.decisions)
    deciding = [one.measured.name for one in decisions if one.limit.attack == attack and one.measured is not None]
    return list(dict.fromkeys([*limited, *deciding, *TEXTS[attack].trend.summary.values()]))


def _effect(
    before: ScanOfSide, after: ScanOfSide, results: tuple[Completed, Completed], metric: str, name: str
) -> Effect:
    attack = results[0].attack
    one, other = (measurement(result, metric) for result in results)
    if metric in results[0].about_text:
        return Effect(attack, metric, one, other, note=ABOUT_TEXT)
    scores = before.scores[attack].get(metric), after.scores[attack].get(metric)
    return effect_of(Effect(attack, metric, one, other), scores, _rng(before, name, f"{attack}/{metric}"))


def _known(metric: str, known: Sequence[Change]) -> Change | None:
    """The change of "net", or of "net.CONTEXT", among those of memorised answers."""
    what, _, context = metric.partition(".")
    return next((one for one in known if (one.metric, one.context) == (what, context or "exact")), None)


def _rng(before: ScanOfSide, name: str, metric: str) -> np.random.Generator:
    return np.random.default_rng([before.record.seed, *f"{name}/{metric}".encode()])
