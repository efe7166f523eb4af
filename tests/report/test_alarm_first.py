"""An alarm is the first thing to do on page one too, before any other action."""

from dataclasses import replace

import example_records as examples
import pytest
from shown_pages import page_one

from audit.defenses.remedy import STATES
from audit.measurements import LABEL_ORDER, Check
from audit.report.answer import decides_most
from audit.report.facts.build import facts_of

ALARM = Check(LABEL_ORDER, 0.0, "alarm", "outputs 2 and 3 look swapped", "put the names in order")


@pytest.mark.parametrize("name", ["wide", "violated"])
def test_an_alarm_is_the_first_action_of_page_one(name: str) -> None:
    record, _, policy = examples.CASES[name]()
    case = examples.judged(replace(record, checks=(ALARM,)), policy)
    text = page_one(case)
    _, _, actions = text.partition("until the limits are met")
    assert actions.split()[:5] == ["Put", "the", "names", "in", "order."]
    assert "Outputs 2 and 3 look swapped." in actions
    facts = facts_of(*case[:2])
    assert decides_most(facts) == "Outputs 2 and 3 look swapped. Put the names in order."


def test_page_one_has_no_alarm_without_one() -> None:
    record, verdict, _ = examples.CASES["wide"]()
    assert facts_of(record, verdict).alarm is None


def test_states_are_answered_in_the_order_of_causes() -> None:
    order = ["alarm", "one-sided", "unmeasured", "untried", "weak", "wide", "gap"]
    assert sorted(order, key=STATES.index) == order
