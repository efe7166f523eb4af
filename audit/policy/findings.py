"""What a rule finds on a limit: outcome, ground, cause and remedy.

The sentences are written in `audit.policy.reasons`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from audit.measurements import Check, Condition, Count, Coverage, Estimate, Unresolved
from audit.policy.decision import Cause, Outcome
from audit.policy.facts import LimitFacts
from audit.policy.limits import Demand


class Ground(Enum):
    """On what a limit was decided; each has one sentence."""

    UNKNOWN_ATTACK = auto()
    NO_NUMBER = auto()
    FAILED = auto()
    SKIPPED = auto()
    NO_DATA = auto()
    NOT_RUN = auto()
    INAPPLICABLE = auto()
    GAP = auto()
    CANNOT_EXCEED = auto()
    NO_UNITS = auto()
    UNTRIED_UNITS = auto()
    FEW_UNITS = auto()
    CONFIRMED = auto()
    CONFIRMED_MIRRORED = auto()
    CONFOUNDED = auto()
    NOT_CONFIRMED = auto()
    WEAKENED = auto()
    UNMEASURED_POWER = auto()
    WEAK = auto()
    UNMEASURED_USEFULNESS = auto()
    UNRESOLVED_USEFULNESS = auto()
    USELESS = auto()
    CHECK = auto()
    CONDITION = auto()
    LEFT_OUT = auto()
    UNKNOWN_COVERAGE = auto()
    UNCOVERED = auto()
    WITHIN = auto()
    CROSSES = auto()


class Remedy(Enum):
    """What would decide a limit; `OF_ATTACK` and `OF_RECORD` are in the record's own words."""

    OF_ATTACK = auto()
    OF_RECORD = auto()
    AGAIN = auto()
    ALL = auto()
    ASK_ALIKE = auto()
    AUDIT_WEIGHTS = auto()
    GIVE_BASELINE = auto()
    LIST_COPIES = auto()
    LIST_MORE = auto()
    LIST_MORE_OR_LIMIT = auto()
    MORE = auto()
    MORE_OF_THEM = auto()
    MORE_PROVIDERS = auto()
    NO_HELDOUT = auto()
    NO_OTHER_ATTACK = auto()
    OTHER_ATTACK = auto()
    REPORT_FAILURE = auto()
    RUN_AGAIN = auto()
    SCAN_WITH_THIS_VERSION = auto()
    SPLIT_MODELS = auto()
    STATE_RULE = auto()
    STRONGER = auto()
    STRONGER_REFERENCE = auto()
    TRAIN_SPLITS = auto()
    TRAINING_LABELS = auto()


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
        remedy: what would decide an undecided limit; None for one that is decided.
        cause: why an undecided limit is undecided; None for others.
        measured: estimate that the outcome rests on; None where it rests on none.
        p_value: one-sided p of that estimate against the limit, after Holm's rule.
        source: what the sentence quotes beside the facts, such as a check.
        also: what speaks against a pass beside a number that could not be had.
        least: smallest limit that so few documents to be forgotten can show, where that matters.
        demand: demand of the policy that keeps a limit open that was not run.
    """

    facts: LimitFacts
    outcome: Outcome
    ground: Ground
    remedy: Remedy | None = None
    cause: Cause | None = None
    measured: Estimate | None = None
    p_value: float | None = None
    source: Source = None
    also: Finding | None = None
    least: float | None = None
    demand: Demand | None = None

    def quoted(self, kind: type[T]) -> T:
        """Return the source of the finding, which must be of this type."""
        assert isinstance(self.source, kind)
        return self.source
