"""Loss gap: a tagger knows the labels of training pages better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from pydantic import Field

from audit.attacks import blind_baseline
from audit.attacks.interface import Attack, ask
from audit.case import Case
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.roc import auc_interval
from audit.targets.interface import TrainingLoss


@dataclass(frozen=True)
class LossGap(Attack):
    """Distinguishes training from unseen pages by the loss of their first label.

    Attributes:
        least_words: the words that a page must have to be tried.
    """

    least_words: Annotated[int, Field(ge=1)] = 1

    name: ClassVar[str] = "loss_gap"

    def trials(self, case: Case) -> list[Trial]:
        """List member and held-out pages that are long enough."""
        documents = case.corpus.of("member", "heldout")
        return [
            Trial(one.id, one.id, one.split)
            for one in documents
            if len(one.words) >= self.least_words
        ]

    def attempt(self, case: Case, trial: Trial, rng: Generator) -> Attempt:
        """Ask for the loss of one page."""
        page = case.token_target.encode(case.corpus.document(trial.cluster))
        assert page is not None
        position, *_ = page.positions_of((0,))
        (loss,) = yield from ask(
            case.target, TrainingLoss(page, position, np.array([page.ids[position]]))
        )
        return float(loss)

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Generator,
        progress: Progress,
    ) -> Result:
        """Estimate the area under the ROC curve, with and without the model."""
        member = np.array([trial.stratum == "member" for trial in trials])
        score = -np.array(outcomes, np.float64)
        area = auc_interval(score[member], score[~member])
        documents = [case.corpus.document(trial.cluster) for trial in trials]
        blind = blind_baseline.by_document(case.corpus, documents, member, progress)
        return blind.beside(
            Result(self.name, measurements=(estimate("auc", area, "documents", 0.5, "chance"),)),
            ["auc"],
        )
