"""An interval that lies wholly over its limit: violated, or undecided for want of documents, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_policy import completed, judge, limit, normal
from test_policy_passes import area

from audit.measurements import Estimate
from audit.policy import Decision
from audit.record import Result

OTHERS = tuple(normal(f"other{number}", 0.0, 0.01) for number in range(6))


def measured(*numbers: Estimate) -> Result:
    return replace(completed(*numbers))


def decided(number: Estimate, top: float, *others: Estimate, ablations: tuple[str, ...] = ()) -> Decision:
    found = replace(measured(number, *others), ablations=ablations)
    limits = [limit(max=top), *(limit(metric=one.name, max=0.5) for one in others)]
    return judge([found], *limits).decisions[0]


def test_it_is_violated_where_the_policy_limits_nothing_else() -> None:
    assert decided(normal("leak", 0.30, 0.05), 0.2).outcome == "violated"


@pytest.mark.parametrize("number", [normal("leak", 0.31, 0.05), area("leak", 0.31, 0.05), area("leak", 0.69, 0.05)])
def test_beside_others_the_adjusted_p_and_the_documents_are_stated(number: Estimate) -> None:
    top = 0.2 if number.null is None else 0.58
    decision = decided(number, top, *OTHERS, ablations=("no reference",))
    assert (decision.outcome, decision.cause) == ("undecided", "wide")
    assert decision.reason.startswith("the whole interval lies over the limit, but the leak is not confirmed")
    assert "after Holm's rule, at most 0.05 confirms it" in decision.reason
    assert decision.remedy.startswith("audit about ")
    assert "weakened" not in decision.reason


def test_the_documents_that_are_advised_confirm_it() -> None:
    number = normal("leak", 0.31, 0.05)
    decision = decided(number, 0.2, *OTHERS)
    more = int(decision.remedy.split()[2].replace(",", ""))
    narrower = 0.05 * (number.clusters / (number.clusters + more)) ** 0.5
    assert decided(normal("leak", 0.31, narrower), 0.2, *OTHERS).outcome == "violated"
    fewer = 0.05 * (number.clusters / (number.clusters + more / 20)) ** 0.5
    assert decided(normal("leak", 0.31, fewer), 0.2, *OTHERS).outcome == "undecided"


def test_a_least_value_that_is_missed_says_the_same() -> None:
    found = measured(normal("leak", 0.39, 0.05), *OTHERS)
    decision = judge([found], limit(min=0.5), *(limit(metric=one.name, max=0.5) for one in OTHERS)).decisions[0]
    assert decision.outcome in ("violated", "undecided")
    assert decision.outcome == "violated" or "after Holm's rule" in decision.reason
