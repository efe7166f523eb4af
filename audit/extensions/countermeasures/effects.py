"""Say what a countermeasure changed: limits, usefulness, and the refusal that it teaches (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.engine.interface import Progress
from audit.measurements import ALPHAS, Estimate
from audit.policy import Decision, Policy
from audit.record import AuditRecord
from audit.report.comparison import Effect, LimitUse
from audit.stats.intervals import Interval
from audit.stats.paired import Ratios, joined_difference, ratio_difference
from audit.stats.rates import excess_rate
from audit.targets.utility import estimate
from audit.workflows.changes import NOT_RESOLVED, completed, effect_of, filled, measurement
from audit.workflows.diff import compare
from audit.workflows.unit_scores import read_scores

MIN_DOCUMENTS = 2
"""Without so many no interval covers documents."""


def use_of_limit(decision: Decision) -> LimitUse:
    """Return the share of a limit that a number uses up: 0 no leak, 1 the limit.

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


def effects_on_attacks(
    records: tuple[AuditRecord, AuditRecord], kept: tuple[Path, Path], policy: Policy, progress: Progress
) -> tuple[tuple[Effect, ...], tuple[str, ...]]:
    """Compare the numbers of every attack as `docaudit diff` does, and those that the policy limits by their name.

    Args:
        records: of the scans before and after.
        kept: the folders of their evidence, with the values of units.
        policy: whose limits are among the numbers.
        progress: advanced by every attack.

    Returns:
        The effects, and the attacks that are not compared, with the reasons.

    Raises:
        RecordError: the scans differ in more than the model.
    """
    found = compare(records, kept, policy, progress)
    effects = {
        (one.attack, one.metric): Effect(
            one.attack, one.metric, one.before, one.after, one.difference, one.p, one.paired, one.reason
        )
        for one in found.changes
        if one.attack
    }
    for attack, metric in ((limit.attack, limit.metric) for limit in policy.limits):
        results = [completed(record, attack) for record in records]
        if (attack, metric) in effects or None in results:
            continue
        one, other = (measurement(result, metric) for result in results if result is not None)
        if one is not None or other is not None:
            scores = [read_scores(folder, own) for folder, own in zip(kept, results, strict=True) if own is not None]
            before, after = ((own or {}).get(metric) for own in scores)
            rng = np.random.default_rng([records[0].seed, *f"diff/{attack}/{metric}".encode()])
            effects[attack, metric] = effect_of(Effect(attack, metric, one, other), (before, after), rng)
    return tuple(effects.values()), found.missing


def effects_on_usefulness(
    records: tuple[AuditRecord, AuditRecord], useful: tuple[Mapping[str, Ratios], Mapping[str, Ratios]], name: str
) -> tuple[Effect, ...]:
    """Compare every measure of the model's own task, by document.

    Args:
        records: of the scans before and after.
        useful: by measure, the sums behind it, of either scan.
        name: of the countermeasure; random numbers follow from it.
    """
    before, after = records
    others = {item.name: item for item in after.utility}
    found = []
    for one in before.utility:
        other = others.get(one.name)
        effect = Effect("", one.name, one, other, note=NOT_RESOLVED)
        if isinstance(one, Estimate) and isinstance(other, Estimate):
            sums = useful[0].get(one.name), useful[1].get(one.name)
            paired = None
            if sums[0] is not None and sums[1] is not None:
                rng = np.random.default_rng([before.seed, *f"{name}/{one.name}".encode()])
                paired = ratio_difference(sums[0], sums[1], (one, other), rng)
            effect = filled(effect, paired or joined_difference(one, other), one)
        found.append(effect)
    return tuple(found)


def side_channel(
    members: npt.ArrayLike,
    member_documents: Sequence[str],
    heldout: npt.ArrayLike,
    heldout_documents: Sequence[str],
    rng: np.random.Generator,
) -> Estimate:
    """Estimate the AUC of "the model says ANSWER NOT PRESENT" as a score of membership; null 0.5.

    Each row is a question on a page whose answer was removed, of a member or of a held-out document. A score of 0 and 1
    has the AUC 1/2 + (rate among members - rate among held-out) / 2, and its interval is that of the two rates (Pinto
    et al. 2024, appendix A).

    Args:
        members: (n_m,) 1 where the model said so, else 0.
        member_documents: (n_m,) names of their documents.
        heldout: (n_h,) the same for held-out documents.
        heldout_documents: (n_h,) names of their documents.
        rng: the source of randomness.

    Raises:
        ValueError: a side is empty, shapes differ, or values other than 0 and 1.
    """
    sides = []
    for answers, documents in ((members, member_documents), (heldout, heldout_documents)):
        values: Floats = np.asarray(answers, np.float64)
        if not values.size or values.shape != (len(documents),) or not np.isin(values, (0.0, 1.0)).all():
            raise ValueError("give 0 or 1 for each question, and at least one question of either side")
        sides.append((values, np.zeros_like(values), np.unique(list(documents), return_inverse=True)[1]))
    gap = excess_rate(*sides[0], *sides[1], rng, alphas=ALPHAS)
    return estimate("auc.not_present", _as_area(gap), "questions", 0.5, "chance")


def _as_area(gap: Interval) -> Interval:
    """Turn a difference of rates into the AUC of a score of 0 and 1; bounds outside [0, 1] are cut."""

    def area(difference: float) -> float:
        return min(1.0, max(0.0, 0.5 + difference / 2))

    return replace(
        gap,
        value=area(gap.value),
        low=area(gap.low),
        high=area(gap.high),
        bounds=tuple((alpha, area(lower), area(upper)) for alpha, lower, upper in gap.bounds),
    )
