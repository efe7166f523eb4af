"""What a plan says: costs of attacks, outlooks of limits, and what all of them amount to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from audit.attacks.interface import Sides
from audit.policy.checks import LEVEL
from audit.policy.grounds import Urgency
from audit.stats.detection import UNPLANNED
from audit.stats.power import MetricKind, pass_power


@dataclass(frozen=True)
class Cost:
    """What one attack tries under a budget.

    Attributes:
        attack: name of the attack.
        trials: number of its trials.
        exact: whether they were counted with the model's tokens; otherwise there are at most so
            many.
        reached: number of units (documents, providers) of members and of others that these trials
            belong to, at most.
        inapplicable: why the model cannot be attacked this way, or the budget leaves that out;
            None when it is attacked, or no model was given.
        lacks: what the attack cannot do without and nobody gave; None when nothing.
        by_data: whether the data set lacks it; a reference can be given, and its lack excuses no
            limit.
        weakened: what the attack does without, and so passes no limit; None when nothing.
        seconds: estimated time of all trials on one device; None where it was not measured.
        memory: peak memory of the trials that were timed, models included, in bytes; None where it
            was not measured.
        untimed: why there is no time, where nothing above says so.
        share: share that the budget takes of the trials that could be tried.
        unlimited: why no limit is held against what it measures of the model; None: limits are.
    """

    attack: str
    trials: int
    exact: bool
    reached: Sides
    inapplicable: str | None = None
    lacks: str | None = None
    weakened: str | None = None
    by_data: bool = True
    seconds: float | None = None
    memory: int | None = None
    untimed: str = ""
    share: float = 1.0
    unlimited: str | None = None

    @property
    def without_limits(self) -> str | None:
        """Return why limits on the attack do not apply to the model; None where they do."""
        return self.inapplicable or self.unlimited

    @property
    def lacks_reference(self) -> bool:
        """Test whether the attack cannot do without a reference that nobody gave."""
        return self.lacks is not None and not self.by_data


Outlook = Literal[
    "decides",
    "confounded",
    "too small",
    "blind check too weak",
    "lacks",
    "cannot pass",
    "not applicable",
    "no plan",
]

WANTED_POWER = 0.8
"""A data set is too small for a limit that a model which leaks nothing passes less often
(methods/index.md#power-and-coverage)."""
MOST_TIMES = 40.0
"""More than so many times the documents that there are is no advice."""
STEP = 1.03
"""Factor by which the number of documents grows in search of one that is enough."""
WITHOUT = "; the policy does without it"
"""The end of a reason that a limit has when the policy excuses it for want of data."""


@dataclass(frozen=True)
class Resolution:
    """What so many units decide about a limit.

    Attributes:
        unit: word for what is independent of each other, plural.
        members: number of units that training saw.
        others: number of units that they are compared with; 0 where each member is compared with
            itself.
        certified: smallest limit that a model which leaks nothing passes, at its expected outcome.
        pass_power: chance that it passes this limit with all methods, as far as the number of
            units goes.
        needed: number of units a side with which a model that leaks nothing passes with power 0.8;
            None: no number will do.
        at_least: whether audits pass more often than `pass_power` says, and need fewer units.
        kind: kind of the metric.
        deciding: number of methods that a pass needs within the limit.
        confirms: smallest leak that an audit confirms beyond the limit with power 0.8; None: not
            planned, or none.
    """

    unit: str
    members: int
    others: int
    certified: float
    pass_power: float
    needed: int | None
    at_least: bool = False
    kind: MetricKind = "difference"
    deciding: int = 1
    confirms: float | None = None

    def chance(self, limit: float, factor: float) -> float:
        """Compute the chance that a leak-free model passes the limit.

        Args:
            limit: limit of the policy.
            factor: so many times the units that there are.
        """
        members = max(1, round(factor * self.members))
        others = max(min(1, self.others), round(factor * self.others))
        return pass_power(self.kind, members, others, limit) ** self.deciding


Blocker = tuple[Outlook, str]
"""An outcome that keeps a limit from being decided, and the reason in words."""


@dataclass(frozen=True)
class LimitPlan:
    """The outlook of one limit.

    Attributes:
        attack: attack that measures the metric.
        metric: metric that is limited.
        max: largest value that is allowed; None for a least value.
        outcome: "decides": a model that leaks nothing most probably passes; "confounded" and "blind
            check too weak": see `attacks.blind_baseline`; "lacks": the attack cannot run; "cannot
            pass": it runs, weakened. The first of `blockers`.
        reason: why it is not decided, in words.
        resolution: what the units decide; None where the data set has none for the metric.
        required: whether the policy requires it.
        blockers: all that keeps it from being decided, what nobody can mend first.
        about_text: whether it limits what the documents give away, whatever the model.
        excused: whether a scan cannot measure it for want of data, and the policy does without it.
    """

    attack: str
    metric: str
    max: float | None
    outcome: Outlook
    reason: str
    resolution: Resolution | None
    required: bool = True
    blockers: tuple[Blocker, ...] = ()
    about_text: bool = False
    excused: bool = False


@dataclass(frozen=True)
class Joint:
    """Whether a model that leaks nothing passes all limits on models.

    Attributes:
        limits: limits that there are units for, in the policy's order, so that an audit would hold
            numbers against them.
        chance: chance that it passes all of them and that no check fires. An estimate, see
            `joint_chance`.
        blocked: limits that no model passes on this data set as it is, so that none passes the
            policy.
    """

    limits: tuple[LimitPlan, ...]
    chance: float
    blocked: tuple[LimitPlan, ...]


@dataclass(frozen=True)
class Enough:
    """Documents with which a leak-free model passes all limits in `WANTED_POWER` of audits.

    Attributes:
        members: number of documents of training in all.
        others: number of unseen documents in all.
        more_members: number of documents of training beyond those that there are.
        more_others: number of unseen documents beyond those that there are.
    """

    members: int
    others: int
    more_members: int
    more_others: int


@dataclass(frozen=True)
class SmallestLeaks:
    """The smallest leaks of documents that a scan confirms with power 0.8.

    They are those of the policy's first limits on each.

    Attributes:
        area: AUC of membership; None where none is confirmed, or none is limited.
        share: share of the training documents that give values away, less that of unseen ones;
            None likewise.
    """

    area: float | None
    share: float | None


@dataclass(frozen=True)
class Plan:
    """The plan of an audit; counts and numbers only.

    Attributes:
        corpus: name of the data set.
        sha256: digest of the data set.
        policy: name of the policy.
        budget: budget of the counts.
        limits: outlooks of the limits, in the policy's order.
        costs: costs of every attack that runs under the policy.
        device: device that times were taken on; empty without a model.
        documents: number of units of both sides that are tried at most; None: all of the budget's.
        seconds: time that the trials are bounded to; None: not bounded.
        training: least and most seconds that each reference takes which can be trained.
    """

    corpus: str
    sha256: str
    policy: str
    budget: str
    limits: tuple[LimitPlan, ...]
    costs: tuple[Cost, ...]
    device: str = ""
    documents: int | None = None
    seconds: float | None = None
    training: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float | None:
        """Sum the seconds of all timed attacks."""
        timed = [cost.seconds for cost in self.costs if cost.seconds is not None]
        return sum(timed) if timed else None

    @property
    def peak_memory(self) -> int:
        """Return the largest peak of memory of a timed attack, in bytes."""
        return max((cost.memory or 0 for cost in self.costs), default=0)

    @property
    def too_small(self) -> dict[str, int]:
        """Return the number of units a side that limits need, by the unit with too few of them."""
        needed: dict[str, int] = {}
        for limit in self.limits:
            if limit.outcome != "too small" or limit.excused:
                continue
            resolution = limit.resolution
            if resolution is not None and resolution.needed is not None:
                unit = resolution.unit
                needed[unit] = max(resolution.needed, needed.get(unit, 0))
        return needed

    @property
    def joint(self) -> Joint:
        """Estimate the chance that a model which leaks nothing passes all limits on models."""
        resolved: list[LimitPlan] = []
        blocked: list[LimitPlan] = []
        chances: list[float] = []
        for limit in self.limits:
            if limit.about_text:
                continue
            if limit.resolution is not None and not limit.excused:
                resolved.append(limit)
                chances.append(limit.resolution.pass_power)
            if _cannot_pass(limit):
                blocked.append(limit)
        return Joint(tuple(resolved), joint_chance(chances), tuple(blocked))

    @property
    def first_cause(self) -> Urgency | None:
        """Return the most urgent cause that keeps a limit on models open; None without any."""
        cost_of = {cost.attack: cost for cost in self.costs}
        judged = [limit for limit in self.limits if not limit.about_text and not limit.excused]
        causes = [_cause_of(limit, cost_of.get(limit.attack)) for limit in judged]
        return min((cause for cause in causes if cause is not None), default=None)

    @property
    def leaks(self) -> SmallestLeaks | None:
        """Return the smallest leaks of documents that a scan confirms.

        None where no limit is planned for it.
        """
        areas = [limit for limit in self.limits if _is_of_documents(limit, "auc")]
        differences = [limit for limit in self.limits if _is_of_documents(limit, "difference")]
        if not areas and not differences:
            return None
        return SmallestLeaks(_smallest_confirmed(areas), _smallest_confirmed(differences))

    @property
    def only_exceeded(self) -> tuple[LimitPlan, ...]:
        """Return the limits that no audit here meets, but that a strong leak exceeds."""
        exceeded = [limit for limit in self.limits if _lets_leaks_through(limit)]
        return tuple(limit for limit in exceeded if _confirms_a_leak(limit))

    @property
    def may_exceed_others(self) -> bool:
        """Test whether a leak may exceed limits for which no plan says how large it must be."""
        open_limits = [limit for limit in self.limits if _lets_leaks_through(limit)]
        if any(_is_of_unplanned_kind(limit) for limit in open_limits):
            return True
        return any(limit.outcome == "no plan" for limit in self.limits)

    @property
    def enough(self) -> Enough | None:
        """Return how many documents are enough for all limits; None where more do not help."""
        return enough_documents(self.joint)


URGENCY: Mapping[Outlook, Urgency] = {
    "confounded": Urgency.OTHER_ALARM,
    "cannot pass": Urgency.REFERENCE,
    "too small": Urgency.DOCUMENTS,
    "blind check too weak": Urgency.DOCUMENTS,
    "lacks": Urgency.DOCUMENTS,
}
"""How urgent that is what keeps a limit open, as a scan ranks it; a lacking reference is more."""


def _cause_of(limit: LimitPlan, cost: Cost | None) -> Urgency | None:
    """Return the most urgent cause that keeps a limit on models open; None without any."""
    outcomes = {outcome for outcome, _ in limit.blockers}
    if "inapplicable" in outcomes:
        if len(outcomes) > 1:
            return Urgency.POLICY
        return None
    causes = [URGENCY[outcome] for outcome in outcomes & URGENCY.keys()]
    if "lacks" in outcomes and cost is not None and cost.lacks_reference:
        causes.append(Urgency.REFERENCE)
    return min(causes, default=None)


SPARES_LEAKS: frozenset[Outlook] = frozenset({"too small", "cannot pass"})
"""What keeps a limit from being met, and lets a strong leak be confirmed."""


def _lets_leaks_through(limit: LimitPlan) -> bool:
    """Test whether a limit is not confirmed as met, for no cause that hides a leak."""
    outcomes = {outcome for outcome, _ in limit.blockers}
    return bool(outcomes) and outcomes <= SPARES_LEAKS


def _confirms_a_leak(limit: LimitPlan) -> bool:
    """Test whether a strong leak beyond the limit is confirmed."""
    return limit.resolution is not None and limit.resolution.confirms is not None


def _is_of_unplanned_kind(limit: LimitPlan) -> bool:
    """Test whether no plan says which leak beyond the limit is confirmed."""
    return limit.resolution is not None and limit.resolution.kind in UNPLANNED


def _is_of_documents(limit: LimitPlan, kind: str) -> bool:
    """Test whether a limit is on a metric of documents of this kind."""
    resolution = limit.resolution
    if resolution is None or resolution.unit != "documents":
        return False
    return resolution.kind.endswith(kind)


def _smallest_confirmed(limits: Sequence[LimitPlan]) -> float | None:
    """Return the smallest leak that the first of the limits confirms."""
    if not limits or limits[0].resolution is None:
        return None
    return limits[0].resolution.confirms


def enough_documents(joint: Joint) -> Enough | None:
    """Find how many documents would do for all limits together.

    None where more do not help, or are not needed.

    Both sides are taken to grow alike, and companies and planted secrets to stay as many as they
    are.

    Args:
        joint: limits that there are units for, and the chance to pass them all.
    """
    resolutions = [limit.resolution for limit in joint.limits]
    documents = [
        resolution
        for resolution in resolutions
        if resolution is not None and resolution.unit == "documents"
    ]
    if joint.chance >= WANTED_POWER or not documents:
        return None
    most = max(documents, key=lambda resolution: (resolution.members, resolution.others))
    factor = 1.0
    while factor < MOST_TIMES:
        factor *= STEP
        if joint_chance(_chances_with(joint.limits, factor)) >= WANTED_POWER:
            members = round(factor * most.members)
            others = round(factor * most.others)
            return Enough(members, others, members - most.members, others - most.others)
    return None


def _chances_with(limits: Sequence[LimitPlan], factor: float) -> list[float]:
    """Return the chance of each limit with `factor` times the documents that there are."""
    chances: list[float] = []
    for limit in limits:
        resolution = limit.resolution
        assert limit.max is not None
        assert resolution is not None
        if resolution.unit == "documents":
            chances.append(resolution.chance(limit.max, factor))
        else:
            chances.append(resolution.pass_power)
    return chances


def joint_chance(chances: Iterable[float]) -> float:
    """Estimate how often a leak-free model passes all limits while no check of the scan fires.

    The limits are taken as independent. The checks share one false-alarm rate
    (`audit.policy.checks.LEVEL`), whatever the number of documents.
    `benchmarks/calibration/leak_free_audits.md` compares it with simulated audits.

    Args:
        chances: chance that it passes each limit, as far as the number of units goes.
    """
    return (1 - LEVEL) * math.prod(chances)


def _cannot_pass(limit: LimitPlan) -> bool:
    """Test whether no model can pass the limit on this data set."""
    if limit.excused:
        return False
    if limit.outcome == "lacks":
        return limit.required or limit.resolution is not None
    hopeless = ("confounded", "lacks", "cannot pass", "blind check too weak")
    return any(outcome in hopeless for outcome, _ in limit.blockers)
