"""What a private training would take and prove, before it is trained (methods.md#dp-training)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from audit.attacks.proven import bound, group_of, provable
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.policy import Limit, Policy
from audit.stats.dp_bounds import Guarantee, Point, auc, balanced_accuracy

UnitKind = Literal["document", "provider"]


@dataclass(frozen=True)
class Mechanism:
    """The numbers of a training that keeps an epsilon, by the rules of `docaudit defend dp`.

    Attributes:
        delta: of the guarantee.
        steps: of the server.
        expected_units: units of a step on average, q N.
        noise_multiplier: sigma: the noise of a step's sum, in multiples of the norm C to which contributions are cut.
        curve: epsilons and deltas of its privacy curve, beside what was asked for.
    """

    delta: float
    steps: int
    expected_units: float
    noise_multiplier: float
    curve: tuple[Point, ...] = ()


@dataclass(frozen=True)
class PrivateTraining:
    """A training with one epsilon.

    Attributes:
        epsilon: of the guarantee to one unit.
        mechanism: that keeps it.
        noise: of a coordinate of the mean gradient, sigma / (q N), in multiples of C.
        auc, balanced_accuracy: the most that any attack on one unit reaches.
        proved: limits on the membership of documents and providers that the guarantee alone meets, as attack and
            metric.
        unproved: the other ones.
    """

    epsilon: float
    mechanism: Mechanism
    noise: float
    auc: float
    balanced_accuracy: float
    proved: tuple[tuple[str, str], ...]
    unproved: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PrivatePlan:
    """What private training of a data set would take and prove.

    Attributes:
        unit: whoever is protected.
        n_units: N.
        largest_provider: documents of the provider that has most of them among the members; 0: none names one.
        trainings: one for each epsilon.
    """

    unit: UnitKind
    n_units: int
    largest_provider: int
    trainings: tuple[PrivateTraining, ...]


def plan_private(corpus: Corpus, policy: Policy, epsilons: Sequence[float], unit: UnitKind | None) -> PrivatePlan:
    """Compute what private training on the members would take and prove, for each epsilon.

    Args:
        corpus: the data set.
        policy: whose limits are to be proved.
        epsilons: each above 0.
        unit: whoever is protected; None: the provider where every member names one, else the document.

    Raises:
        UsageError: an epsilon that no noise can give.
        ManifestError: the members make no such units, or fewer than two.
    """
    kind, n_units = count_units(corpus, unit)
    named = Counter(fold(document.provider or "") for document in corpus.of("member"))
    largest = max((count for name, count in named.items() if name), default=0)
    trainings = tuple(_train(policy, epsilon, kind, n_units, largest) for epsilon in epsilons)
    return PrivatePlan(kind, n_units, largest, trainings)


def count_units(corpus: Corpus, asked: UnitKind | None) -> tuple[UnitKind, int]:
    """Whoever is protected, and how many there are among the members."""
    # Loads torch, which a plan without an epsilon does without.
    from audit.extensions.private.units import kind_of, units_of

    members = corpus.of("member")
    kind = kind_of(members, asked)
    return kind, len(units_of(corpus, members, kind))


def mechanism_of(epsilon: float, kind: UnitKind, n_units: int) -> Mechanism:
    """The numbers with which `docaudit defend dp` keeps this epsilon by its own rules."""
    from audit.extensions.private.accounting import privacy_curve
    from audit.extensions.private.options import DpOptions
    from audit.extensions.private.settings import budget_of, with_epsilon

    options = with_epsilon(DpOptions(unit=kind, epsilon=epsilon), kind, n_units)
    budget = budget_of(options, n_units, "lora")
    plan = budget.plan
    curve = privacy_curve(plan.noise_multiplier, budget.delta, plan.sample_rate, 1.0, plan.steps)
    return Mechanism(budget.delta, plan.steps, plan.expected_units, plan.noise_multiplier, curve[1:])


def _train(policy: Policy, epsilon: float, kind: UnitKind, n_units: int, largest: int) -> PrivateTraining:
    mechanism = mechanism_of(epsilon, kind, n_units)
    promised = Guarantee(epsilon, mechanism.delta, mechanism.curve)
    asked = [limit for limit in policy.limits if _is_on_membership(limit)]
    met = [_proves(promised, limit, kind, largest) for limit in asked]
    names = [(limit.attack, limit.metric) for limit in asked]
    return PrivateTraining(
        epsilon,
        mechanism,
        mechanism.noise_multiplier / mechanism.expected_units,
        auc(promised),
        balanced_accuracy(promised),
        tuple(name for name, proved in zip(names, met, strict=True) if proved),
        tuple(name for name, proved in zip(names, met, strict=True) if not proved),
    )


def _is_on_membership(limit: Limit) -> bool:
    declared = provable(limit.attack, limit.metric)
    return limit.max is not None and declared is not None and declared.of != "canary"


def _proves(promised: Guarantee, limit: Limit, kind: UnitKind, largest: int) -> bool:
    """Whether the guarantee alone meets a limit; of single documents, for the largest provider."""
    declared = provable(limit.attack, limit.metric)
    assert declared is not None
    assert limit.max is not None
    group = group_of(declared.of, kind) or largest
    return group > 0 and bound(declared, promised.of_group(group)) <= limit.max
