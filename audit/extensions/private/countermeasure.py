"""Train with differential privacy as a countermeasure (methods/dp-training.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError

from audit.attacks import text_of
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.text import Provable
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.engine.interface import Progress
from audit.errors import UsageError
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.extensions.private.options import DpOptions, Proves
from audit.policy import Limit, Policy
from audit.stats.dp_bounds import Guarantee, advantage, auc, balanced_accuracy, tpr
from audit.workflows.gate import load_policy

if TYPE_CHECKING:
    from audit.workflows.options import ScanOptions


@dataclass(frozen=True)
class DpTraining(TrainingDefense):
    """Train the model again with a guarantee for every document, or every provider.

    Attributes:
        options: what the owner chose; without a guarantee in it nothing is trained.
        audited: the model as it is, which training must not start from; None: whoever calls has
            seen to it.
        proves: whether a guarantee to a unit proves what `options.to_policy` asks.
    """

    name: ClassVar[str] = "dp"
    description: ClassVar[str] = "trained with differential privacy"
    baselines_like: ClassVar[bool] = False
    keeps_adapter: ClassVar[bool] = False
    takes_settings: ClassVar[bool] = True

    options: DpOptions = field(default_factory=DpOptions)
    audited: Path | None = None
    proves: Proves | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """Return the title in a comparison, with the epsilon where one was chosen."""
        title = "Training with differential privacy"
        if self.options.epsilon is None:
            return title
        return f"{title} (epsilon {self.options.epsilon:g})"

    def with_settings(self, settings: dict[str, Any], options: ScanOptions) -> DpTraining:
        """Return the countermeasure with these settings, and the scan's seed.

        The settings are fields of `DpOptions`, as text or values.
        """
        known = DpOptions.__dataclass_fields__
        unknown = [
            f"no setting of {self.name} is called {name!r}"
            for name in settings
            if name not in known
        ]
        if unknown:
            raise UsageError(
                unknown, f"one of {', '.join(name.replace('_', '-') for name in known)}"
            )
        try:
            chosen = DpOptions(**{"seed": options.seed, **settings})
        except ValidationError as error:
            problems = [
                f"{self.name}: {item['loc'][0]} {item['input']}: {item['msg']}"
                for item in error.errors()
            ]
            raise UsageError(problems, "docs/countermeasures.md lists the settings") from None
        proof = None
        if chosen.to_policy is not None:
            proof = proof_of(load_policy(chosen.to_policy), manifest.load(options.data_dir))
        return replace(self, options=chosen, audited=options.model_dir, proves=proof)

    def check(self, corpus: Corpus, start: Path) -> None:
        """Refuse a data set or start that private training cannot begin with."""
        from audit.extensions.private.train import prepare_training

        prepare_training(start, corpus, self.options, audited=self.audited, proves=self.proves)

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train a model with differential privacy.

        The members are those of `corpus`, and a kill keeps what was spent.
        """
        from audit.extensions.private.train import train_private

        model = train_private(
            start,
            corpus,
            out,
            self.options,
            device=device,
            progress=progress,
            audited=self.audited,
            proves=self.proves,
        )
        return RetrainedModel(model, corpus.root)


def proof_of(policy: Policy, corpus: Corpus) -> Proves:
    """Return a function that tests whether a guarantee proves every limit of a policy.

    The limits are those on membership of documents and providers.

    Args:
        policy: what the owner accepts.
        corpus: where no member names a provider, limits on providers ask nothing.

    Raises:
        UsageError: the policy has no such limit.
    """
    named = any(document.provider for document in corpus.of("member"))
    asked = asked_of_training(
        limit for limit in policy.limits if named or limit.attack != ProviderMembership.name
    )
    if not any(most < 1 for _, most in asked):
        raise UsageError(
            f"policy {policy.name} has no limit on membership that could be proved",
            "give --epsilon instead",
        )
    return lambda unit, promised: proves(asked, unit, promised)


def provable(attack: str, metric: str) -> Provable | None:
    """Look up the bound that an attack declares for a metric; None where no guarantee bounds it."""
    declared = text_of(attack).provable
    return declared.get(metric, declared.get(metric.partition(".")[0]))


def bound(declared: Provable, promised: Guarantee) -> float:
    """Return the largest value that a metric can have under a privacy guarantee.

    It is a guarantee to the document or provider that the metric is about.
    """
    match declared.kind:
        case "auc":
            return auc(promised)
        case "balanced accuracy":
            return balanced_accuracy(promised)
        case "tpr":
            return tpr(promised, declared.fpr)
        case "advantage":
            return advantage(promised, declared.fpr)


_GROUPS = {("document", "document"): 1, ("provider", "provider"): 1, ("document", "provider"): 2}
"""Units that change with one document or provider (taking a document of several replaces it), by that and the unit.
None: as many as it has documents."""


def asked_of_training(limits: Iterable[Limit]) -> list[tuple[Provable, float]]:
    """Return (bound, limit's value) of limits on membership of documents and providers.

    Each comes with its largest value.
    """
    declared = [(provable(limit.attack, limit.metric), limit.max) for limit in limits]
    return [(found, most) for found, most in declared if found is not None and most is not None]


def proves(asked: Iterable[tuple[Provable, float]], unit: str, promised: Guarantee) -> bool:
    """Test whether a privacy guarantee alone keeps every bound in `asked`, for this unit.

    Args:
        asked: what limits ask of a training, see `asked_of_training`.
        unit: unit of the guarantee; single documents prove nothing about providers.
        promised: to one unit.
    """
    groups = [(_GROUPS.get((found.of, unit)), found, most) for found, most in asked]
    return all(
        group is not None and bound(found, promised.of_group(group)) <= most
        for group, found, most in groups
    )
