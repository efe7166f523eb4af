"""Counts of the canary attack, its weaknesses, the bound on epsilon from one run, and checks that speak for a leak.

The score of a canary is its exposure: how early the model puts its true completion among all others behind the same
prefix. It is computed alike for canaries put in and left out, without their coins and without those of the others. The
bound is no metric that a policy may limit: a lower bound can show a leak, and never that there is none
(methods.md#epsilon-from-one-run).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.attacks.canaries.measures import UNIT
from audit.attacks.canaries.outcomes import REASONS, CanaryTable, Outcome
from audit.attacks.measuring import RETRAIN
from audit.case import Case
from audit.corpus.canaries.schema import LOSS_FILE, Canary, CanarySet
from audit.measurements import Check, Count, Diagnostic, Estimate, Measurement, Unresolved
from audit.stats.epsilon import EpsilonBound, epsilon_bound, needed_canaries, perhaps_fair
from audit.stats.guesses import p_value

MIN_SIDE = 20
"""Canaries of each side under which nothing is passed: with 16 the interval of exposure covers 0.88 instead of 0.95;
with 20 no hit shows a rate under 0.17, which the default policy asks for. For tighter limits intervals decide."""
SHOWN_LEVEL = 0.01
"""The level of the one-sided bound on the excess of exposure that its check names."""
EPSILON = "epsilon"
NOT_FAIR = "so many canaries on one side were not put in by fair coins"
NOT_RANKED = "no canary could be ranked"


def counts_of(
    drawn: CanarySet, tried: Sequence[Canary], found: Sequence[Outcome], trained: Sequence[bool]
) -> tuple[Count, ...]:
    """Count what was tried, what could not be, and how it was searched.

    Args:
        drawn: how the canaries were made.
        tried: those that were tried.
        found: what came of each, in the same order.
        trained: whether each counts (`LossProof.covers`).
    """
    included = sum(canary.included for canary in tried)
    asked = [outcome for outcome in found if outcome.left_out is None]
    references = [outcome.ranked.n_references for outcome in asked if outcome.ranked is not None]
    return (
        Count("included", included, "canaries that were put in"),
        Count("control", len(tried) - included, "canaries that their coins left out"),
        Count("without loss", trained.count(False), "canaries whose secret had no loss in training: not counted"),
        Count("copies", drawn.repeat, "documents that hold a canary that was put in"),
        Count("length", drawn.length, "words of a completion"),
        *(
            Count(f"not askable: {reason}", sum(outcome.left_out == reason for outcome in found), meaning)
            for reason, meaning in REASONS.items()
        ),
        Count("enumerated", sum(outcome.enumerated for outcome in asked), "canaries with every completion tried"),
        Count("references", min(references, default=0), "completions that a true one was ranked among, at least"),
    )


def missed_of(found: Sequence[Outcome]) -> tuple[Diagnostic, ...]:
    """The share of canaries that the search missed; none where no canary could be asked for."""
    missed = [outcome.missed for outcome in found if outcome.left_out is None]
    meaning = "share of canaries whose true completion the model holds likelier than what the search found"
    return (Diagnostic("missed", float(np.mean(missed)), meaning),) if missed else ()


def weaknesses_of(case: Case, tried: Sequence[Canary], found: Sequence[Outcome], table: CanaryTable) -> Iterator[str]:
    """Yield what could not be seen; no limit is passed with any of it.

    Args:
        case: the audit.
        tried: the canaries.
        found: what came of each, in the same order.
        table: those that count.
    """
    included = [outcome for canary, outcome in zip(tried, found, strict=True) if canary.included]
    unnamed = sum(outcome.n_unnamed > 0 for outcome in included)
    if unnamed:
        yield (
            f"the model does not know the words of {unnamed} of the {len(included)} canaries that are declared as "
            "planted: nothing shows that it was trained on this data set"
        )
    missed = sum(outcome.missed for outcome in included)
    if missed:
        yield (
            f"the search missed {missed} of {len(included)} canaries: the model holds their true completion likelier "
            "than what was found (a larger exhaustive_limit, or --budget full, finds more)"
        )
    planted = int(table.included.sum())
    control = len(table) - planted
    if min(planted, control) < MIN_SIDE:
        yield (
            f"{planted} canaries that were planted and {control} that were not are too few: {MIN_SIDE} of each are "
            "needed (docaudit canary insert --count 64; --budget standard tries all)"
        )
    if case.corpus.manifest.task.kind == "question-answering" and case.canary_loss is None:
        yield (
            "nothing shows that training gave the planted answers a loss: train with CanaryCallback of "
            f"docaudit.integrations.transformers, which writes {LOSS_FILE} beside the model"
        )


@dataclass(frozen=True)
class Privacy:
    """The bound on epsilon from one run, for a `Result`.

    Attributes:
        p_value: one-sided, against epsilon 0; None without a bound.
    """

    epsilon: Measurement
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    p_value: float | None = None


def measure_privacy(
    drawn: CanarySet, canaries: Sequence[Canary], outcomes: Sequence[Outcome], rng: Generator, delta: float
) -> Privacy:
    """Bound epsilon of what one coin moved, all copies of a canary, from below.

    Args:
        drawn: how the canaries were made.
        canaries: those that were tried.
        outcomes: of each, in the same order.
        rng: of the halves and of ties; independent of the coins.
        delta: at which the bound holds.
    """
    coins = np.array([canary.included for canary in canaries])
    scores, n = scores_of(outcomes), len(canaries)
    if scores is None:
        return Privacy(Unresolved(EPSILON, NOT_RANKED, n))
    if not perhaps_fair(int(coins.sum()), n):
        return Privacy(Unresolved(EPSILON, NOT_FAIR, n))
    bound = epsilon_bound(scores, coins, rng, delta=delta)
    if bound is None:
        return Privacy(Unresolved(EPSILON, "too few canaries to show anything", n, needed_canaries(delta)))
    copies = "one record" if drawn.repeat == 1 else f"{drawn.repeat} copies"
    return Privacy(
        _estimate(bound, copies),
        (
            Count("epsilon: evaluated", bound.n_evaluated, "canaries that the bound comes from, others set its rule"),
            Count("epsilon: guessed", bound.n_guesses, "of these, canaries whose coin was guessed"),
            Count("epsilon: right", bound.n_right, "of these, guesses that were right"),
        ),
        (
            Diagnostic("epsilon_delta", bound.delta, "delta at which the bound on epsilon holds"),
            Diagnostic("epsilon_cap", bound.cap, "the bound if every guess had been right: it could not be more"),
        ),
        p_value(bound.n_evaluated, bound.n_guesses, bound.n_right, epsilon=0.0, delta=delta),
    )


def scores_of(outcomes: Sequence[Outcome]) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """The score of each canary, (n_canaries,), higher is more like one that was put in; None when none is ranked.

    One that could not be asked for stands in the middle: it looks like neither.
    """
    known = [
        math.log2(outcome.ranked.n_references + 1) - math.log2(outcome.ranked.rank)
        for outcome in outcomes
        if outcome.ranked is not None
    ]
    if not known:
        return None
    scores, middle = iter(known), float(np.median(known))
    return np.array([middle if outcome.ranked is None else next(scores) for outcome in outcomes])


def _estimate(bound: EpsilonBound, copies: str) -> Estimate:
    method = (
        f"lower bound from one run (Steinke et al. 2023), one-sided, at delta {bound.delta:g}, of what one coin moved: "
        f"{copies}; the upper end is the most that so many canaries can show, no bound on epsilon"
    )
    low, n = bound.low, bound.n_canaries
    return Estimate(EPSILON, low, low, max(low, bound.cap), n, UNIT, n, method, 0.0, "chance", bound.confidence)


def checks_of(measured: Sequence[Measurement], epsilon_p: float | None, repeat: int, delta: float) -> tuple[Check, ...]:
    """Test what speaks for a leak although no limit on a share may say so (`audit.policy.checks`).

    Args:
        measured: everything that was measured.
        epsilon_p: the p-value against epsilon 0; None where there is no bound.
        repeat: copies of a canary that was put in.
        delta: at which the bound on epsilon holds.
    """
    estimates = {item.name: item for item in measured if isinstance(item, Estimate)}
    return (
        *_of_coins(estimates.get(EPSILON), epsilon_p, repeat, delta),
        *_of_exposure(estimates.get("excess_exposure")),
    )


def _of_coins(epsilon: Estimate | None, p_value: float | None, repeat: int, delta: float) -> Iterator[Check]:
    if epsilon is not None and p_value is not None:
        unit = "one record" if repeat == 1 else f"the {repeat} copies of a canary together"
        reason = (
            "which canaries were planted can be told from the model, so that the training did not keep it to itself: "
            f"epsilon is at least {epsilon.low:.2g} for {unit} (at delta {delta:g}, {100 * epsilon.level:.0f} % "
            "confidence)"
        )
        yield Check("epsilon", p_value, "alarm", reason, RETRAIN)


def _of_exposure(excess: Estimate | None) -> Iterator[Check]:
    if excess is not None:
        lower = next((bound.lower for bound in excess.bounds if bound.alpha == SHOWN_LEVEL), excess.low)
        reason = (
            "the model holds planted secrets likelier than those that were never planted: on average by at least "
            f"{lower:.2g} bits ({100 * (1 - SHOWN_LEVEL):.0f} % confidence)"
        )
        yield Check("exposure", excess.p_above(0.0), "alarm", reason, RETRAIN)
