"""The one piece of advice answers the most urgent cause, however many limits others hold open."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pytest
from judged import (
    FAILED,
    NO_DATA,
    SAFE,
    SKIPPED,
    area,
    completed,
    gone,
    judged,
    limit,
    normal,
)

from audit.cards import Bounds, Forgotten
from audit.measurements import LABEL_ORDER, REFUSALS, WAY_OF_WRITING, Check, Coverage
from audit.policy.grounds import Urgency
from audit.record import Result
from audit.report.action import first_action
from audit.report.answer import decides_most
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts

COMPARED = {"member": 100, "heldout": 100}
CROSSING = normal("leak", 0.55, 0.05)
USELESS = replace(normal("anls", 0.1, 0.05), null=0.2, null_kind="chance")
LEFT_OUT = gone("left out", "left out", "this attack was not run", "scan without --only")


def check(name: str, cause: Any = "alarm") -> Check:
    return Check(name, 0.0, cause, f"{name} is wrong", f"mend {name}")


@dataclass(frozen=True)
class Case:
    """A cause: what it makes of an attack, and of the record."""

    urgency: Urgency
    result: Result
    settings: dict[str, Any] = field(default_factory=dict)

    def of(self, attack: str) -> Result:
        return replace(self.result, attack=attack)


def scanned(urgency: Urgency, name: str) -> Case:
    return Case(urgency, completed(SAFE), {"checks": (check(name),)})


CASES = {
    "labels in another order": scanned(Urgency.LABEL_ORDER, LABEL_ORDER),
    "a model that refuses": scanned(Urgency.REFUSALS, REFUSALS),
    "pages written otherwise": scanned(Urgency.WAY_OF_WRITING, WAY_OF_WRITING),
    "a useless model": Case(Urgency.USELESS, completed(SAFE), {"utility": (USELESS,)}),
    "a reference that knows": Case(
        Urgency.KNOWING_REFERENCE,
        completed(CROSSING, checks=(check("baseline knows one side", "confounded"),)),
    ),
    "swapped sides": Case(Urgency.SWAPPED_SIDES, completed(area("leak", 0.4))),
    "documents that differ": Case(
        Urgency.OTHER_ALARM, completed(CROSSING, checks=(check("blind", "confounded"),))
    ),
    "a missing reference": Case(Urgency.REFERENCE, SKIPPED),
    "a weakened attacker": Case(Urgency.ATTACKER, completed(SAFE, ablations=("no image",))),
    "an attack that was left out": Case(Urgency.UNTRIED, LEFT_OUT),
    "too few documents": Case(Urgency.DOCUMENTS, completed(CROSSING)),
    "nothing to attack": Case(Urgency.DOCUMENTS, NO_DATA),
    "a failed attack": Case(Urgency.REPAIR, FAILED),
    "a gap in the policy": Case(Urgency.POLICY, gone("inapplicable", "model", "no such head")),
}
PAIRS = [
    pytest.param(CASES[first], CASES[second], id=f"{first}, {second}")
    for first, second in combinations(CASES, 2)
]


def judge_facts(results: list[Result], settings: dict[str, Any]) -> Facts:
    limits = [limit(attack=result.attack, max=0.58) for result in results]
    record, verdict = judged(results, *limits, gaps=(), **{"documents": COMPARED, **settings})
    return facts_of(record, verdict)


def urgency_of(facts: Facts) -> Urgency | None:
    if facts.alarm is not None:
        return facts.alarm.urgency
    if facts.next_step is None:
        return None
    return facts.next_step.urgency


MORE_DOCUMENTS = "add documents to the data set, as docaudit plan counts them, and scan again"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_cause_has_its_urgency(case: Case) -> None:
    facts = judge_facts([case.of("reconstruction")], case.settings)
    assert facts.outcome == "undecided"
    assert urgency_of(facts) is case.urgency
    assert facts.verdict.decisions[0].urgency is case.urgency


@pytest.mark.parametrize("order", [list, reversed], ids=["first", "last"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_more_urgent_of_two_causes_is_the_advice_however_few_limits_it_holds_open(
    first: Case, second: Case, order: Callable[[list[Result]], Any]
) -> None:
    checks = (*first.settings.get("checks", ()), *second.settings.get("checks", ()))
    settings = {**first.settings, **second.settings, "checks": checks}
    others = [second.of(f"other{number}") for number in range(3)]
    facts = judge_facts([*order([first.of("reconstruction"), *others])], settings)
    assert urgency_of(facts) is min(first.urgency, second.urgency)


def test_the_order_is_alarms_references_documents_and_the_policy_last() -> None:
    alarms = [urgency for urgency in Urgency if urgency.is_alarm]
    assert max(alarms) < Urgency.REFERENCE < Urgency.UNTRIED < Urgency.ATTACKER < Urgency.DOCUMENTS
    assert max(Urgency) is Urgency.POLICY


def test_nobody_is_sent_to_the_policy_while_an_attack_lacks_a_reference() -> None:
    gap = CASES["a gap in the policy"]
    gaps = [gap.of(f"other{number}") for number in range(4)]
    facts = judge_facts([*gaps, SKIPPED], {"family": "served model"})
    assert decides_most(facts) == "To decide 1 of 5 undecided limits: --reference auxiliary=PATH."


def test_an_alarm_of_the_scan_is_named_though_no_number_of_it_was_measured() -> None:
    facts = judge_facts([SKIPPED], {"checks": (check(REFUSALS),)})
    assert decides_most(facts) == "Refusals is wrong. Mend refusals."


@pytest.mark.parametrize(
    ("tried", "advice"),
    [
        pytest.param(50, "rerun without --budget quick", id="half"),
        pytest.param(100, MORE_DOCUMENTS, id="each document"),
    ],
)
def test_a_rerun_is_advised_only_where_something_is_left_untried(tried: int, advice: str) -> None:
    coverage = (Coverage("all", tried, 100, "documents"),)
    result = completed(CROSSING, attack="provider_membership", coverage=coverage)
    facts = judge_facts([result], {"share": 0.25})
    assert decides_most(facts) == f"To decide 1 of 1 undecided limit: {advice}."


HUNDRED_A_SIDE = {"member": 100, "heldout": 100}


@pytest.mark.parametrize("unit", ["documents", "questions"])
@pytest.mark.parametrize(
    ("tried", "share", "bounds", "advice"),
    [
        pytest.param(100, 0.25, None, MORE_DOCUMENTS, id="all, quick"),
        pytest.param(100, 0.25, Bounds(200, None, 1.0), MORE_DOCUMENTS, id="all, quick, documents"),
        pytest.param(100, 1.0, Bounds(200, None, 1.0), MORE_DOCUMENTS, id="all, documents"),
        pytest.param(100, 1.0, Bounds(None, 60.0, 1.0), MORE_DOCUMENTS, id="all, time"),
        pytest.param(25, 0.25, None, "rerun without --budget quick", id="part, quick"),
        pytest.param(
            40, 1.0, Bounds(80, None, 1.0), "rerun without --documents", id="part, documents"
        ),
        pytest.param(40, 1.0, Bounds(None, 60.0, 0.4), "rerun without --time", id="part, time"),
        pytest.param(
            10,
            0.25,
            Bounds(80, None, 1.0),
            "rerun without --budget quick and --documents",
            id="part, quick, documents",
        ),
    ],
)
def test_a_rerun_names_only_options_that_left_something_untried(
    unit: str, tried: int, share: float, bounds: Bounds | None, advice: str
) -> None:
    coverage = (Coverage("all", tried, 100, unit),)
    result = completed(CROSSING, attack="provider_membership", coverage=coverage)
    settings = {
        "share": share,
        "bounds": bounds,
        "documents": HUNDRED_A_SIDE,
    }
    facts = judge_facts([result], settings)
    assert decides_most(facts) == f"To decide 1 of 1 undecided limit: {advice}."
    assert facts.verdict.decisions[0].remedy == advice


def swapped(value: float, error: float, most: float, **settings: Any) -> Facts:
    number = replace(area("auc", value, error), unit="documents")
    result = completed(number, attack="membership")
    area_limit = limit("auc", "membership", max=most)
    record, verdict = judged([result], area_limit, documents=COMPARED, **settings)
    return facts_of(record, verdict)


@pytest.mark.parametrize(
    ("value", "error", "most", "outcome"),
    [
        pytest.param(0.17, 0.03, 0.65, "violated", id="far under chance"),
        pytest.param(0.40, 0.04, 0.65, "undecided", id="across the mirrored limit"),
        pytest.param(0.30, 0.03, 0.95, "undecided", id="within the mirrored limit"),
    ],
)
def test_an_area_wholly_under_chance_asks_whether_the_sides_are_swapped(
    value: float, error: float, most: float, outcome: str
) -> None:
    facts = swapped(value, error, most)
    assert facts.outcome == outcome
    assert urgency_of(facts) is Urgency.SWAPPED_SIDES
    action = first_action(facts)
    assert action is not None
    assert "knows the unseen documents better than those of training" in action.text
    assert f"as well as {1 - value:.2f} does" in action.text
    assert "--members, are swapped" in action.text


@pytest.mark.parametrize(
    ("name", "urgency"),
    [
        pytest.param("held-out documents", Urgency.SWAPPED_SIDES, id="unseen documents trained on"),
        pytest.param("blind", Urgency.OTHER_ALARM, id="documents that differ"),
        pytest.param("reference: baselines", Urgency.KNOWING_REFERENCE, id="a reference"),
    ],
)
def test_what_explains_an_area_under_chance_is_named_instead(name: str, urgency: Urgency) -> None:
    facts = swapped(0.05, 0.02, 0.65, checks=(check(name, "confounded"),))
    assert facts.alarm is not None
    assert facts.alarm.urgency is urgency
    is_swapped = urgency is Urgency.SWAPPED_SIDES
    assert ("--members, are swapped" in decides_most(facts)) is is_swapped


def test_an_area_that_reaches_chance_asks_nothing() -> None:
    facts = swapped(0.45, 0.05, 0.65)
    assert facts.alarm is None


def test_documents_to_be_forgotten_are_not_swapped() -> None:
    forgotten = Forgotten(100, "0" * 64, {})
    facts = swapped(0.30, 0.03, 0.95, forgotten=forgotten, forgets=True)
    text = decides_most(facts)
    assert "knows the documents to be forgotten less than unseen ones" in text
    assert "swapped" not in text
