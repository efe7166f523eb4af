"""What a bounded scan can decide, in a few lines, before any outcome is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.policy import Policy
from audit.stats.power import CHANCE, power
from audit.workflows.plan.cost import Cost, at_most
from audit.workflows.plan.limits import LimitPlan, plan_limits
from audit.workflows.plan.references import attacks_with_references
from audit.workflows.plan.resolution import MAX_EFFECT, WANTED_POWER, Resolution, confirming_level
from audit.workflows.setup import ScanSetup

SHOWN = 3
"""Leaks that are named (ours)."""
_HALVINGS = 12


def outlook(opened: ScanSetup, policy: Policy, part: float) -> Iterator[str]:
    """Say which limits the documents of a bounded scan can decide, and which leaks would show all the same.

    Args:
        opened: the scan.
        policy: the one that it is judged by.
        part: of the units of each side that is tried.
    """
    corpus, options = opened.corpus, opened.options
    costs = at_most(corpus, options.budget, options.documents, part)
    running = attacks_with_references(opened)
    limits = [
        limit if limit.attack in running else replace(limit, outcome="lacks")
        for limit in plan_limits(corpus, policy, options.budget, costs, {}, opened.copies).limits
        if not limit.about_text
    ]
    yield from sentences(limits, costs, options.documents, part)


def sentences(limits: Sequence[LimitPlan], costs: Sequence[Cost], documents: int | None, part: float) -> Iterator[str]:
    """The same from limits that were planned."""
    n = documents if documents is not None else max((sum(cost.reached) for cost in costs), default=0)
    resolved = [one for one in limits if one.resolution is not None and one.outcome not in ("lacks", "inapplicable")]
    able = [one for one in resolved if one.outcome == "decides"]
    bound = f"{n} documents" if documents is not None else f"the {100 * part:.0f} % of the documents that fit"
    if able:
        yield f"With {bound} {len(able)} of {len(limits)} limits can be met."
    else:
        yield f"With {bound} no limit can be met: this is a first look, and passes nothing."
    shown = sorted((least_shown(one), one.attack, one.metric) for one in resolved if one.max is not None)
    told = [f"{attack} {metric} of {leak:.2f}" for leak, attack, metric in shown if leak < MAX_EFFECT][:SHOWN]
    if told:
        yield f"A leak shows all the same where it is large (found in 80 % of scans): {', '.join(told)} or more."
    elif resolved:
        yield "Only a leak of nearly everything would show."


def least_shown(limit: LimitPlan) -> float:
    """Find the smallest leak that is confirmed over a limit with power 0.8, when it is the only one tested."""
    resolution = limit.resolution
    assert resolution is not None
    assert limit.max is not None
    low, high = max(limit.max, CHANCE[resolution.kind]), MAX_EFFECT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _confirms(resolution, middle, limit.max) else (middle, high)
    return high


def _confirms(resolution: Resolution, leak: float, limit: float) -> bool:
    alpha = confirming_level(1)
    found = power(resolution.kind, resolution.members, resolution.others, leak, limit, alpha=alpha)
    return found >= WANTED_POWER
