"""A case: one target, a corpus, and models that never saw the audited documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from audit.corpus.canaries.schema import LossProof
from audit.corpus.documents import Corpus
from audit.targets.interface import Target, TokenTarget


@dataclass(frozen=True)
class SplitModel:
    """One of K models that each saw half of the audited documents.

    Attributes:
        target: the model.
        members: ids of the documents it was trained on.
    """

    target: Target
    members: frozenset[str]


@dataclass(frozen=True)
class References:
    """Models that never saw the audited documents.

    Attributes:
        auxiliary: the adversary's masked language model, trained on public documents (PUB-MLM), or
            a public model that proposes tokens as one does; answers `FillMask`.
        baselines: f_G: models of the target's recipe, trained without the audited documents.
        pretrained: what the target was fine-tuned from.
        splits: K models of the target's recipe, each trained with half of the audited documents.
        uncounted: why references that were given and cannot be asked what the target is asked do
            not count.
    """

    auxiliary: TokenTarget | None = None
    baselines: tuple[Target, ...] = ()
    pretrained: Target | None = None
    splits: tuple[SplitModel, ...] = ()
    uncounted: tuple[str, ...] = ()

    @classmethod
    def of(cls, models: Mapping[str, Target], members: Mapping[str, frozenset[str]]) -> References:
        """Sort models by their role: "auxiliary", "pretrained", "baseline-0" ..., "split-0" ...

        Args:
            models: models by role, in the order in which those of one kind are numbered.
            members: ids of the documents that each split model was trained on.
        """
        return cls(
            auxiliary=cast("TokenTarget | None", models.get("auxiliary")),
            baselines=tuple(
                model for role, model in models.items() if role.startswith("baseline-")
            ),
            pretrained=models.get("pretrained"),
            splits=tuple(
                SplitModel(models[role], documents) for role, documents in members.items()
            ),
        )


@dataclass(frozen=True)
class Case:
    """One audit's subject. Attacks read it; they never train or change anything in it.

    `canary_loss` is what the target's training says about planted secrets, where it says so.
    """

    target: Target
    corpus: Corpus
    references: References = References()
    canary_loss: LossProof | None = None

    @property
    def token_target(self) -> TokenTarget:
        """Return the target, typed as one that reads pages as tokens; nothing is checked.

        Attacks take it that are inapplicable to others.
        """
        return cast("TokenTarget", self.target)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the target's tags or classes; empty where it has none."""
        return tuple(getattr(self.target, "labels", ()))
