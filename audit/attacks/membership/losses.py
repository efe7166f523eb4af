"""Losses of documents by the target and its references, for the checks of a scan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from audit.attacks.membership.documents import query_document
from audit.attacks.membership.pictures import PictureChange, Repainted
from audit.case import Case
from audit.corpus.documents import Document
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Trial
from audit.targets.interface import Target

MASKS = 4
"""Masks of a page for masked language models: every second token is hidden, which takes seconds a
scan."""
Losses = Mapping[str, tuple[float, float]]
"""By the name of a document, the loss of the target and of its references, nats; NaN where there is
none."""


@dataclass(frozen=True)
class Version:
    """A document as models are shown it, and the change of its picture where it is not shown as it is."""

    document: Document
    change_picture: PictureChange | None = None


@dataclass(frozen=True)
class LossWork:
    """Ask the target and its references for their losses of documents.

    Implements `Work`, a trial for each version.

    Attributes:
        references: may be none.
        versions: what is asked about, by the ids of trials.
        masks: number of masks of a page, for masked language models.
        repainted: models that are shown changed pictures, by model and change: one each, so that
            batches are large.
    """

    case: Case
    references: Sequence[Target]
    versions: Mapping[str, Version]
    masks: int = MASKS
    repainted: dict[tuple[int, PictureChange], Repainted] = field(
        init=False, repr=False, default_factory=dict
    )

    def attempt(self, trial: Trial) -> Attempt:
        """Return the target's loss of a version and the references' mean loss, nats.

        NaN for one that cannot be had.
        """
        version = self.versions[trial.id]
        losses: list[float] = []
        for model in (self.case.target, *self.references):
            shown_model = self._show(model, version.change_picture)
            answer = yield from query_document(self.case, shown_model, version.document, self.masks)
            losses.append(np.nan if answer is None else answer["loss"])
        return losses[0], float(np.mean(losses[1:])) if self.references else np.nan

    def _show(self, model: Target, change: PictureChange | None) -> Target:
        """Return the model, wrapped so that it sees changed pictures where there is a change."""
        if change is None:
            return model
        key = (id(model), change)
        if key not in self.repainted:
            self.repainted[key] = Repainted(model, change)
        return self.repainted[key]


def ask_losses(work: LossWork, width: int, progress: Progress) -> dict[str, tuple[float, float]]:
    """Ask for the losses of all versions, `width` at a time; progress is advanced by each."""
    losses: dict[str, tuple[float, float]] = {}
    for name, pair in drive(work, [Trial(name, name) for name in work.versions], width):
        losses[name] = pair
        progress.advance()
    return losses
