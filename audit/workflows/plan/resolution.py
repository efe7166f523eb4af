"""Resolution of a number of units: what they decide about a limit (methods.md#statistics).

A limit is held against every method of its attack. Of several, and of a balanced accuracy, which is a mean over many
forests and known better than one call a unit, the chances given here are least ones: audits pass at least so often.
"""

from __future__ import annotations

from dataclasses import dataclass

from audit.attacks.interface import Units
from audit.measurements import ALPHAS
from audit.policy import SIGNIFICANCE
from audit.stats.power import CHANCE, MetricKind, certified, needed, pass_power, power

WANTED_POWER = 0.8
"""A data set is too small for a limit that a model which leaks nothing passes less often (methods.md#statistics)."""
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


def confirming_level(n_tests: int) -> float:
    """The recorded level at which Holm confirms a leak in one of so many tests, when it is the only one."""
    return max((alpha for alpha in ALPHAS if alpha * n_tests <= SIGNIFICANCE), default=min(ALPHAS))


def is_comparable(units: Units) -> bool:
    """Check that there are units on all sides that the metric compares."""
    return units.members > 0 and (units.others > 0 or units.kind == "paired difference")


def resolve(limit: float, units: Units, alpha: float) -> Resolution:
    """Compute what the units decide about a limit; `alpha` is the level at which a leak is confirmed."""
    kind, members, others = units.kind, units.members, units.others
    most = min(MAX_EFFECT, 1 if units.most is None else units.most)
    effect = max(CHANCE[kind], min(max(limit, CHANCE[kind]) + EXCESS, most))
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
