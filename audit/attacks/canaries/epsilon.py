"""The bound on epsilon from one run (methods.md#epsilon-from-one-run), from where the true completions rank.

The score of a canary is its exposure: how early the model puts its true completion among all others behind the same
prefix. It is computed alike for canaries put in and left out, without their coins and without those of the others.

It is no metric that a policy may limit: a lower bound can show a leak, and never that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from audit.attacks.canaries.measures import UNIT
from audit.attacks.canaries.outcomes import Outcome
from audit.corpus.canaries.schema import Canary, CanarySet
from audit.measurements import Count, Diagnostic, Estimate, Measurement, Unresolved
from audit.stats.epsilon import (
    CONFIDENCE,
    EpsilonBound,
    epsilon_bound,
    gaussian_epsilon,
    gaussian_mu,
    needed_canaries,
    perhaps_fair,
)
from audit.stats.guesses import p_value

EPSILON, RECORD, GAUSSIAN = "epsilon", "epsilon.record", "epsilon.gaussian"
NO_COINS = "the canaries were not put in by the toss of a coin (paper design)"
NOT_FAIR = "so many canaries on one side were not put in by fair coins"
NOT_RANKED = "no canary could be ranked"
NOT_GAUSSIAN = "no Gaussian mechanism is private at delta 0"
"""Why there is no bound."""
ABOVE = "the upper end is the most that so many canaries can show, no bound on epsilon"


@dataclass(frozen=True)
class Privacy:
    """Bounds on epsilon from one run, for `Findings`.

    Attributes:
        p_value: one-sided, against epsilon 0; None without a bound.
    """

    measurements: tuple[Measurement, ...]
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    p_value: float | None = None


def measure_privacy(
    drawn: CanarySet, canaries: Sequence[Canary], outcomes: Sequence[Outcome], rng: Generator, delta: float
) -> Privacy:
    """Epsilon at least, of what one coin moved, of one record, and if the training is a Gaussian mechanism.

    Args:
        drawn: how the canaries were made.
        canaries: those that were tried.
        outcomes: of each, in the same order.
        rng: of the halves and of ties; independent of the coins.
        delta: at which the bound holds.
    """
    if drawn.design != "audit":
        return _missing(NO_COINS, len(canaries))
    coins = np.array([canary.included for canary in canaries])
    scores = scores_of(outcomes)
    if scores is None:
        return _missing(NOT_RANKED, len(canaries))
    if not perhaps_fair(int(coins.sum()), len(coins)):
        return _missing(NOT_FAIR, len(coins))
    bound = epsilon_bound(scores, coins, rng, delta=delta)
    if bound is None:
        return _missing("too few canaries to show anything", len(coins), needed_canaries(delta))
    p_zero = p_value(bound.n_evaluated, bound.n_guesses, bound.n_right, epsilon=0.0, delta=delta)
    return Privacy(_estimates(bound, drawn.repeat), _counts(bound), _diagnostics(bound, drawn.repeat), p_zero)


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


def _missing(reason: str, n: int, needed: int | None = None) -> Privacy:
    return Privacy(tuple(Unresolved(name, reason, n, needed) for name in (EPSILON, RECORD, GAUSSIAN)))


def _estimates(bound: EpsilonBound, repeat: int) -> tuple[Measurement, ...]:
    stated = f"at delta {bound.delta:g}"
    how = "lower bound from one run (Steinke et al. 2023), one-sided"
    moved = f"{how}, {stated}, of what one coin moved: {_copies(repeat)}; {ABOVE}"
    smaller = stated if repeat == 1 else f"at delta {_of_one(bound, repeat):.2g}"
    record = f"{how}, {smaller}, of one record: that of {_copies(repeat)} over {repeat} (group privacy); {ABOVE}"
    return (
        _estimate(EPSILON, bound, bound.low, bound.cap, moved),
        _estimate(RECORD, bound, bound.low / repeat, bound.cap / repeat, record),
        _gaussian(bound, stated, repeat),
    )


def _gaussian(bound: EpsilonBound, stated: str, repeat: int) -> Measurement:
    if bound.low_if_gaussian is None:
        return Unresolved(GAUSSIAN, NOT_GAUSSIAN, bound.n_canaries)
    n = bound.n_evaluated
    cap = gaussian_epsilon(gaussian_mu(n, n, n, 1 - bound.confidence), bound.delta)
    how = (
        f"lower bound from one run (Mahloujifar et al. 2024), one-sided, {stated}, of what one coin moved: "
        f"{_copies(repeat)}; it holds if the training is a Gaussian mechanism, which is a hypothesis; {ABOVE}"
    )
    return _estimate(GAUSSIAN, bound, bound.low_if_gaussian, cap, how)


def _estimate(name: str, bound: EpsilonBound, low: float, cap: float, method: str) -> Estimate:
    n = bound.n_canaries
    return Estimate(name, low, low, max(low, cap), n, UNIT, n, method, 0.0, "chance", bound.confidence)


def _of_one(bound: EpsilonBound, repeat: int) -> float:
    """The delta at which the bound on one record holds: (e^(epsilon / r) - 1) / (e^epsilon - 1) of the stated one."""
    if not bound.low:
        return bound.delta / repeat
    return bound.delta * math.expm1(bound.low / repeat) / math.expm1(bound.low)


def _copies(repeat: int) -> str:
    return "one record" if repeat == 1 else f"{repeat} copies"


def _counts(bound: EpsilonBound) -> tuple[Count, ...]:
    return (
        Count("epsilon: evaluated", bound.n_evaluated, "canaries that the bound comes from; the others set its rule"),
        Count("epsilon: guessed", bound.n_guesses, "of these, canaries whose coin was guessed"),
        Count("epsilon: right", bound.n_right, "of these, guesses that were right"),
    )


def _diagnostics(bound: EpsilonBound, repeat: int) -> tuple[Diagnostic, ...]:
    per_record = bound.cap / repeat
    return (
        Diagnostic("epsilon_delta", bound.delta, "delta at which the bound on epsilon holds"),
        Diagnostic("epsilon_confidence", CONFIDENCE, "its one-sided confidence"),
        Diagnostic("epsilon_cap", bound.cap, "the bound if every guess had been right: it could not have been more"),
        Diagnostic("epsilon_cap.record", per_record, "the same for one record"),
    )
