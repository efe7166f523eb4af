"""Canaries as an attack: what is tried and measured, its weaknesses, and the bound on epsilon from one run.

The score of a canary is its exposure: how early the model puts its true completion among all others
behind the same prefix. It is computed alike for canaries put in and left out, without their coins
and without those of the others. The bound is no metric that a policy may limit: a lower bound can
show a leak, and never that there is none (methods/canaries.md#epsilon-from-one-run).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.arrays import Floats
from audit.attacks import text_of
from audit.attacks.canaries import measures
from audit.attacks.canaries.pages import Approach, ByMasks, Inversion, ask_page
from audit.attacks.canaries.search import UNKNOWN, Effort, ask_question, ask_reply, query_style
from audit.attacks.interface import POINTS, Attack, Evidence, Units, points
from audit.attacks.measuring import RETRAIN, Streams
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.canaries.schema import (
    LABEL,
    LOSS_FILE,
    PATTERNS,
    TAGS,
    Canary,
    CanarySet,
    load_canaries,
)
from audit.corpus.documents import Corpus
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.measurements import Check, Count, Diagnostic, Estimate, Measurement, Unresolved
from audit.record import Reason, Result
from audit.stats.epsilon import CONFIDENCE, epsilon_bound, needed_canaries, perhaps_fair
from audit.stats.p_values import guessing_p
from audit.targets.interface import BestLinks, Target, TrainingLoss

STRATUM = "canary"
NO_CANARIES = "the data set holds no canaries"
PROVIDE = (
    "plant some before training (docaudit canary insert DATA_DIR OUT; OUT is a new folder), train "
    "on OUT, and scan OUT"
)
TAKEN_OUT = f"{NO_CANARIES}, although its labels or the model’s are made for them"
PUT_BACK = "scan the data set that docaudit canary insert wrote and the model was trained on"
MIN_SIDE = 20
"""Canaries of each side under which nothing is passed.

With 16 the interval of exposure covers 0.88 instead of 0.95; with 20 no hit shows a rate under
0.17, which the default policy asks for. For tighter limits intervals decide.
"""
SHOWN_LEVEL = 0.01
"""The level of the one-sided bound on the excess of exposure that its check names."""
EPSILON = "epsilon"
NOT_FAIR = "fair coins do not plant so many canaries on one side"
NOT_RANKED = "no canary could be ranked"


@dataclass(frozen=True)
class Canaries(Attack):
    """Measure extraction, exposure and epsilon of planted secrets.

    See Parikh et al. 2022; methods/canaries.md. Where there are few completions, every one is
    tried. Beyond that token models are attacked white-box, by the relaxed attack with restarts;
    masked language models and models that write answers decode over the candidates alone; and
    descent goes on from the best found.

    Attributes:
        n_epochs: number of epochs of the relaxed attack, see `Inversion`.
        n_restarts: likewise; guided decoding keeps as many beams, and masks are filled in as many
            orders.
        exhaustive_limit: completions up to which a token model is asked for every one.
        answers_limit: the same for models that write answers.
        n_references: fresh draws that a true completion is ranked among where there are more.
        n_answers: the same for models that write answers.
        delta: delta at which the bound on epsilon holds; the policy limits none.
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
        """Return why no canary can be looked for.

        Labels that are made for canaries tell that there were some.
        """
        answers = case.target.answers
        kind = case.corpus.manifest.task.kind
        if points(case.target):
            return [Reason("model", POINTS)]
        if BestLinks in answers or kind in ("spade-extraction", "spade-linking"):
            return [Reason("model", SENTENCES["links_only"])]
        if kind == "parsing":
            return [Reason("model", SENTENCES["writes_pages"])]
        if case.target.card.is_model and query_style(case.target) is None:
            losses = "of several unknown tokens at once, or of mixtures of candidates"
            neither = "the model gives neither a page’s training loss nor an answer’s probability"
            return [
                Reason(
                    "model",
                    f"the model gives no training loss {losses}"
                    if TrainingLoss in answers
                    else neither,
                )
            ]
        if _canaries_of(case.corpus):
            return []
        if {*TAGS, LABEL} & {*case.corpus.manifest.task.labels, *case.labels}:
            return [Reason("missing", TAKEN_OUT, PUT_BACK)]
        return [Reason("data", NO_CANARIES, PROVIDE)]

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count the canaries that were put in, and those that their coins left out."""
        canaries = _canaries_of(corpus)
        included = sum(canary.included for canary in canaries)
        sides = included, len(canaries) - included
        return tuple(
            Units(metric, "plain difference", measures.UNIT, *sides)
            for metric in ("excess", "excess_top3")
        )

    def trials(self, case: Case) -> list[Trial]:
        """Make a trial for each canary, put in or not, in one stratum.

        Which are taken has nothing to do with the coins.
        """
        return [Trial(canary.id, canary.id, STRATUM) for canary in _canaries_of(case.corpus)]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Search for the secret completion of one canary.

        What is done has nothing to do with its coin, or with that of any other.
        """
        canaries = _canaries_of(case.corpus)
        canary = next(canary for canary in canaries if canary.id == trial.cluster)
        siblings = [sibling for sibling in canaries if sibling.id != canary.id]
        approach = self._approach(case.target)
        if approach is not None:
            effort = Effort(self.exhaustive_limit, self.n_references)
            outcome = yield from ask_page(
                case.token_target, case.corpus, canary, siblings, approach, effort, rng
            )
        elif query_style(case.target) == "replies":
            outcome = yield from ask_reply(case.target, case.corpus, canary)
        else:
            effort = Effort(self.answers_limit, self.n_answers)
            outcome = yield from ask_question(
                case.target, case.corpus, canary, siblings, self.n_restarts, effort, rng
            )
        return outcome.as_json()

    def _approach(self, target: Target) -> Approach | None:
        """Return how a model that reads tokens is asked; None for one that writes answers."""
        match query_style(target):
            case "pages":
                return Inversion(n_epochs=self.n_epochs, n_restarts=self.n_restarts)
            case "masks":
                return ByMasks(self.n_restarts)
        return None

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Rng,
        progress: Progress,
    ) -> Result:
        """Reduce the outcomes to the excess of canaries that are recovered.

        The metrics are described in `measures`, epsilon in `measure_privacy`.
        """
        progress.stage("canaries: intervals", 2)
        drawn = load_canaries(case.corpus)
        assert drawn is not None
        tried = _canaries_tried(case, trials)
        results = [measures.read_outcome(outcome) for outcome in outcomes]
        trained = [case.canary_loss is None or case.canary_loss.covers(canary) for canary in tried]
        table = measures.table_of([*compress(tried, trained)], [*compress(results, trained)])
        streams = Streams(rng)
        measured = measures.measure_table(table, streams["extraction"])
        progress.advance()
        privacy = measure_privacy(drawn, tried, results, streams["epsilon"], self.delta)
        progress.advance()
        everything = (*measured, privacy.epsilon)
        shares = [outcome.missed for outcome in results if outcome.left_out is None]
        meaning = "share of canaries whose true completion the model finds likelier than the search result"
        missed = (Diagnostic("missed", float(np.mean(shares)), meaning),) if shares else ()
        return Result(
            self.name,
            measurements=everything,
            counts=(*counts_of(drawn, tried, results, trained), *privacy.counts),
            diagnostics=(*missed, *privacy.diagnostics),
            histograms=measures.histograms(table),
            checks=checks_of(everything, privacy.p_value, drawn.repeat, self.delta),
            ablations=tuple(weaknesses_of(case, tried, results, table)),
        )

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
    ) -> Iterator[Evidence]:
        """Yield each canary with its completion, what came out, in words, and where it ranks."""
        tried = _canaries_tried(case, trials)
        results = [measures.read_outcome(outcome) for outcome in outcomes]
        for canary, outcome, content in zip(tried, results, outcomes, strict=True):
            yield {
                "attack": self.name,
                "canary": canary.id,
                "pattern": canary.pattern,
                "included": canary.included,
                "copies": canary.copies,
                "prefix": " ".join(canary.prefix),
                "completion": " ".join(canary.completion),
                "left_out": outcome.left_out,
                "recovered": " ".join(
                    PATTERNS[canary.pattern].candidates[number]
                    for number in outcome.strongest
                    if number != UNKNOWN
                ),
                "losses": {"true": outcome.true_loss, "recovered": outcome.strongest_loss},
                "rank": None if outcome.ranked is None else content["ranked"],
            }
        yield from measures.paired_by_canary(tried, results).items()


def _canaries_of(corpus: Corpus) -> tuple[Canary, ...]:
    """Return the canaries that were drawn for a data set; none where it has no canary file."""
    drawn = load_canaries(corpus)
    return () if drawn is None else drawn.canaries


def _canaries_tried(case: Case, trials: Sequence[Trial]) -> list[Canary]:
    """Return the canary that each trial is about, in the order of the trials."""
    by_id = {canary.id: canary for canary in _canaries_of(case.corpus)}
    return [by_id[trial.cluster] for trial in trials]


def counts_of(
    drawn: CanarySet,
    tried: Sequence[Canary],
    found: Sequence[measures.Outcome],
    trained: Sequence[bool],
) -> tuple[Count, ...]:
    """Count what was tried, what could not be, and how it was searched.

    Args:
        drawn: how the canaries were made.
        tried: canaries that were tried.
        found: what came of each, in the same order.
        trained: whether each counts (`LossProof.covers`).
    """
    included = sum(canary.included for canary in tried)
    askable = [outcome for outcome in found if outcome.left_out is None]
    references = [outcome.ranked.n_references for outcome in askable if outcome.ranked is not None]
    counts = {
        "included": included,
        "control": len(tried) - included,
        "without loss": trained.count(False),
        "copies": drawn.repeat,
        "length": drawn.length,
    }
    left_out = [outcome.left_out for outcome in found]
    for reason in measures.REASONS:
        counts[f"not askable: {reason}"] = left_out.count(reason)
    counts["enumerated"] = sum(outcome.enumerated for outcome in askable)
    counts["references"] = min(references, default=0)
    return text_of("canaries").count(counts)


def weaknesses_of(
    case: Case,
    tried: Sequence[Canary],
    found: Sequence[measures.Outcome],
    table: measures.CanaryTable,
) -> Iterator[str]:
    """Yield why the attack may have missed leaks; no limit is passed with any of it.

    Args:
        case: the audit.
        tried: the canaries.
        found: what came of each, in the same order.
        table: table of the canaries that count.
    """
    yield from _missed_canaries(tried, found)
    if query_style(case.target) == "replies":
        yield SENTENCES["answers_alone"]
    planted = int(table.included.sum())
    control = len(table) - planted
    if min(planted, control) < MIN_SIDE:
        yield SENTENCES["few_canaries"].format(planted=planted, control=control, least=MIN_SIDE)
    if case.corpus.manifest.task.kind == "question-answering" and case.canary_loss is None:
        yield SENTENCES["unproven_canaries"].format(file=LOSS_FILE)


def _missed_canaries(
    tried: Sequence[Canary], outcomes: Sequence[measures.Outcome]
) -> Iterator[str]:
    """Yield sentences on included canaries that the search missed or cannot tell apart."""
    included = [outcome for canary, outcome in zip(tried, outcomes, strict=True) if canary.included]
    unnamed = sum(outcome.n_unnamed > 0 for outcome in included)
    if unnamed:
        yield SENTENCES["unnamed_canaries"].format(unnamed=unnamed, n=len(included))
    missed = sum(outcome.missed for outcome in included)
    if missed:
        yield SENTENCES["missed_canaries"].format(missed=missed, n=len(included))


@dataclass(frozen=True)
class Privacy:
    """Hold the bound on epsilon from one run, for a `Result`.

    Attributes:
        p_value: one-sided, against epsilon 0; None without a bound.
    """

    epsilon: Measurement
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    p_value: float | None = None


def measure_privacy(
    drawn: CanarySet,
    canaries: Sequence[Canary],
    outcomes: Sequence[measures.Outcome],
    rng: Rng,
    delta: float,
) -> Privacy:
    """Bound epsilon of what one coin moved, all copies of a canary, from below.

    Args:
        drawn: how the canaries were made.
        canaries: canaries that were tried.
        outcomes: outcomes of each, in the same order.
        rng: random generator of the halves and of ties; independent of the coins.
        delta: delta at which the bound holds.
    """
    coins = np.array([canary.included for canary in canaries])
    scores = scores_of(outcomes)
    n = len(canaries)
    if scores is None:
        return Privacy(Unresolved(EPSILON, NOT_RANKED, n))
    if not perhaps_fair(int(coins.sum()), n):
        return Privacy(Unresolved(EPSILON, NOT_FAIR, n))
    bound = epsilon_bound(scores, coins, rng, delta=delta)
    if bound is None:
        return Privacy(
            Unresolved(EPSILON, "too few canaries to show anything", n, needed_canaries(delta))
        )
    copies = "one record" if drawn.repeat == 1 else f"{drawn.repeat} copies"
    method = SENTENCES["epsilon_method"].format(bound=bound, copies=copies)
    low = bound.low
    high = max(bound.low, bound.cap)
    names = ("epsilon: evaluated", "epsilon: guessed", "epsilon: right")
    guesses = dict(zip(names, (bound.n_evaluated, bound.n_guesses, bound.n_right), strict=True))
    return Privacy(
        Estimate(EPSILON, low, low, high, n, measures.UNIT, n, method, 0.0, "chance", CONFIDENCE),
        text_of("canaries").count(guesses),
        (
            Diagnostic("epsilon_delta", bound.delta, "delta at which the bound on epsilon holds"),
            Diagnostic(
                "epsilon_cap", bound.cap, "the bound if every guess had been right, its maximum"
            ),
        ),
        guessing_p(bound.n_evaluated, bound.n_guesses, bound.n_right, epsilon=0.0, delta=delta),
    )


def scores_of(outcomes: Sequence[measures.Outcome]) -> Floats | None:
    """Return the score of each canary, (n_canaries,), higher for one that was put in.

    None when none is ranked.

    One that could not be asked for stands in the middle: it looks like neither.
    """
    ranks = [
        (outcome.ranked.n_references + 1, outcome.ranked.rank) if outcome.ranked else (math.nan, 1)
        for outcome in outcomes
    ]
    scores = np.array([math.log2(n) - math.log2(rank) for n, rank in ranks], np.float64)
    is_scored = np.isfinite(scores)
    return np.where(is_scored, scores, np.median(scores[is_scored])) if is_scored.any() else None


def checks_of(
    measured: Sequence[Measurement], epsilon_p: float | None, repeat: int, delta: float
) -> tuple[Check, ...]:
    """Test epsilon and exposure for leaks that no limit on a share shows (`audit.policy.checks`).

    Args:
        measured: everything that was measured.
        epsilon_p: the p-value against epsilon 0; None where there is no bound.
        repeat: copies of a canary that was put in.
        delta: delta at which the bound on epsilon holds.
    """
    estimates = {item.name: item for item in measured if isinstance(item, Estimate)}
    epsilon = estimates.get(EPSILON)
    excess = estimates.get("excess_exposure")
    checks: list[Check] = []
    if epsilon is not None and epsilon_p is not None:
        unit = "one record" if repeat == 1 else f"the {repeat} copies of a canary together"
        reason = SENTENCES["epsilon"].format(
            epsilon=epsilon, unit=unit, delta=delta, level=100 * epsilon.level
        )
        checks.append(Check("epsilon", epsilon_p, "alarm", reason, RETRAIN))
    if excess is not None:
        lower = next(
            (bound.lower for bound in excess.bounds if bound.alpha == SHOWN_LEVEL), excess.low
        )
        reason = SENTENCES["exposure"].format(lower=lower, level=100 * (1 - SHOWN_LEVEL))
        checks.append(Check("exposure", excess.p_above(0.0), "alarm", reason, RETRAIN))
    return tuple(checks)
