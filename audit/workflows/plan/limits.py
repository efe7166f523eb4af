"""Limits of a policy that an audit can decide, and the units that a data set has for each.

Method: methods.md#statistics.

A limit is held against every method of its attack. Of several, and of a balanced accuracy, which is a mean over many
forests and known better than one call a unit, the chances given here are least ones: audits pass at least so often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from audit.attacks.battery import BATTERY
from audit.attacks.blind_baseline import Blind
from audit.attacks.interface import Units, confounded_by_copies
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import NO_COPIES, Copies
from audit.measurements import ALPHAS
from audit.policy import SIGNIFICANCE, Limit, Policy
from audit.policy.gaps import unanswered
from audit.stats.power import CHANCE, MetricKind, certified, needed, pass_power, power
from audit.workflows.plan.costs import Cost

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
"""A data set is too small for a limit that a model which leaks nothing passes less often (methods.md#statistics)."""
EXCESS = 0.10
"""How far over its limit the leak is that an audit should confirm: a tenth of the documents beyond a limit of
0.05, an AUC of 0.75 beyond 0.65, a balanced accuracy of 0.65 beyond 0.55."""
MAX_EFFECT = 0.99
"""No leak is taken for larger."""
WITHOUT = "; the policy does without it"
"""The end of a reason that a limit has when the policy excuses it for want of data."""


@dataclass(frozen=True)
class Resolution:
    """What so many units decide about a limit.

    Attributes:
        unit: what is independent of each other, plural.
        members: units that training saw.
        others: units that they are compared with; 0 where each member is compared with itself.
        certified: the smallest limit that a model which leaks nothing passes, at its expected outcome.
        pass_power: the chance that it passes this limit with all methods, as far as the number of units goes.
        effect: a leak over the limit, no larger than the metric can be on this data set.
        power: the chance that this leak is confirmed for one method, when it is the only one (Holm over all methods of
            the limits that the data set can feed).
        needed: units a side with which a model that leaks nothing passes with power 0.8; None: no number will do.
        methods: measurements that the limit is held against.
        at_least: whether audits pass more often than `pass_power` says, and need fewer units.
        kind: of the metric.
    """

    unit: str
    members: int
    others: int
    certified: float
    pass_power: float
    effect: float
    power: float
    needed: int | None
    methods: int = 1
    at_least: bool = False
    kind: MetricKind = "difference"


@dataclass(frozen=True)
class Blocker:
    """Something that keeps a limit from being decided."""

    outcome: Outlook
    reason: str


@dataclass(frozen=True)
class LimitPlan:
    """The outlook of one limit.

    Attributes:
        attack: whose metric it is.
        metric: the one that is limited.
        max: to what; None for a least value.
        outcome: "decides": a model that leaks nothing most probably passes; "confounded" and "blind check too weak":
            see `attacks.blindness`; "lacks": the attack cannot run; "cannot pass": it runs, weakened. The first of
            `blockers`.
        reason: why not, in words.
        resolution: None where the data set has no units for the metric.
        required: as the policy has it.
        blockers: all that keeps it from being decided, what nobody can mend first.
        about_text: whether it limits what the documents give away, whatever the model.
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


@dataclass(frozen=True)
class Plan:
    """The plan of an audit; counts and numbers only.

    Attributes:
        corpus: the data set's name.
        sha256: of the data set.
        policy: its name.
        budget: of the counts.
        limits: in the policy's order.
        costs: of every attack.
        device: where times were taken; empty without a model.
        documents: units of both sides that are tried at most; None: all of the budget's.
        seconds: the time that the trials are bounded to; None: not bounded.
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
    copied = {kind.name: confounded_by_copies(copies, kind.preset(budget), corpus) for kind in BATTERY}
    cost_of = {cost.attack: cost for cost in costs}
    named = {limit.attack for limit in policy.limits}
    units = {
        (kind.name, one.metric): one
        for kind in BATTERY
        if kind.name in named
        for one in kind.preset(budget).units(corpus)
    }
    found = [
        (limit, cost_of[limit.attack], _tried(units.get((limit.attack, limit.metric)), cost_of[limit.attack]))
        for limit in policy.limits
    ]
    tested = sum(_tests(limit, cost, one) for limit, cost, one in found)
    alpha = confirming_level(max(1, tested))
    task = corpus.manifest.task.kind
    gaps = {gap.attack for gap in policy.gaps if task in gap.tasks}
    limits = tuple(
        _plan_limit(limit, cost, one, alpha, blind.get(limit.attack), copied[limit.attack], limit.attack in gaps)
        for limit, cost, one in found
    )
    limits = _hold_demands(policy, task, limits)
    return Plan(corpus.manifest.name, corpus.sha256, policy.name, budget, limits, tuple(costs))


def _hold_demands(policy: Policy, task: str, limits: tuple[LimitPlan, ...]) -> tuple[LimitPlan, ...]:
    """Require what a demand of the policy needs, although the policy would do without it."""
    excused = {one.attack for one in limits if one.reason.endswith(WITHOUT)}
    asked = {one.attack for one in limits if not one.about_text and one.outcome != "inapplicable"} - excused
    needed = {attack: demand.sentence for demand, attack in unanswered(policy, task, asked, excused) if attack}
    return tuple(
        replace(one, required=True, reason=f"{one.reason.removesuffix(WITHOUT)}; {needed[one.attack]}")
        if one.attack in needed and one.reason.endswith(WITHOUT)
        else one
        for one in limits
    )


def _without(cost: Cost, permitted: bool) -> Cost:
    """The cost of an attack, which the policy may permit models of this task to go without.

    A model at hand says itself whether the attack applies to it.
    """
    if permitted and cost.lacks is not None and cost.inapplicable is None and not cost.exact:
        return replace(cost, inapplicable="the policy does without it for models of this task")
    return cost


def _tried(units: Units | None, cost: Cost) -> Units | None:
    """The units that a budget's trials reach."""
    if units is None or units.about_text:
        return units
    members, others = cost.reached
    return replace(units, members=min(units.members, members), others=min(units.others, others))


def _tests(limit: Limit, cost: Cost, units: Units | None) -> int:
    """How many numbers an audit would hold against the limit; areas count twice, on either side of chance."""
    if limit.max is None or units is None or not is_comparable(units):
        return 0
    if cost.lacks is not None or cost.inapplicable is not None:
        return 0
    return units.methods * (2 if CHANCE[units.kind] else 1)


def _plan_limit(
    limit: Limit,
    tried: Cost,
    units: Units | None,
    alpha: float,
    blind: Blind | None,
    copied: str | None,
    permitted: bool,
) -> LimitPlan:
    """`permitted`: whether the policy does without the attack where a model of this task cannot be put to it."""
    resolution = None
    cost = _without(tried, permitted)
    if cost.inapplicable is None and limit.max is not None and units is not None and is_comparable(units):
        resolution = resolve(limit.max, units, alpha)
    blockers = _blockers(limit, cost, units, resolution, blind, copied)
    if cost.inapplicable is not None and not permitted:
        blockers += (Blocker("cannot pass", "the policy permits no such gap"),)
    outcome, reason = (blockers[0].outcome, "; ".join(one.reason for one in blockers)) if blockers else ("decides", "")
    if outcome == "lacks" and not limit.required and (cost.by_data or cost.lacks is None):
        reason += WITHOUT
    about_text = units is not None and units.about_text
    return LimitPlan(
        limit.attack, limit.metric, limit.max, outcome, reason, resolution, limit.required, blockers, about_text
    )


def _blockers(
    limit: Limit,
    cost: Cost,
    units: Units | None,
    resolution: Resolution | None,
    blind: Blind | None,
    copied: str | None,
) -> tuple[Blocker, ...]:
    """All that keeps a limit from being decided, what nobody can mend first and what takes a reference last."""
    lacks = cost.lacks
    if cost.inapplicable is not None:
        return (Blocker("inapplicable", cost.inapplicable),)
    if limit.max is None:
        return (Blocker("no plan", "a least value limits no leak"),)
    if units is None:
        return (Blocker("no plan", "no plan for this metric") if lacks is None else Blocker("lacks", lacks),)
    if resolution is None:
        compared = "to compare them with" if units.members else "of members"
        return (Blocker("lacks", lacks or f"no {units.unit} {compared}"),)
    told_apart = blind is not None and blind.told_apart
    too_weak = None if blind is None or told_apart else blind.confounded
    hindrances: tuple[tuple[Outlook, str | None], ...] = (
        ("confounded", copied),
        ("confounded", blind.checks[0].reason if blind is not None and told_apart else None),
        ("too small", _too_small(limit.max, resolution) if resolution.pass_power < WANTED_POWER else None),
        ("blind check too weak", too_weak),
        ("lacks", lacks),
        ("cannot pass", cost.weakened),
    )
    return tuple(Blocker(outcome, reason) for outcome, reason in hindrances if reason is not None)


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


def confirming_level(n_tests: int) -> float:
    """The recorded level at which Holm confirms a leak in one of so many tests, when it is the only one."""
    return max((alpha for alpha in ALPHAS if alpha * n_tests <= SIGNIFICANCE), default=min(ALPHAS))


def is_comparable(units: Units) -> bool:
    """Check that there are units on all sides that the metric compares."""
    return units.members > 0 and (units.others > 0 or units.kind == "paired difference")


def resolve(limit: float, units: Units, alpha: float) -> Resolution:
    """Compute what the units decide about a limit; `alpha` is the level at which a leak is confirmed."""
    kind, members, others = units.kind, units.members, units.others
    effect = max(CHANCE[kind], min(max(limit, CHANCE[kind]) + EXCESS, MAX_EFFECT))
    return Resolution(
        units.unit,
        members,
        others,
        certified(kind, members, others),
        _all(pass_power(kind, members, others, limit), units.methods),
        effect,
        power(kind, members, others, effect, limit, alpha=alpha),
        needed(kind, limit, 1 - (1 - WANTED_POWER) / units.methods),
        units.methods,
        units.methods > 1 or kind == "balanced accuracy",
        kind,
    )


def _all(chance: float, n: int) -> float:
    """The least chance that all of so many happen, whatever they have in common (Bonferroni)."""
    return max(0.0, 1 - n * (1 - chance))
