"""Change of one number between two scans: paired unit by unit where both have values, else from both intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.measurements import Estimate, Measurement
from audit.record import AuditRecord, Completed
from audit.report.comparison import Effect
from audit.stats.paired import Difference, UnitScores, joined_difference, paired_difference
from audit.targets.utility import estimate

ABOUT_TEXT = "says what the documents themselves give away, whatever the model"
NOT_RESOLVED = "not resolved"


def effect_of(effect: Effect, scores: tuple[UnitScores | None, UnitScores | None], rng: np.random.Generator) -> Effect:
    """Fill in the difference, or why there is none.

    Args:
        effect: with the number before and after.
        scores: the values by unit behind it, before and after; None: there are none.
        rng: the source of randomness.
    """
    one, other = effect.before, effect.after
    if not (isinstance(one, Estimate) and isinstance(other, Estimate)):
        return replace(effect, note=_why(one, other))
    before, after = scores
    paired = None
    if before is not None and after is not None:
        paired = paired_difference(before, after, rng)
    return filled(effect, paired or joined_difference(one, other), one)


def filled(effect: Effect, found: Difference, before: Estimate) -> Effect:
    """The effect with this difference."""
    difference = estimate(f"{effect.metric}.change", found.interval, before.unit, 0.0, "chance")
    return replace(effect, difference=difference, p=found.p, paired=found.paired, note="")


def measurement(result: Completed, metric: str) -> Measurement | None:
    """A number of an attack; None where its record lacks it."""
    return next((item for item in result.measurements if item.name == metric), None)


def completed(record: AuditRecord, attack: str) -> Completed | None:
    """The result of an attack that ran to its end."""
    return next((one for one in record.attacks if one.attack == attack and isinstance(one, Completed)), None)


def why_missing(record: AuditRecord, attack: str) -> str:
    """Why an attack did not run to its end; empty where it did."""
    found = next((one for one in record.attacks if one.attack == attack), None)
    if isinstance(found, Completed):
        return ""
    if attack not in record.battery:
        return f"docaudit {record.environment.docaudit} had no such attack"
    if found is None:
        return "it was not asked for"
    return str(getattr(found, "reason", None) or f"it broke down ({getattr(found, 'type', 'no reason')})")


def _why(*sides: Measurement | None) -> str:
    reasons = dict.fromkeys(_reason(item) for item in sides if not isinstance(item, Estimate))
    return "; ".join(reasons)


def _reason(item: Measurement | None) -> str:
    return "not measured" if item is None else f"{NOT_RESOLVED}: {getattr(item, 'reason', '')}"
