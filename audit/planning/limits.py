"""What an audit can decide: every limit of a policy beside the units that a data set has for it (METHODS.md 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from audit.attacks import BATTERY
from audit.attacks.blindness import Blind
from audit.attacks.copies import confounded_by_copies
from audit.attacks.interface import Units
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import NO_COPIES, Copies
from audit.planning.cost import Cost
from audit.policy import SIGNIFICANCE, Limit, Policy, check_names
from audit.record import ALPHAS
from audit.stats.power import CHANCE, certified, needed, pass_power, power

Outcome = Literal[
    "decides", "confounded", "too small", "blind check too weak", "lacks", "cannot pass", "inapplicable", "no plan"
]
WANTED_POWER = 0.8
"""A data set is too small for a limit that a model which leaks nothing passes less often (METHODS, section 6)."""
EXCESS = 0.10
"""How far over its limit the leak is that an audit should confirm (ours): a tenth of the documents beyond a limit of
0.05, an AUC of 0.75 beyond 0.65, a balanced accuracy of 0.65 beyond 0.55."""
MAX_EFFECT = 0.99
"""No leak is taken for larger (ours)."""


@dataclass(frozen=True)
class Resolution:
    """What so many units decide about a limit.

    Attributes:
        unit: what is independent of each other, plural.
        members: units that training saw.
        others: units that they are compared with; 0 where each member is compared with itself.
        certified: the smallest limit that a model which leaks nothing passes, at its expected outcome.
        pass_power: the chance that it passes this limit, as far as the number of units goes.
        effect: a leak over the limit.
        power: the chance that this leak is confirmed, when it is the only one (Holm over the limits that the data set
            can feed).
        needed: units a side with which a model that leaks nothing passes with power 0.8; None: no number will do.
    """

    unit: str
    members: int
    others: int
    certified: float
    pass_power: float
    effect: float
    power: float
    needed: int | None


@dataclass(frozen=True)
class LimitPlan:
    """What becomes of one limit.

    Attributes:
        attack: whose metric it is.
        metric: what is limited.
        max: to what; None for a least value.
        outcome: "decides": a model that leaks nothing most probably passes; "confounded" and "blind check too weak":
            see `attacks.blindness`; "lacks": the attack cannot run; "cannot pass": it runs, weakened.
        reason: why not, in words.
        resolution: None where the data set has no units for the metric.
    """

    attack: str
    metric: str
    max: float | None
    outcome: Outcome
    reason: str
    resolution: Resolution | None


@dataclass(frozen=True)
class Plan:
    """What `docaudit plan` says; counts and numbers only.

    Attributes:
        corpus: the data set's name.
        sha256: of the data set.
        policy: its name.
        budget: what the counts are for.
        limits: in the policy's order.
        costs: of every attack.
    """

    corpus: str
    sha256: str
    policy: str
    budget: str
    limits: tuple[LimitPlan, ...]
    costs: tuple[Cost, ...]


def checked(policy: Policy) -> Policy:
    """The policy, when all it names exists.

    Raises:
        PolicyError: it names an attack or a metric that does not exist.
    """
    check_names(policy, {kind.name: kind.metrics for kind in BATTERY})
    return policy


def plan(
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
        policy: one that was `checked`.
        budget: of the scan.
        costs: of every attack under this budget.
        blind: what came of the blind checks, by attack; see `confounding.blind_checks`.
        copies: what was found of copies between splits.
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
    tested = sum(_tested(limit, cost, one) for limit, cost, one in found)
    alpha = _level(max(1, tested))
    limits = tuple(
        _planned(limit, cost, one, alpha, blind.get(limit.attack), copied[limit.attack]) for limit, cost, one in found
    )
    return Plan(corpus.manifest.name, corpus.sha256, policy.name, budget, limits, tuple(costs))


def _tried(units: Units | None, cost: Cost) -> Units | None:
    """The units that a budget's trials reach."""
    if units is None:
        return None
    members, others = cost.reached
    return replace(units, members=min(units.members, members), others=min(units.others, others))


def _level(n_limits: int) -> float:
    """The recorded level at which Holm confirms a leak in one of so many limits, when it is the only one."""
    return max((alpha for alpha in ALPHAS if alpha * n_limits <= SIGNIFICANCE), default=min(ALPHAS))


def _tested(limit: Limit, cost: Cost, units: Units | None) -> bool:
    """Whether an audit would have a number to hold against the limit."""
    held = limit.max is not None and units is not None and _comparable(units)
    return held and cost.lacks is None and cost.inapplicable is None


def _comparable(units: Units) -> bool:
    return units.members > 0 and (units.others > 0 or units.kind == "paired difference")


def _planned(
    limit: Limit, cost: Cost, units: Units | None, alpha: float, blind: Blind | None, copied: str | None
) -> LimitPlan:
    resolution = None
    if cost.inapplicable is None and limit.max is not None and units is not None and _comparable(units):
        resolution = _resolution(limit.max, units, alpha)
    outcome, reason = _outcome(limit, cost, units, resolution, blind, copied)
    if outcome == "lacks" and not limit.required:
        reason += "; the policy does without it"
    return LimitPlan(limit.attack, limit.metric, limit.max, outcome, reason, resolution)


def _resolution(limit: float, units: Units, alpha: float) -> Resolution:
    kind, members, others = units.kind, units.members, units.others
    effect = min(max(limit, CHANCE[kind]) + EXCESS, MAX_EFFECT)
    return Resolution(
        units.unit,
        members,
        others,
        certified(kind, members, others),
        pass_power(kind, members, others, limit),
        effect,
        power(kind, members, others, effect, limit, alpha=alpha),
        needed(kind, limit, WANTED_POWER),
    )


def _outcome(
    limit: Limit,
    cost: Cost,
    units: Units | None,
    resolution: Resolution | None,
    blind: Blind | None,
    copied: str | None,
) -> tuple[Outcome, str]:
    lacks = cost.lacks
    if cost.inapplicable is not None:
        return "inapplicable", cost.inapplicable
    if limit.max is None:
        return "no plan", "a least value limits no leak"
    if units is None:
        return ("lacks", lacks) if lacks is not None else ("no plan", "no plan for this metric")
    if resolution is None:
        return "lacks", lacks or f"no {units.unit} {'to compare them with' if units.members else 'of members'}"
    small = _too_small(limit.max, resolution) if resolution.pass_power < WANTED_POWER else None
    told_apart = blind is not None and blind.told_apart
    confounded = None if blind is None else blind.confounded
    # What nobody can mend comes first, what takes a reference only last.
    hindrances: tuple[tuple[Outcome, str | None], ...] = (
        ("confounded", copied),
        ("confounded", confounded if told_apart else None),
        ("too small", small),
        ("blind check too weak", None if told_apart else confounded),
        ("lacks", lacks),
        ("cannot pass", cost.weakened),
    )
    there = [(outcome, reason) for outcome, reason in hindrances if reason is not None]
    return (there[0][0], "; ".join(reason for _, reason in there)) if there else ("decides", "")


def _too_small(limit: float, found: Resolution) -> str:
    if found.certified > limit:
        chance = f"without any leak the interval reaches {found.certified:.3f}"
    else:
        chance = f"a model that leaks nothing passes in {100 * found.pass_power:.0f} % of audits"
    if found.needed is None:
        return f"{chance}; no number of {found.unit} leaves room for chance under this limit"
    side = " a side" if found.others else ""
    return f"{chance}; about {found.needed} {found.unit}{side} are needed"
