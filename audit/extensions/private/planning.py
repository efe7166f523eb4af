"""`docaudit plan-dp`: what a private training would take and prove, before it is trained (methods.md#dp-training)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from audit.attacks import text_of
from audit.attacks.text import Protected, Provable
from audit.cards import PrivacyCard
from audit.cli import console
from audit.cli.options import DataDir, PolicyName, show_errors
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.errors import UsageError
from audit.extensions.private.options import DpOptions, UnitKind, settle
from audit.policy import Limit, Policy
from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, tpr


def provable(attack: str, metric: str) -> Provable | None:
    """The bound that an attack declares for a metric; None where no guarantee bounds it."""
    declared = text_of(attack).provable
    return declared.get(metric, declared.get(metric.partition(".")[0]))


def bound(declared: Provable, promised: Guarantee) -> float:
    """Return the largest value of a metric under a guarantee to the document or provider that it is about."""
    match declared.kind:
        case "auc":
            return auc(promised)
        case "balanced accuracy":
            return balanced_accuracy(promised)
        case "tpr":
            return tpr(promised, declared.fpr)
        case "advantage":
            return advantage(promised, declared.fpr)


def group_of(protected: Protected, unit: str) -> int | None:
    """Units that change with one document or provider; None where there are as many as it has documents.

    Taking a document of several from a provider is to replace that provider: one unit less and one more.
    """
    match protected, unit:
        case ("document", "document") | ("provider", "provider"):
            return 1
        case ("document", "provider"):
            return 2
    return None


def asked_of_training(limits: Iterable[Limit]) -> list[tuple[Provable, float]]:
    """The bounds of limits on the membership of documents and of providers, each with its largest value."""
    declared = [(provable(limit.attack, limit.metric), limit.max) for limit in limits]
    return [(found, most) for found, most in declared if found is not None and most is not None]


def proves(asked: Iterable[tuple[Provable, float]], unit: str, promised: Guarantee) -> bool:
    """Return whether a guarantee alone meets all that is asked.

    Args:
        asked: see `asked_of_training`.
        unit: of the guarantee; single documents prove nothing about providers.
        promised: to one unit.
    """
    groups = [(group_of(found.of, unit), found, most) for found, most in asked]
    return all(group is not None and bound(found, promised.of_group(group)) <= most for group, found, most in groups)


@dataclass(frozen=True)
class PrivateTraining:
    """A training with one epsilon.

    Attributes:
        epsilon: of the guarantee to one unit, as it was asked for.
        card: the numbers of the training.
        promised: the guarantee to one unit.
        proved: limits on the membership of documents and providers that the guarantee alone meets, as attack and
            metric.
        unproved: the other ones.
    """

    epsilon: float
    card: PrivacyCard
    promised: Guarantee
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


def add_to(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("plan-dp", rich_help_panel="Countermeasures and canaries")(show_errors()(plan_dp))


def plan_dp(
    data_dir: DataDir,
    epsilon: Annotated[
        list[str], typer.Option(metavar="NUMBERS", help="Epsilons of the guarantee, as 1,2,8.", show_default=False)
    ],
    unit: Annotated[
        UnitKind | None,
        typer.Option(help="Whoever is protected; by default the provider where every member names one."),
    ] = None,
    policy: PolicyName = "default",
) -> None:
    """Compute the noise that training with differential privacy takes on a data set, and what its guarantee proves.

    The numbers are those of docaudit defend dp. No model runs.
    """
    from audit.corpus import manifest
    from audit.workflows.gate import load_policy

    plan = plan_private(manifest.load(data_dir), load_policy(policy), _numbers(epsilon), unit)
    columns = ("epsilon", "delta", "steps", "a step", "sigma", "noise", "AUC", "balanced", "proves limits")
    title = f"What private training would take and prove: {plan.n_units:,} {plan.unit}s, each protected as a whole"
    console.show_table(title, columns, [_row(training) for training in plan.trainings])
    console.say(*_legend(plan))


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
    # Loads torch, which the help does without.
    from audit.extensions.private.units import kind_of, units_of

    members = corpus.of("member")
    kind = kind_of(members, unit)
    n_units = len(units_of(corpus, members, kind))
    named = Counter(fold(document.provider or "") for document in members)
    largest = max((count for name, count in named.items() if name), default=0)
    trainings = tuple(_train(policy, epsilon, kind, n_units, largest) for epsilon in epsilons)
    return PrivatePlan(kind, n_units, largest, trainings)


def _train(policy: Policy, epsilon: float, kind: UnitKind, n_units: int, largest: int) -> PrivateTraining:
    from audit.stats.dp_accounting import privacy_curve

    card = settle(DpOptions(unit=kind, epsilon=epsilon), kind, n_units)
    curve = privacy_curve(card.noise_multiplier, card.delta, card.unit_rate, card.steps, card.client_rate)
    promised = Guarantee(epsilon, card.delta, curve[1:])
    met: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for limit in policy.limits:
        declared = provable(limit.attack, limit.metric)
        if limit.max is not None and declared is not None:
            # A guarantee of single documents is stretched over the largest provider.
            group = group_of(declared.of, kind) or largest
            proved = group > 0 and bound(declared, promised.of_group(group)) <= limit.max
            met[proved].append((limit.attack, limit.metric))
    return PrivateTraining(epsilon, card, promised, tuple(met[True]), tuple(met[False]))


def _row(training: PrivateTraining) -> tuple[str, ...]:
    card, asked = training.card, len(training.proved) + len(training.unproved)
    return (
        f"{training.epsilon:g}",
        f"{card.delta:.2g}",
        f"{card.steps}",
        f"{card.expected_units:.0f}",
        f"{card.noise_multiplier:.3g}",
        f"{card.noise_multiplier / card.expected_units:.2g} C",
        _at_most(auc(training.promised)),
        _at_most(balanced_accuracy(training.promised)),
        f"{len(training.proved)} of {asked}",
    )


def _at_most(bound: float) -> str:
    """Format a bound, never rounded down."""
    return f"<= {math.ceil(1_000 * bound - 1e-6) / 1_000:.3f}" if bound < 0.999 else f"<= {bound:.5f}"


def _legend(plan: PrivatePlan) -> Iterator[str]:
    """Explain the columns, a line each."""
    unit = plan.unit
    yield f"a step: {unit}s of a step on average, q N; sigma: noise of their sum, in lengths C that each is cut to"
    yield (
        "noise: of a coordinate of their mean, sigma / (q N); over all, that times the root of the number of trained "
        "parameters, against a mean of length C at most: train few parameters, on many units a step"
    )
    yield f"AUC, balanced accuracy: the most that any attack on one {unit} reaches, whatever it tries; 0.5 is guessing"
    yield "proves limits: of the policy's on the membership of documents and providers, those that need no measurement"
    if unit == "document" and plan.largest_provider:
        yield (
            f"a provider has up to {plan.largest_provider} documents here: together they have so many times the "
            "epsilon (--unit provider protects them as one)"
        )


def _numbers(given: Sequence[str]) -> tuple[float, ...]:
    """Read numbers separated by commas, each once, in order."""
    words = [word.strip() for text in given for word in text.split(",")]
    try:
        return tuple(dict.fromkeys(float(word) for word in words))
    except ValueError:
        raise UsageError(f"--epsilon {','.join(words)}: not a list of numbers", "give numbers, as 1,2,8") from None
