"""Canaries as an attack: what is tried, what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, ClassVar

from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks.canaries.inversion import Inversion
from audit.attacks.canaries.measures import UNIT, histograms, measure_table, paired_by_canary
from audit.attacks.canaries.outcomes import read_outcome, table_of
from audit.attacks.canaries.pages import Approach, ByLoss, ByMasks, ask_page
from audit.attacks.canaries.search import Effort, ask_question, query_style
from audit.attacks.canaries.summary import checks_of, counts_of, measure_privacy, missed_of, weaknesses_of
from audit.attacks.interface import Attack, Evidence, Units
from audit.attacks.measuring import Streams
from audit.attacks.usable import POINTS, points
from audit.case import Case
from audit.corpus.canaries.schema import LABEL, PATTERNS, TAGS, Canary, CanarySet, load_canaries
from audit.corpus.documents import Corpus
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result
from audit.targets.interface import BestLinks, Target, TrainingLoss

STRATUM = "canary"
LINKS_ONLY = "the loss of a model that links tokens says little of what a word is"
WRITES_PAGES = "no canaries can be put into the text that a model writes of a whole page"
NO_CANARIES = "the data set holds no canaries"
PROVIDE = (
    "put some in before the model is trained: docaudit canary insert DATA_DIR OUT; train on OUT, and scan with OUT as "
    "the data set"
)
TAKEN_OUT = f"{NO_CANARIES}, though labels of it or of the model are made for them"
PUT_BACK = "scan with the data set as docaudit canary insert wrote it, which the model was trained on"


@dataclass(frozen=True)
class Canaries(Attack):
    """Extraction, exposure and epsilon of planted secrets (Parikh et al. 2022; methods.md#canaries).

    Where there are few completions, every one is tried. Beyond that token models are attacked white-box, by the relaxed
    attack with restarts; masked language models and models that write answers decode over the candidates alone; and
    descent goes on from the best found.

    Attributes:
        n_epochs: of the relaxed attack, see `Inversion`.
        n_restarts: likewise; guided decoding keeps as many beams, and masks are filled in as many orders.
        exhaustive_limit: completions up to which a token model is asked for every one.
        answers_limit: the same for models that write answers.
        n_references: fresh draws that a true completion is ranked among where there are more.
        n_answers: the same for models that write answers.
        delta: at which the bound on epsilon holds; the policy limits none.
    """

    n_epochs: Annotated[int, Field(ge=0)] = 250
    n_restarts: Annotated[int, Field(ge=1)] = 4
    exhaustive_limit: Annotated[int, Field(ge=1)] = 10_000
    answers_limit: Annotated[int, Field(ge=1)] = 1_000
    n_references: Annotated[int, Field(ge=1)] = 1_000
    n_answers: Annotated[int, Field(ge=1)] = 200
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-5

    name: ClassVar[str] = "canaries"

    def applies(self, case: Case) -> list[Reason]:
        """See `Attack.applies`: labels that are made for canaries tell that there were some."""
        answers, kind = case.target.answers, case.corpus.manifest.task.kind
        if points(case.target):
            return [Reason("model", POINTS)]
        if BestLinks in answers or kind in ("spade-extraction", "spade-linking"):
            return [Reason("model", LINKS_ONLY)]
        if kind == "parsing":
            return [Reason("model", WRITES_PAGES)]
        if case.target.card.is_model and query_style(case.target) is None:
            losses = "of several unknown tokens at once, or of mixtures of candidates"
            neither = "the model gives neither a training loss of a page nor the probability of an answer"
            return [
                Reason("model", f"the model gives no training loss {losses}" if TrainingLoss in answers else neither)
            ]
        if _canaries(case.corpus):
            return []
        if _made_for({*case.corpus.manifest.task.labels, *case.labels}):
            return [Reason("missing", TAKEN_OUT, PUT_BACK)]
        return [Reason("data", NO_CANARIES, PROVIDE)]

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`: canaries put in, and those that their coins left out."""
        canaries = _canaries(corpus)
        included = sum(canary.included for canary in canaries)
        sides = included, len(canaries) - included
        return tuple(Units(metric, "difference", UNIT, *sides) for metric in ("excess", "excess_top3"))

    def trials(self, case: Case) -> list[Trial]:
        """One for each canary, put in or not, in one stratum: which are taken has nothing to do with the coins."""
        return [Trial(canary.id, canary.id, STRATUM) for canary in _canaries(case.corpus)]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """One canary; what is done has nothing to do with its coin, or with that of any other."""
        canaries = _canaries(case.corpus)
        canary = next(one for one in canaries if one.id == trial.unit)
        others = [one for one in canaries if one.id != canary.id]
        approach = self._approach(case.target)
        if approach is not None:
            effort = Effort(self.exhaustive_limit, self.n_references)
            found = yield from ask_page(case.token_target, case.corpus, canary, others, approach, effort, rng)
        else:
            effort = Effort(self.answers_limit, self.n_answers)
            found = yield from ask_question(case.target, case.corpus, canary, others, self.n_restarts, effort, rng)
        return found.as_json()

    def _approach(self, target: Target) -> Approach | None:
        """How a model that reads tokens is asked; None for one that writes answers."""
        match query_style(target):
            case "pages":
                return ByLoss(Inversion(n_epochs=self.n_epochs, n_restarts=self.n_restarts))
            case "masks":
                return ByMasks(self.n_restarts)
        return None

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Result:
        """See `Attack.measure`; the metrics are described in `measures`; epsilon in `summary`."""
        progress.stage("canaries: intervals", 2)
        drawn = load_canaries(case.corpus)
        assert drawn is not None
        tried, found = _tried(drawn, trials), [read_outcome(outcome) for outcome in outcomes]
        trained = [case.canary_loss is None or case.canary_loss.covers(canary) for canary in tried]
        table = table_of([*compress(tried, trained)], [*compress(found, trained)])
        streams = Streams(rng)
        measured = measure_table(table, streams["extraction"])
        progress.advance()
        privacy = measure_privacy(drawn, tried, found, streams["epsilon"], self.delta)
        progress.advance()
        everything = (*measured, privacy.epsilon)
        return Result(
            self.name,
            measurements=everything,
            counts=(*counts_of(drawn, tried, found, trained), *privacy.counts),
            diagnostics=(*missed_of(found), *privacy.diagnostics),
            histograms=histograms(table),
            checks=checks_of(everything, privacy.p_value, drawn.repeat, self.delta),
            ablations=tuple(weaknesses_of(case, tried, found, table)),
        )

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[Evidence]:
        """Each canary with its completion and what came out, in words, and where it ranks; one object each."""
        drawn = load_canaries(case.corpus)
        assert drawn is not None
        for canary, content in zip(_tried(drawn, trials), outcomes, strict=True):
            outcome = read_outcome(content)
            yield {
                "attack": self.name,
                "canary": canary.id,
                "pattern": canary.pattern,
                "included": canary.included,
                "copies": canary.copies,
                "prefix": " ".join(canary.prefix),
                "completion": " ".join(canary.completion),
                "left_out": outcome.left_out,
                "recovered": _completion_text(canary, outcome.strongest),
                "losses": {"true": outcome.true_loss, "recovered": outcome.strongest_loss},
                "rank": None if outcome.ranked is None else content["ranked"],
            }
        yield from paired_by_canary(_tried(drawn, trials), [read_outcome(outcome) for outcome in outcomes]).items()


def _made_for(labels: Collection[str]) -> bool:
    return not {*TAGS, LABEL}.isdisjoint(labels)


def _canaries(corpus: Corpus) -> tuple[Canary, ...]:
    drawn = load_canaries(corpus)
    return () if drawn is None else drawn.canaries


def _tried(drawn: CanarySet, trials: Sequence[Trial]) -> list[Canary]:
    by_id = {canary.id: canary for canary in drawn.canaries}
    return [by_id[trial.unit] for trial in trials]


def _completion_text(canary: Canary, numbers: Sequence[int]) -> str:
    candidates = PATTERNS[canary.pattern].candidates
    return " ".join(candidates[number] for number in numbers)
