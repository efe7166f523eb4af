"""Limits of a policy that an audit can decide, and the units that a data set has for each.

Method: methods/index.md#power-and-coverage.

A limit is held against every method of its attack. Of several, and of a balanced accuracy, which is
a mean over many forests and known better than one call a unit, the chances given here are least
ones: audits pass at least so often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

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
from audit.policy.demands import unanswered
from audit.stats.detection import confirmed_from
from audit.stats.power import certified, needed, pass_power
from audit.targets.interface import NoModel
from audit.workflows.outlook import (
    WANTED_POWER,
    WITHOUT,
    Blocker,
    Cost,
    LimitPlan,
    Outlook,
    Plan,
    Resolution,
)

UNTIMED = "give --model to time it"
UNTIMED_SHARE = f"{UNTIMED}: a scan takes more of it than this share where time allows"


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
        policy: policy whose names were checked.
        budget: budget of the scan.
        costs: cost of every attack under this budget.
        blind: the results of the blind checks, by attack; see `planning.blind_checks`.
        copies: the copies between splits.
    """
    copied = {
        kind.name: confounded_by_copies(copies, kind.preset(budget), corpus) for kind in BATTERY
    }
    cost_of = {cost.attack: cost for cost in costs}
    limited = {limit.attack for limit in policy.limits}
    units = _units_by_limit(corpus, budget, limited)
    task = corpus.manifest.task.kind
    gaps = {gap.attack for gap in policy.gaps if task in gap.tasks}
    limits = tuple(
        _plan_limit(
            _Prospect(
                limit,
                cost_of[limit.attack],
                units.get((limit.attack, limit.metric)),
                blind.get(limit.attack),
                copied[limit.attack],
                limit.attack in gaps,
            )
        )
        for limit in policy.limits
    )
    limits = _hold_demands(policy, task, limits)
    limits = _with_smallest_leaks(limits, units)
    # `docaudit forget-check` runs no attack that its policy leaves without a limit; a scan runs
    # them all.
    costs = [cost for cost in costs if not policy.forgets or cost.attack in limited]
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
    limited = {limit.attack for limit in limits if _asks_the_model(limit)}
    demands: dict[str, str] = {}
    for demand, attack in unanswered(policy, task, limited - excused, excused):
        if attack is not None:
            demands[attack] = demand.sentence
    planned: list[LimitPlan] = []
    for limit in limits:
        if limit.excused and limit.attack in demands:
            reason = f"{_reason_of(limit.blockers)}; {demands[limit.attack]}"
            limit = replace(limit, required=True, excused=False, reason=reason)
        planned.append(limit)
    return tuple(planned)


def _asks_the_model(limit: LimitPlan) -> bool:
    """Test whether a limit is on what the model gives away, and can be measured of it."""
    return not limit.about_text and limit.outcome != "not applicable"


def _reason_of(blockers: Sequence[Blocker]) -> str:
    """Join why a limit is not decided."""
    return "; ".join(why for _, why in blockers)


@dataclass(frozen=True)
class _Prospect:
    """What a data set has against one limit.

    Attributes:
        limit: the limit.
        cost: cost of its attack.
        units: units that its metric is measured on; None: nothing is planned for the metric.
        blind: the blind check of the attack; None: there is none.
        copied: why copies between splits confound the attack; None: they do not.
        permitted: whether the policy does without the attack where a model of this task cannot be
            put to it.
    """

    limit: Limit
    cost: Cost
    units: Units | None
    blind: Blind | None
    copied: str | None
    permitted: bool

    @property
    def is_comparable(self) -> bool:
        """Test whether there are members, and others to compare them with."""
        if self.units is None or self.units.members == 0:
            return False
        return self.units.others > 0 or self.units.kind == "paired difference"

    @property
    def resolution(self) -> Resolution | None:
        """Compute what the units decide; None where there is nothing to decide."""
        if self.cost.without_limits is not None or self.limit.max is None or self.units is None:
            return None
        if not self.is_comparable:
            return None
        return resolve(self.limit.max, self.units)


def _plan_limit(prospect: _Prospect) -> LimitPlan:
    """Plan a limit."""
    prospect = _as_scanned(prospect)
    limit = prospect.limit
    cost = prospect.cost
    resolution = prospect.resolution
    blockers = _blockers(prospect, resolution)
    if cost.without_limits is not None and not prospect.permitted:
        blockers = (*blockers, ("cannot pass", "the policy permits no such gap"))
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
        about_text=prospect.units is not None and prospect.units.about_text,
        excused=excused,
    )


def _as_scanned(prospect: _Prospect) -> _Prospect:
    """Cut the units to those that the budget reaches, and excuse what the policy does without."""
    units = prospect.units
    if units is not None and not units.about_text:
        members, others = prospect.cost.reached
        units = replace(
            units, members=min(units.members, members), others=min(units.others, others)
        )
    cost = prospect.cost
    is_guess = cost.inapplicable is None and not cost.exact
    if prospect.permitted and cost.lacks is not None and is_guess:
        cost = replace(cost, inapplicable="the policy does without it for models of this task")
    return replace(prospect, units=units, cost=cost)


def _blockers(prospect: _Prospect, resolution: Resolution | None) -> tuple[Blocker, ...]:
    """List all that keeps a limit from being decided.

    What nobody can mend comes first, and what takes a reference last.
    """
    cost = prospect.cost
    limit = prospect.limit.max
    if cost.without_limits is not None:
        return (("not applicable", cost.without_limits),)
    if limit is None:
        return (("no plan", "a least value limits no leak"),)
    if resolution is None:
        return (_nothing_compared(prospect),)
    blockers = list(_confounders(prospect))
    if resolution.pass_power < WANTED_POWER:
        blockers.append(("too small", _too_few_units(limit, resolution)))
    blind = prospect.blind
    if blind is not None and not blind.told_apart and blind.confounded is not None:
        blockers.append(("blind check too weak", blind.confounded))
    if cost.lacks is not None:
        blockers.append(("lacks", cost.lacks))
    if cost.weakened is not None:
        blockers.append(("cannot pass", cost.weakened))
    return tuple(blockers)


def _nothing_compared(prospect: _Prospect) -> Blocker:
    """Say what is missing where nothing can be compared."""
    if prospect.cost.lacks is not None:
        return "lacks", prospect.cost.lacks
    units = prospect.units
    if units is None:
        return "no plan", "no plan for this metric"
    compared = "to compare them with" if units.members else "of members"
    return "lacks", f"no {units.unit} {compared}"


def _confounders(prospect: _Prospect) -> Iterator[Blocker]:
    """Yield what explains a difference between training and unseen documents without the model."""
    if prospect.copied is not None:
        yield "confounded", prospect.copied
    blind = prospect.blind
    if blind is not None and blind.told_apart:
        yield "confounded", blind.checks[0].reason


def _too_few_units(limit: float, resolution: Resolution) -> str:
    """Say how far from enough the units are for a limit."""
    if resolution.certified > limit:
        chance = f"without any leak the interval reaches {resolution.certified:.3f}"
    else:
        least = "at least " if resolution.at_least else ""
        percent = 100 * resolution.pass_power
        chance = f"a model that leaks nothing passes in {least}{percent:.0f} % of audits"
    if resolution.needed is None:
        return f"{chance}; no number of {resolution.unit} leaves room for chance under this limit"
    side = " a side" if resolution.others else ""
    return f"{chance}; about {resolution.needed} {resolution.unit}{side} are needed"


def resolve(limit: float, units: Units) -> Resolution:
    """Compute what the units decide about a limit."""
    kind = units.kind
    members = units.members
    others = units.others
    # Of several methods all must pass. Methods that go together pass more often than independent
    # ones.
    passes = pass_power(kind, members, others, limit) ** units.methods
    least = certified(kind, members, others)
    enough = needed(kind, limit, WANTED_POWER ** (1 / units.methods))
    at_least = units.methods > 1 or kind == "balanced accuracy"
    return Resolution(
        units.unit, members, others, least, passes, enough, at_least, kind, units.methods
    )


def at_most(corpus: Corpus, budget: str, documents: int | None = None) -> tuple[Cost, ...]:
    """List the cost of every attack without a model, whose tokenizer may leave some out.

    See `ScanOptions`.
    """
    return tuple(
        _at_most(kind.preset(budget), corpus, SHARES[budget], documents) for kind in BATTERY
    )


def _at_most(attack: Attack, corpus: Corpus, share: float, documents: int | None) -> Cost:
    """Return the cost of an attack without a model."""
    case = Case(NoModel(corpus), corpus)
    reasons = attack.applies(case)
    inapplicable = first_of(reasons, case, "model")
    if inapplicable is not None:
        return Cost(attack.name, 0, False, (0, 0), inapplicable=inapplicable)
    sides = _most_trials(attack, corpus)
    if documents is None:
        sampled = reached = (math.ceil(share * sides[0]), math.ceil(share * sides[1]))
    else:
        sampled, reached = _bounded(attack, corpus, sides, share, documents)
    return Cost(
        attack.name,
        sum(sampled),
        False,
        reached,
        lacks=first_of(reasons, case, "data", "missing"),
        weakened=first_of(reasons, case, "weak"),
        by_data=first_of(reasons, case, "data") is not None,
        untimed=UNTIMED if share == 1 or documents is not None else UNTIMED_SHARE,
        share=share,
    )


def _most_trials(attack: Attack, corpus: Corpus) -> Sides:
    """Count the trials of either side that a data set gives at most.

    Its units where trials do not tell their side.
    """
    sides = [side_of(trial.stratum) for trial in may_try(attack, corpus)]
    members = sum(side in MEMBERS for side in sides)
    others = sum(side in OTHERS for side in sides)
    if members or others:
        return members, others
    return most_units(attack, corpus)


def _bounded(
    attack: Attack, corpus: Corpus, sides: Sides, share: float, documents: int
) -> tuple[Sides, Sides]:
    """Count trials and units of a bounded scan: at least one trial of each drawn unit.

    Args:
        attack: the attack.
        corpus: the data set.
        sides: trials that either side gives at most.
        share: share of the trials that the budget takes.
        documents: units of both sides together, at most.

    Returns:
        Trials and units of either side.
    """
    units = []
    for n_units, n_trials in zip(most_units(attack, corpus), sides, strict=True):
        # Trials that tell no unit are of one at least.
        units.append(max(n_units, min(1, n_trials)))
    drawn = [min(pair) for pair in zip(units, halves(documents, units), strict=True)]
    trials = []
    for n_drawn, n_trials, n_units in zip(drawn, sides, units, strict=True):
        if n_units:
            trials.append(max(n_drawn, math.ceil(share * n_trials * n_drawn / n_units)))
        else:
            trials.append(0)
    return (trials[0], trials[1]), (drawn[0], drawn[1])
