"""Waivers of a policy: those that hold, and the register of all of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT
from audit.policy.limits import LONGEST_WAIVER, Policy, Waiver

if TYPE_CHECKING:
    from audit.policy.decision import Decision

SOON = 30
"""Days before the end of a waiver from which it is warned of (ours): time for another training."""
WaiverState = Literal["in force", "ending", "expired", "too long", "not needed"]
"""What a waiver does.

    in force    its limit is violated, and it holds
    ending      the same, for `SOON` days at most
    expired     it has no effect
    too long    it ends later than `LONGEST_WAIVER` allows, and has no effect
    not needed  its limit is not violated, or a later waiver of it holds
"""


@dataclass(frozen=True, config=STRICT)
class RegisteredWaiver:
    """A waiver on the day of the verdict; `days` are left until its last one, negative once it is over."""

    waiver: Waiver
    state: WaiverState
    days: int

    @property
    def sentence(self) -> str:
        """Who answers for which limit until when, and what the waiver does."""
        one = self.waiver
        left = f"{self.days} {'day' if self.days == 1 else 'days'}"
        does = {
            "in force": f"holds until {one.expires}",
            "ending": f"ends in {left}, on {one.expires}",
            "expired": f"expired on {one.expires} and has no effect",
            "too long": f"ends on {one.expires}, more than 12 months ahead, and has no effect",
            "not needed": f"until {one.expires} is not needed now",
        }[self.state]
        return f"{one.attack} {one.metric}: the waiver of {one.owner} ({one.role}) {does}"


def waive(decision: Decision, policy: Policy, today: dt.date) -> Decision:
    """Return the decision waived where it is a violation and a waiver holds; else with those that do not, named."""
    if decision.outcome != "violated":
        return decision
    own = _of(decision, policy)
    holding = [one for one in own if _term(one, today) == "in force"]
    if holding:
        return replace(decision, outcome="waived", waiver=max(holding, key=lambda one: one.expires))
    useless = "".join(f"; {_useless(one, today)}" for one in own)
    return replace(decision, reason=f"{decision.reason}{useless}")


def register(decisions: Sequence[Decision], policy: Policy, today: dt.date) -> Iterator[RegisteredWaiver]:
    """List every waiver of the policy with what it does to these decisions, in the policy's order."""
    used = [decision.waiver for decision in decisions if decision.waiver is not None]
    for one in policy.waivers:
        days = (one.expires - today).days
        state: WaiverState = _term(one, today)
        if state == "in force" and one not in used:
            state = "not needed"
        elif state == "in force" and days <= SOON:
            state = "ending"
        yield RegisteredWaiver(one, state, days)


def _of(decision: Decision, policy: Policy) -> list[Waiver]:
    limit = decision.limit
    return [one for one in policy.waivers if (one.attack, one.metric) == (limit.attack, limit.metric)]


def _term(one: Waiver, today: dt.date) -> Literal["in force", "expired", "too long"]:
    if one.expires < today:
        return "expired"
    return "too long" if one.expires - today > LONGEST_WAIVER else "in force"


def _useless(one: Waiver, today: dt.date) -> str:
    if _term(one, today) == "expired":
        return f"a waiver by {one.owner} expired on {one.expires}"
    return f"a waiver by {one.owner} until {one.expires} is longer than 12 months"
