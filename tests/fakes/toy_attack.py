"""An attack that docaudit does not ship, as somebody would add one: a class, and a text beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import blind_baseline
from audit.attacks.interface import Attack, Units, ask, given
from audit.attacks.text import load
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.measurements import Count, Estimate
from audit.record import Reason, Result
from audit.stats.estimates import estimate
from audit.stats.intervals import make_interval
from audit.stats.resampling import welch_reach
from audit.targets.interface import TrainingLoss

TEXT = load(Path(__file__).with_suffix(".toml"))


@dataclass(frozen=True)
class LossGap(Attack):
    """How much better a tagger finds the labels of pages of training than those of others.

    "gap" is the difference of the mean losses (nats), "low" of the shares of pages whose loss is
    under the median.

    Attributes:
        least_words: of a page that is tried.
    """

    least_words: Annotated[int, Field(ge=1)] = 1

    name: ClassVar[str] = "loss_gap"

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        sides = (
            len([one for one in self._pages(corpus) if one.stratum == split])
            for split in ("member", "heldout")
        )
        return (Units("low", "difference", "documents", *sides),)

    def applies(self, case: Case) -> list[Reason]:
        if case.corpus.manifest.task.asks:
            return [Reason("model", "a model that answers names no labels")]
        return (
            []
            if given(case)["baselines"]
            else [Reason("weak", "no baseline to tell hard pages by")]
        )

    def trials(self, case: Case) -> list[Trial]:
        return self._pages(case.corpus)

    def _pages(self, corpus: Corpus) -> list[Trial]:
        return [
            Trial(document.id, document.id, document.split)
            for document in corpus.of("member", "heldout")
            if len(document.words) >= self.least_words
        ]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        page = case.token_target.encode(case.corpus.document(trial.cluster))
        assert page is not None
        (place, *_) = page.positions_of((0,))
        (loss,) = yield from ask(
            case.target, TrainingLoss(page, place, np.array([page.ids[place]]))
        )
        return float(loss)

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Rng,
        progress: Progress,
    ) -> Result:
        losses = np.array(outcomes, np.float64)
        member = np.array([trial.stratum == "member" for trial in trials])
        low = (losses < np.median(losses)).astype(np.float64)
        documents = [case.corpus.document(trial.cluster) for trial in trials]
        blind = blind_baseline.by_document(case.corpus, documents, member, progress)
        differences = (
            _difference("low", low[member], low[~member]),
            _difference("gap", losses[~member], losses[member]),
        )
        return Result(
            self.name,
            measurements=(*differences, blind.estimate),
            counts=(
                Count("best loss, hundredths", round(100 * float(losses.min())), "of any page"),
            ),
            diagnostics=blind.diagnostics,
            confounded=blind.confounded,
            ablations=() if case.references.baselines else ("no baseline to tell hard pages by",),
        )

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
    ) -> Iterator[dict[str, Any]]:
        for trial, loss in zip(trials, outcomes, strict=True):
            yield {"attack": self.name, "document": trial.cluster, "loss": loss}


def _difference(
    name: str, first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> Estimate:
    value = float(first.mean() - second.mean())
    n = len(first) + len(second)
    reach = welch_reach(first, second)
    interval = make_interval(
        value, value - reach, value + reach, n=n, clusters=n, method="Welch's t"
    )
    return estimate(name, interval, "documents", 0.0, "held-out")
