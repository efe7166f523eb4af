"""What a bounded scan can decide, in a few lines, before any outcome is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.policy import Policy
from audit.workflows.plan.cost import Cost, at_most
from audit.workflows.plan.limits import LimitPlan, plan_limits
from audit.workflows.plan.references import attacks_with_references
from audit.workflows.setup import ScanSetup


def outlook(opened: ScanSetup, policy: Policy, part: float) -> Iterator[str]:
    """Say which limits the documents of a bounded scan can meet.

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
