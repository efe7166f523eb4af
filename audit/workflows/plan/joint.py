"""The chance that a model which leaks nothing passes a whole policy, before any model runs (methods.md#statistics)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from audit.policy.checks import LEVEL
from audit.workflows.plan.limits import LimitPlan, Plan


@dataclass(frozen=True)
class Joint:
    """Whether a model that leaks nothing passes all limits on models.

    Attributes:
        limits: that there are units for, in the policy's order, so that an audit would hold numbers against them.
        chance: that it passes all of them and that no check fires. An estimate, see `joint_chance`.
        blocked: limits that no model passes on this data set as it is, so that none passes the policy.
    """

    limits: tuple[LimitPlan, ...]
    chance: float
    blocked: tuple[LimitPlan, ...]


def joint(plan: Plan) -> Joint:
    """Compute the chance that a model which leaks nothing passes all limits of the policy that are on models."""
    own = [limit for limit in plan.limits if not limit.about_text]
    resolved = tuple(limit for limit in own if limit.resolution is not None)
    chances = [limit.resolution.pass_power for limit in resolved if limit.resolution is not None]
    return Joint(resolved, joint_chance(chances), tuple(limit for limit in own if _blocked(limit)))


def joint_chance(chances: Iterable[float]) -> float:
    """Estimate how often a leak-free model passes all limits, taken as independent, while no check of the scan fires.

    The checks share one false-alarm rate (`audit.policy.checks.LEVEL`), whatever the number of documents.
    `benchmarks/leak_free_audits.md` compares the estimate with simulated audits.

    Args:
        chances: that it passes each limit, as far as the number of units goes.
    """
    return (1 - LEVEL) * math.prod(chances)


def _blocked(limit: LimitPlan) -> bool:
    """Whether no model passes the limit; one that a data set without its units leaves out blocks nothing."""
    match limit.outcome:
        case "confounded" | "blind check too weak" | "cannot pass":
            return True
        case "lacks":
            return limit.required or limit.resolution is not None
        case "no plan":
            return False
        case _:
            return any(one.outcome in ("lacks", "cannot pass", "blind check too weak") for one in limit.blockers)
