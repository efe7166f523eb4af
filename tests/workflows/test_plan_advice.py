"""A plan names the most urgent cause first: alike groups, references, then more documents."""

from dataclasses import replace
from itertools import combinations

import pytest

from audit.cli.plan import conclusion
from audit.policy.grounds import Urgency
from audit.workflows.outlook import Blocker, Cost, LimitPlan, Outlook, Plan, Resolution

FEW = Resolution("documents", 40, 40, 0.7, 0.1, 90)
SENTENCES = {
    Urgency.OTHER_ALARM: "First make the two groups alike",
    Urgency.REFERENCE: "First give what the attacks lack",
    Urgency.DOCUMENTS: "Too small",
}
CAUSES: dict[str, tuple[Urgency, Blocker]] = {
    "groups that differ": (Urgency.OTHER_ALARM, ("confounded", "they differ")),
    "a missing reference": (Urgency.REFERENCE, ("lacks", "no public model")),
    "a weakened attacker": (Urgency.REFERENCE, ("cannot pass", "no baseline")),
    "too few documents": (Urgency.DOCUMENTS, ("too small", "90 are needed")),
}
PAIRS = [
    pytest.param(CAUSES[first], CAUSES[second], id=f"{first}, {second}")
    for first, second in combinations(CAUSES, 2)
]


def planned(*blockers: Blocker) -> Plan:
    limits = []
    costs = []
    for number, blocker in enumerate(blockers):
        name = ("membership", "reconstruction")[number]
        limits.append(LimitPlan(name, "auc", 0.65, blocker[0], "", FEW, blockers=(blocker,)))
        lacks = None
        if blocker[0] == "lacks":
            lacks = blocker[1]
        costs.append(Cost(name, 10, True, (40, 40), lacks=lacks, by_data=False))
    return Plan("made", "0" * 64, "mine", "standard", tuple(limits), tuple(costs))


@pytest.mark.parametrize("step", [1, -1], ids=["first", "last"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_more_urgent_of_two_causes_is_named(
    first: tuple[Urgency, Blocker], second: tuple[Urgency, Blocker], step: int
) -> None:
    plan = planned(*[first[1], second[1]][::step])
    urgency = min(first[0], second[0])
    assert plan.first_cause is urgency
    text = conclusion(plan, detailed=False)
    named = [sentence for sentence in SENTENCES.values() if sentence in text]
    assert named[0] == SENTENCES[urgency]


def test_a_plan_that_decides_all_names_no_cause() -> None:
    limit = LimitPlan("membership", "auc", 0.65, "decides", "", FEW)
    plan = Plan("made", "0" * 64, "mine", "standard", (limit,), ())
    assert plan.first_cause is None
    assert "First" not in conclusion(plan, detailed=False)


def test_a_plan_counts_limits_that_can_be_met_apart_from_those_that_a_leak_can_only_exceed() -> (
    None
):
    small = replace(FEW, confirms=0.9)
    outlooks: list[tuple[Outlook, Resolution]] = [
        ("decides", FEW),
        ("too small", small),
        ("too small", FEW),
        ("confounded", small),
        ("lacks", small),
    ]
    limits = []
    for outcome, resolution in outlooks:
        blockers: tuple[Blocker, ...] = ()
        if outcome != "decides":
            blockers = ((outcome, "a reason"),)
        limits.append(
            LimitPlan("membership", "auc", 0.65, outcome, "", resolution, blockers=blockers)
        )
    plan = Plan("made", "0" * 64, "mine", "standard", tuple(limits), ())
    assert plan.only_exceeded == (limits[1],)
    assert conclusion(plan, detailed=False).startswith(
        "made can confirm 1 of 5 limits as met. A strong leak can exceed 1 more."
    )
    assert conclusion(plan).startswith(
        "made can confirm 1 of 5 limits as met: membership auc."
        " A strong leak can exceed 1 more: membership auc."
    )
    uncounted = replace(limits[0], outcome="no plan", blockers=(("no plan", "a reason"),))
    plan = replace(plan, limits=(*limits, uncounted))
    assert "A strong leak can exceed at least 1 more." in conclusion(plan, detailed=False)


def test_a_plan_that_cannot_tell_which_leak_exceeds_a_limit_counts_it_apart() -> None:
    """No smallest leak is planned for some kinds of metrics, which a scan exceeds all the same."""
    unplanned = replace(FEW, kind="low advantage", confirms=None)
    blockers: tuple[Blocker, ...] = (("too small", "90 are needed"),)
    limit = LimitPlan("membership", "tpr", 0.1, "too small", "", unplanned, blockers=blockers)
    plan = Plan("made", "0" * 64, "mine", "standard", (limit,), ())
    assert conclusion(plan, detailed=False).startswith(
        "made can confirm 0 of 1 limits as met. A strong leak may still exceed more limits."
    )
    counted = replace(limit, metric="auc", resolution=replace(FEW, confirms=0.9))
    plan = replace(plan, limits=(limit, counted))
    assert "A strong leak can exceed at least 1 more." in conclusion(plan, detailed=False)
