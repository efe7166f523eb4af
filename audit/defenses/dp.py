"""Training with differential privacy as a countermeasure (methods.md#dp-training)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from audit.defenses.interface import RetrainedModel, TrainingDefense
from audit.extensions.private.options import DpOptions, Proves

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.engine.interface import Progress


@dataclass(frozen=True)
class DpTraining(TrainingDefense):
    """A model that is trained again with a guarantee for every document, or every provider.

    Attributes:
        options: what the owner chose; without a guarantee in it nothing is trained.
        audited: the model as it is, which training must not start from; None: whoever calls has seen to it.
        proves: whether a guarantee to a unit proves what `options.to_policy` asks.
    """

    name: ClassVar[str] = "dp"
    title: ClassVar[str] = "Training with differential privacy"
    description: ClassVar[str] = "trained with differential privacy"
    baselines_like: ClassVar[bool] = False
    keeps_adapter: ClassVar[bool] = False

    options: DpOptions = field(default_factory=DpOptions)
    audited: Path | None = None
    proves: Proves | None = field(default=None, compare=False)

    def with_options(self, options: DpOptions, audited: Path | None = None, proves: Proves | None = None) -> DpTraining:
        """The same with what the owner chose, for this model."""
        return replace(self, options=options, audited=audited, proves=proves)

    def check(self, corpus: Corpus, start: Path) -> None:
        """See `TrainingDefense.check`."""
        from audit.extensions.private.train import prepare_training

        prepare_training(start, corpus, self.options, audited=self.audited, proves=self.proves)

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """See `TrainingDefense.train`; the members are those of `corpus`, and a kill keeps what was spent."""
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
