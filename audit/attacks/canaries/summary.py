"""Counts and diagnostics of the canary attack, its weaknesses, and checks that speak for a leak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from audit.attacks.canaries.epsilon import EPSILON
from audit.attacks.canaries.outcomes import REASONS, CanaryTable, Outcome
from audit.attacks.measuring import RETRAIN
from audit.case import Case
from audit.corpus.canaries.loss_proof import LOSS_FILE
from audit.corpus.canaries.schema import Canary, CanarySet
from audit.measurements import Check, Count, Diagnostic, Estimate, Measurement

MIN_SIDE = 20
"""Canaries of each side under which nothing is passed (ours): with 16 the interval of exposure covers 0.88 instead of
0.95; with 20 no hit shows a rate under 0.17, which the default policy asks for. For tighter limits intervals decide."""
SHOWN_LEVEL = 0.01
"""The level of the one-sided bound on the excess of exposure that its check names."""


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
        Count(f"design: {drawn.design}", len(tried), "canaries made by this design"),
        Count("copies", drawn.repeat, "documents that hold a canary that was put in"),
        Count("length", drawn.length, "words of a completion"),
        *(
            Count(f"not askable: {reason}", sum(outcome.left_out == reason for outcome in found), meaning)
            for reason, meaning in REASONS.items()
        ),
        Count(
            "candidates: split",
            max((outcome.n_split for outcome in found), default=0),
            "words that may stand in a completion and that the model splits: left out, at most so many of a canary",
        ),
        Count(
            "candidates: unknown",
            max((outcome.n_unknown for outcome in found), default=0),
            "words that may stand in a completion and that the model does not know: left out, likewise",
        ),
        Count("enumerated", sum(outcome.enumerated for outcome in asked), "canaries with every completion tried"),
        Count("references", min(references, default=0), "completions that a true one was ranked among, at least"),
        Count("steps stalled", sum(outcome.n_stalled for outcome in asked), "steps of the optimiser without a number"),
    )


def diagnostics_of(found: Sequence[Outcome]) -> tuple[Diagnostic, ...]:
    """Describe the course of the search."""
    asked = [outcome for outcome in found if outcome.left_out is None]
    if not asked:
        return ()
    reached = [outcome.reached for outcome in asked if outcome.reached is not None]
    items = [
        Diagnostic(
            "distinct_restarts",
            float(np.mean([outcome.n_distinct / outcome.n_found for outcome in asked])),
            "different completions among those of the restarts, or beams, as a share; mean over canaries",
        ),
        Diagnostic(
            "missed",
            float(np.mean([outcome.missed for outcome in asked])),
            "share of canaries whose true completion the model holds likelier than what the search found",
        ),
    ]
    if reached:
        meaning = "share of canaries of which the optimiser alone found the likeliest of all completions"
        items.append(Diagnostic("optimiser_reached", float(np.mean(reached)), meaning))
    return tuple(items)


def weaknesses_of(tried: Sequence[Canary], found: Sequence[Outcome]) -> tuple[str, ...]:
    """What could not be seen: canaries the model cannot name, or whose search missed; no limit is passed with that."""
    included = [outcome for canary, outcome in zip(tried, found, strict=True) if canary.included]
    return (*_of_names(included), *_of_search(included))


def few_canaries(table: CanaryTable) -> tuple[str, ...]:
    """Return that too few canaries of a side were asked for; no limit is passed with that."""
    included = int(table.included.sum())
    control = len(table) - included
    if min(included, control) >= MIN_SIDE:
        return ()
    return (
        f"{included} canaries that were planted and {control} that were not are too few: {MIN_SIDE} of each are needed "
        "(docaudit canary insert --count 64; --budget standard tries all)",
    )


def unproven_loss(case: Case) -> tuple[str, ...]:
    """Return that nothing shows what training did with the answers of canaries; no limit is passed with that."""
    if case.corpus.manifest.task.kind != "question-answering" or case.canary_loss is not None:
        return ()
    return (
        "nothing shows that training gave the planted answers a loss: train with CanaryCallback of "
        f"docaudit.integrations.transformers, which writes {LOSS_FILE} beside the model",
    )


def _of_names(included: Sequence[Outcome]) -> Iterator[str]:
    unnamed = sum(outcome.n_unnamed > 0 for outcome in included)
    if unnamed:
        yield (
            f"the model does not know the words of {unnamed} of the {len(included)} canaries that are declared as "
            "planted: nothing shows that it was trained on this data set"
        )


def _of_search(included: Sequence[Outcome]) -> Iterator[str]:
    missed = sum(outcome.missed for outcome in included)
    if missed:
        yield (
            f"the search missed {missed} of {len(included)} canaries: the model holds their true completion likelier "
            "than what was found (a larger exhaustive_limit, or --budget full, finds more)"
        )


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
