"""What a rule finds on a limit: outcome, ground, cause and remedy.

The sentences are written in `audit.policy.reasons`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from audit.measurements import Check, Condition, Count, Coverage, Estimate, Unresolved
from audit.policy.decision import Cause, Outcome
from audit.policy.facts import LimitFacts
from audit.policy.grounds import Ground, Remedy, Urgency
from audit.policy.limits import Demand


class OtherAttacks(NamedTuple):
    """Attacks that ask the question of one that does not apply."""

    names: tuple[str, ...]


class LeftOut(NamedTuple):
    """Documents or questions of one side that were left out, and the share that a pass allows."""

    gone: int
    total: int
    side: str
    unit: str
    most: float


class Shortfall(NamedTuple):
    """Where fewer of the possible leaks were tried than the share that the policy asks for."""

    places: tuple[Coverage, ...]
    share: float


Source = (
    Check | Condition | Count | Estimate | Unresolved | OtherAttacks | LeftOut | Shortfall | None
)
T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """What a rule finds on a limit.

    Attributes:
        facts: facts that the rule was applied to.
        ground: what decides; chooses the sentence.
        remedy_id: what would decide an undecided limit; None for one that is decided.
        cause: why an undecided limit is undecided; None for others.
        measured: estimate that the outcome rests on; None where it rests on none.
        p_value: one-sided p of that estimate against the limit, after Holm's rule.
        source: what the sentence quotes beside the facts, such as a check.
        also: what speaks against a pass beside a number that could not be had.
        least: smallest limit that so few documents to be forgotten can show, where that matters.
        urgency: how soon the remedy is needed; None of a decided limit.
        demand: demand of the policy that keeps a limit open that was not run.
    """

    facts: LimitFacts
    outcome: Outcome
    ground: Ground
    remedy_id: Remedy | None = None
    cause: Cause | None = None
    measured: Estimate | None = None
    p_value: float | None = None
    source: Source = None
    also: Finding | None = None
    least: float | None = None
    demand: Demand | None = None
    urgency: Urgency | None = None

    def quoted(self, kind: type[T]) -> T:
        """Return the source of the finding, which must be of this type."""
        assert isinstance(self.source, kind)
        return self.source
