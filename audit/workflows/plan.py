"""Limits of a policy that an audit can decide, and the units that a data set has for each.

Method: methods.md#statistics.

A limit is held against every method of its attack. Of several, and of a balanced accuracy, which is
a mean over many forests and known better than one call a unit, the chances given here are least
ones: audits pass at least so often.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from audit.attacks.battery import BATTERY
from audit.attacks.blind_baseline import Blind
from audit.attacks.budget import MEMBERS, OTHERS, SHARES, halves, side_of
from audit.attacks.interface import (
    Attack,
    Sides,
    Units,
    confounded_by_copies,
    first_of,
    may_try,
    most_units,
)
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import NO_COPIES, Copies
from audit.policy import SIGNIFICANCE, Limit, Policy
from audit.policy.checks import LEVEL, unanswered
from audit.stats.detection import confirmed_from
from audit.stats.power import MetricKind, certified, needed, pass_power
from audit.targets.interface import NoModel

UNTIMED = "give --model to time it"
UNTIMED_SHARE = f"{UNTIMED}: a scan takes more of it than this share where time allows"


@dataclass(frozen=True)
class Cost:
    """What one attack tries under a budget.

    Attributes:
        attack: its name.
        trials: their number.
        exact: counted with the model's tokens; otherwise there are at most so many.
        reached: how many units (documents, providers) of members and of others these trials belong
            to, at most.
        inapplicable: why the model cannot be attacked this way; None when it can, or no model was
            given.
        lacks: what the attack cannot do without and nobody gave; None when nothing.
        by_data: whether the data set lacks it; a reference can be given, and its lack excuses no
            limit.
        weakened: what it does without, and so passes no limit; None when nothing.
        seconds: estimate for all trials on one device; None where it was not measured.
        memory: peak of the trials that were timed, models included, in bytes; None where it was not
            measured.
        untimed: why there is no time, where nothing above says so.
        share: of the trials that could be tried, what the budget takes.
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


Outlook = Literal[
    "decides",
    "confounded",
    "too small",
    "blind check too weak",
    "lacks",
    "cannot pass",
    "inapplicable",
    "no plan",
]

WANTED_POWER = 0.8
"""A data set is too small for a limit that a model which leaks nothing passes less often
(methods.md#statistics)."""
MOST_TIMES = 40.0
"""More than so many times the documents that there are is no advice."""
STEP = 1.03
"""By which the number of documents grows in search of one that is enough."""
WITHOUT = "; the policy does without it"
"""The end of a reason that a limit has when the policy excuses it for want of data."""


@dataclass(frozen=True)
class Resolution:
    """What so many units decide about a limit.

    Attributes:
        unit: what is independent of each other, plural.
        members: units that training saw.
        others: units that they are compared with; 0 where each member is compared with itself.
        certified: the smallest limit that a model which leaks nothing passes, at its expected
            outcome.
        pass_power: the chance that it passes this limit with all methods, as far as the number of
            units goes.
        needed: units a side with which a model that leaks nothing passes with power 0.8; None: no
            number will do.
        at_least: whether audits pass more often than `pass_power` says, and need fewer units.
        kind: what the metric is.
        deciding: methods that a pass needs within the limit.
        confirms: the smallest leak that an audit confirms beyond the limit with power 0.8; None:
            not planned, or none.
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
        """Compute the chance that a model which leaks nothing passes the limit with so many times the units."""
        members = max(1, round(factor * self.members))
        others = max(min(1, self.others), round(factor * self.others))
        return pass_power(self.kind, members, others, limit) ** self.deciding


Blocker = tuple[Outlook, str]
"""An outcome that keeps a limit from being decided, and the reason in words."""


@dataclass(frozen=True)
class LimitPlan:
    """The outlook of one limit.

    Attributes:
        attack: whose metric it is.
        metric: the one that is limited.
        max: to what; None for a least value.
        outcome: "decides": a model that leaks nothing most probably passes; "confounded" and "blind
            check too weak": see `attacks.blindness`; "lacks": the attack cannot run; "cannot pass":
            it runs, weakened. The first of `blockers`.
        reason: why not, in words.
        resolution: None where the data set has no units for the metric.
        required: as the policy has it.
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
        limits: that there are units for, in the policy's order, so that an audit would hold numbers
            against them.
        chance: that it passes all of them and that no check fires. An estimate, see `joint_chance`.
        blocked: limits that no model passes on this data set as it is, so that none passes the
            policy.
    """

    limits: tuple[LimitPlan, ...]
    chance: float
    blocked: tuple[LimitPlan, ...]


@dataclass(frozen=True)
class Enough:
    """Documents with which a model that leaks nothing passes all limits in `WANTED_POWER` of audits.

    Attributes:
        members: documents of training in all.
        others: unseen documents in all.
        more_members: documents of training beyond those that there are.
        more_others: unseen documents beyond those that there are.
    """

    members: int
    others: int
    more_members: int
    more_others: int


@dataclass(frozen=True)
class SmallestLeaks:
    """The smallest leaks of documents that a scan confirms with power 0.8, of the policy's first limits on each.

    Attributes:
        area: AUC of membership; None where none is confirmed, or none is limited.
        share: part of the training documents that give values away, less that of unseen ones; None
            likewise.
    """

    area: float | None
    share: float | None


@dataclass(frozen=True)
class Plan:
    """The plan of an audit; counts and numbers only.

    Attributes:
        corpus: the data set's name.
        sha256: of the data set.
        policy: its name.
        budget: of the counts.
        limits: in the policy's order.
        costs: of every attack that runs under the policy.
        device: where times were taken; empty without a model.
        documents: units of both sides that are tried at most; None: all of the budget's.
        seconds: the time that the trials are bounded to; None: not bounded.
        training: of each reference that can be trained, the least and the most seconds that it
            takes.
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
        """Return how many units a side the limits need for which the data set is too small, by the unit."""
        found: dict[str, int] = {}
        for limit in self.limits:
            own = limit.resolution
            if (
                own is not None
                and own.needed is not None
                and limit.outcome == "too small"
                and not limit.excused
            ):
                found[own.unit] = max(own.needed, found.get(own.unit, 0))
        return found

    @property
    def joint(self) -> Joint:
        """Estimate the chance that a model which leaks nothing passes all limits on models."""
        own = [limit for limit in self.limits if not limit.about_text]
        resolved = tuple(
            limit for limit in own if limit.resolution is not None and not limit.excused
        )
        chances = [
            limit.resolution.pass_power for limit in resolved if limit.resolution is not None
        ]
        return Joint(
            resolved, joint_chance(chances), tuple(limit for limit in own if _blocked(limit))
        )

    @property
    def leaks(self) -> SmallestLeaks | None:
        """Return the smallest leaks of documents that a scan confirms.

        None where no limit is planned for it.
        """
        areas = [limit for limit in self.limits if _is_of_documents(limit, "auc")]
        differences = [limit for limit in self.limits if _is_of_documents(limit, "difference")]
        if not areas and not differences:
            return None
        return SmallestLeaks(_confirmed(areas), _confirmed(differences))

    @property
    def enough(self) -> Enough | None:
        """Return how many documents would do for all limits, see `enough_documents`."""
        return enough_documents(self.joint)


def _is_of_documents(limit: LimitPlan, kind: str) -> bool:
    resolution = limit.resolution
    return (
        resolution is not None and resolution.unit == "documents" and resolution.kind.endswith(kind)
    )


def _confirmed(limits: Sequence[LimitPlan]) -> float | None:
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
        joint: the limits that there are units for, and the chance to pass them all.
    """
    sized = [(limit.max, limit.resolution) for limit in joint.limits]
    documents = [
        resolution
        for _, resolution in sized
        if resolution is not None and resolution.unit == "documents"
    ]
    if joint.chance >= WANTED_POWER or not documents:
        return None
    most = max(documents, key=lambda resolution: (resolution.members, resolution.others))
    factor = 1.0
    while factor < MOST_TIMES:
        factor *= STEP
        chances = []
        for limit, resolution in sized:
            assert limit is not None
            assert resolution is not None
            if resolution.unit == "documents":
                chances.append(resolution.chance(limit, factor))
            else:
                chances.append(resolution.pass_power)
        if joint_chance(chances) >= WANTED_POWER:
            members = round(factor * most.members)
            others = round(factor * most.others)
            return Enough(members, others, members - most.members, others - most.others)
    return None


def plan_limits(
    corpus: Corpus,
    policy: Policy,
    budget: str,
    costs: Sequence[Cost],
    blind: Mapping[str, Blind],
    copies: Copies = NO_COPIES,
) -> Plan:
    """Hold what a data set has against every limit of a policy.

    Args:
        corpus: the data set.
        policy: one whose names were checked.
        budget: of the scan.
        costs: of every attack under this budget.
        blind: the results of the blind checks, by attack; see `audit.blind_checks`.
        copies: the copies between splits.
    """
    copied = {
        kind.name: confounded_by_copies(copies, kind.preset(budget), corpus) for kind in BATTERY
    }
    cost_of = {cost.attack: cost for cost in costs}
    named = {limit.attack for limit in policy.limits}
    units = _units_by_limit(corpus, budget, named)
    task = corpus.manifest.task.kind
    gaps = {gap.attack for gap in policy.gaps if task in gap.tasks}
    limits = tuple(
        _plan_limit(
            limit,
            cost_of[limit.attack],
            units.get((limit.attack, limit.metric)),
            blind.get(limit.attack),
            copied[limit.attack],
            limit.attack in gaps,
        )
        for limit in policy.limits
    )
    limits = _hold_demands(policy, task, limits)
    limits = _with_smallest_leaks(limits, units)
    # `docaudit forget-check` runs no attack that its policy leaves without a limit; a scan runs
    # them all.
    costs = [cost for cost in costs if not policy.forgets or cost.attack in named]
    return Plan(corpus.manifest.name, corpus.sha256, policy.name, budget, limits, tuple(costs))


def _units_by_limit(corpus: Corpus, budget: str, attacks: Set[str]) -> dict[tuple[str, str], Units]:
    """Return the units of a corpus for the metrics of some attacks, by attack and metric."""
    units: dict[tuple[str, str], Units] = {}
    for kind in BATTERY:
        if kind.name in attacks:
            for offered in kind.preset(budget).units(corpus):
                units[kind.name, offered.metric] = offered
    return units


def _with_smallest_leaks(
    limits: Sequence[LimitPlan], units: Mapping[tuple[str, str], Units]
) -> tuple[LimitPlan, ...]:
    """Add to each resolution the smallest leak that a scan confirms, at the level of the verdict.

    All methods of all resolved limits share this level, as the smallest p-value of Holm's procedure
    has it.
    """
    n_tests = 0
    for limit in limits:
        if limit.resolution is not None:
            n_tests += units[limit.attack, limit.metric].methods
    planned = []
    for limit in limits:
        resolution = limit.resolution
        if resolution is not None and limit.max is not None:
            sides = resolution.members, resolution.others
            tail = SIGNIFICANCE / n_tests
            smallest = confirmed_from(resolution.kind, *sides, limit.max, tail, WANTED_POWER)
            limit = replace(limit, resolution=replace(resolution, confirms=smallest))
        planned.append(limit)
    return tuple(planned)


def _hold_demands(
    policy: Policy, task: str, limits: tuple[LimitPlan, ...]
) -> tuple[LimitPlan, ...]:
    """Require what a demand of the policy needs, although the policy would do without it."""
    excused = {limit.attack for limit in limits if limit.excused}
    asked = set()
    for limit in limits:
        if not limit.about_text and limit.outcome != "inapplicable":
            asked.add(limit.attack)
    needed = {}
    for demand, attack in unanswered(policy, task, asked - excused, excused):
        if attack is not None:
            needed[attack] = demand.sentence
    planned = []
    for limit in limits:
        if limit.excused and limit.attack in needed:
            reason = f"{_reason_of(limit.blockers)}; {needed[limit.attack]}"
            limit = replace(limit, required=True, excused=False, reason=reason)
        planned.append(limit)
    return tuple(planned)


def _reason_of(blockers: Sequence[Blocker]) -> str:
    return "; ".join(why for _, why in blockers)


def _plan_limit(
    limit: Limit,
    cost: Cost,
    units: Units | None,
    blind: Blind | None,
    copied: str | None,
    permitted: bool,
) -> LimitPlan:
    """Plan a limit.

    `permitted`: the policy does without the attack where a model of this task cannot be put to it.
    """
    if units is not None and not units.about_text:
        members, others = cost.reached
        units = replace(
            units, members=min(units.members, members), others=min(units.others, others)
        )
    if permitted and cost.lacks is not None and cost.inapplicable is None and not cost.exact:
        cost = replace(cost, inapplicable="the policy does without it for models of this task")
    comparable = (
        units is not None
        and units.members > 0
        and (units.others > 0 or units.kind == "paired difference")
    )
    resolution = None
    if cost.inapplicable is None and limit.max is not None and units is not None and comparable:
        resolution = resolve(limit.max, units)
    blockers = _blockers(limit, cost, units, resolution, blind, copied)
    if cost.inapplicable is not None and not permitted:
        blockers += (("cannot pass", "the policy permits no such gap"),)
    outcome: Outlook = blockers[0][0] if blockers else "decides"
    reason = _reason_of(blockers)
    lacks = any(blocker == "lacks" for blocker, _ in blockers)
    excused = lacks and not limit.required and (cost.by_data or cost.lacks is None)
    if excused:
        reason += WITHOUT
    return LimitPlan(
        limit.attack,
        limit.metric,
        limit.max,
        outcome,
        reason,
        resolution,
        limit.required,
        blockers,
        about_text=units is not None and units.about_text,
        excused=excused,
    )


def _blockers(
    limit: Limit,
    cost: Cost,
    units: Units | None,
    resolution: Resolution | None,
    blind: Blind | None,
    copied: str | None,
) -> tuple[Blocker, ...]:
    """List all that keeps a limit from being decided, what nobody can mend first and what takes a reference last."""
    if cost.inapplicable is not None:
        return (("inapplicable", cost.inapplicable),)
    if limit.max is None:
        return (("no plan", "a least value limits no leak"),)
    if units is None:
        return (
            ("no plan", "no plan for this metric") if cost.lacks is None else ("lacks", cost.lacks),
        )
    if resolution is None:
        compared = "to compare them with" if units.members else "of members"
        return (("lacks", cost.lacks or f"no {units.unit} {compared}"),)
    told_apart = blind is not None and blind.told_apart
    hindrances: tuple[tuple[Outlook, str | None], ...] = (
        ("confounded", copied),
        ("confounded", blind.checks[0].reason if blind is not None and told_apart else None),
        (
            "too small",
            _too_small(limit.max, resolution) if resolution.pass_power < WANTED_POWER else None,
        ),
        ("blind check too weak", None if blind is None or told_apart else blind.confounded),
        ("lacks", cost.lacks),
        ("cannot pass", cost.weakened),
    )
    return tuple((outcome, reason) for outcome, reason in hindrances if reason is not None)


def _too_small(limit: float, resolution: Resolution) -> str:
    if resolution.certified > limit:
        chance = f"without any leak the interval reaches {resolution.certified:.3f}"
    else:
        least = "at least " if resolution.at_least else ""
        chance = f"a model that leaks nothing passes in {least}{100 * resolution.pass_power:.0f} % of audits"
    if resolution.needed is None:
        return f"{chance}; no number of {resolution.unit} leaves room for chance under this limit"
    side = " a side" if resolution.others else ""
    return f"{chance}; about {resolution.needed} {resolution.unit}{side} are needed"


def resolve(limit: float, units: Units) -> Resolution:
    """Compute what the units decide about a limit."""
    kind, members, others = units.kind, units.members, units.others
    deciding = 1 if units.joined else units.methods
    # Of several methods all must pass. Methods that go together pass more often than independent
    # ones.
    passes = pass_power(kind, members, others, limit) ** deciding
    least = certified(kind, members, others)
    enough = needed(kind, limit, WANTED_POWER ** (1 / deciding))
    at_least = deciding > 1 or kind == "balanced accuracy"
    return Resolution(units.unit, members, others, least, passes, enough, at_least, kind, deciding)


def at_most(corpus: Corpus, budget: str, documents: int | None = None) -> tuple[Cost, ...]:
    """List the cost of every attack without a model, whose tokenizer may leave some out.

    See `ScanOptions`.
    """
    return tuple(
        _at_most(kind.preset(budget), corpus, SHARES[budget], documents) for kind in BATTERY
    )


def _at_most(attack: Attack, corpus: Corpus, share: float, documents: int | None) -> Cost:
    case = Case(NoModel(corpus), corpus)
    reasons = attack.applies(case)
    inapplicable = first_of(reasons, case, "model")
    if inapplicable is not None:
        return Cost(attack.name, 0, False, (0, 0), inapplicable=inapplicable)
    sides = _most_trials(attack, corpus)
    sampled = reached = (math.ceil(share * sides[0]), math.ceil(share * sides[1]))
    if documents is not None:
        sampled, reached = _bounded(attack, corpus, sides, share, documents)
    untimed = UNTIMED if share == 1 or documents is not None else UNTIMED_SHARE
    lacks, weakened = first_of(reasons, case, "data", "missing"), first_of(reasons, case, "weak")
    by_data, n_trials = first_of(reasons, case, "data") is not None, sum(sampled)
    return Cost(
        attack.name,
        n_trials,
        False,
        reached,
        None,
        lacks,
        weakened,
        by_data,
        untimed=untimed,
        share=share,
    )


def _most_trials(attack: Attack, corpus: Corpus) -> Sides:
    """Count the trials of either side that a data set gives at most.

    Its units where trials do not tell their side.
    """
    sides = [side_of(trial.stratum) for trial in may_try(attack, corpus)]
    members, others = (sum(side in names for side in sides) for names in (MEMBERS, OTHERS))
    return (members, others) if members or others else most_units(attack, corpus)


def _bounded(
    attack: Attack, corpus: Corpus, sides: Sides, share: float, documents: int
) -> tuple[Sides, Sides]:
    """Count trials and units of a bounded scan: at least one trial of each drawn unit."""
    there = [
        max(n, min(1, offered))
        for n, offered in zip(most_units(attack, corpus), sides, strict=True)
    ]
    kept = [min(pair) for pair in zip(there, halves(documents, there), strict=True)]
    trials = [
        max(own, math.ceil(share * offered * own / n)) if n else 0
        for own, offered, n in zip(kept, sides, there, strict=True)
    ]
    return (trials[0], trials[1]), (kept[0], kept[1])


def joint_chance(chances: Iterable[float]) -> float:
    """Estimate how often a leak-free model passes all limits, taken as independent, while no check of the scan fires.

    The checks share one false-alarm rate (`audit.policy.checks.LEVEL`), whatever the number of
    documents. `benchmarks/leak_free_audits.md` compares the estimate with simulated audits.

    Args:
        chances: that it passes each limit, as far as the number of units goes.
    """
    return (1 - LEVEL) * math.prod(chances)


def _blocked(limit: LimitPlan) -> bool:
    """Return whether no model can pass the limit on this data set."""
    if limit.excused:
        return False
    if limit.outcome == "lacks":
        return limit.required or limit.resolution is not None
    hopeless = ("confounded", "lacks", "cannot pass", "blind check too weak")
    return any(outcome in hopeless for outcome, _ in limit.blockers)
