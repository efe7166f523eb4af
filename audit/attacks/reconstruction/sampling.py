"""From logits and losses to the next token: steps 3 to 6 of CDMI (section 4.2). Pure numpy."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints

Mean = Literal["geometric", "arithmetic"]
HOT_STEPS = 3
"""Steps over which the temperature falls to its final value (appendix A)."""


def temperature_at(step: int, temperature: float, temperature_start: float) -> float:
    """T_t = T (1 + (T_start - 1) max(0, 1 - t/3)) for t = 0, 1, 2 ...: hot first, T from the fourth token on."""
    return temperature * (1 + (temperature_start - 1) * max(0.0, 1 - step / HOT_STEPS))


def log_softmax(scores: Floats) -> Floats:
    """Logarithm of the softmax of `scores`, shape (n_candidates,)."""
    shifted = scores - scores.max()
    log_probabilities: Floats = shifted - np.log(np.exp(shifted).sum())
    return log_probabilities


def log_likelihood_of_losses(losses: Floats, temperature: float) -> tuple[Floats, bool]:
    """Step 4: log softmax((2 - l / median(l)) / T), and whether the losses could be used.

    A median of 0 or a loss that is not finite says nothing about the candidates: the likelihood is uniform then, and
    the second value False.
    """
    median = float(np.median(losses)) if np.isfinite(losses).all() else 0.0
    if median == 0.0:
        return np.full(len(losses), -np.log(len(losses))), False
    return log_softmax((2 - losses / median) / temperature), True


def combine(log_public: Floats, log_target: Floats, target_weight: float, mean: Mean) -> Floats:
    """Step 5: logarithm of the weighted mean of both likelihoods, renormalised; shape (n_candidates,)."""
    if mean == "geometric":
        return log_softmax(target_weight * log_target + (1 - target_weight) * log_public)
    with np.errstate(divide="ignore"):  # a weight of 0 or 1 leaves one likelihood out
        weights = np.log([target_weight, 1 - target_weight])
    return log_softmax(np.logaddexp(weights[0] + log_target, weights[1] + log_public))


def most_likely(probabilities: Floats, ids: Ints) -> Ints:
    """The indices of all candidates, most likely first, ties to the lower token id; shape (n_candidates,)."""
    return np.lexsort((ids, -probabilities))


def nucleus(probabilities: Floats, ids: Ints, top_p: float) -> Ints:
    """Step 6, first half: indices of the smallest set of best candidates whose probabilities reach `top_p`.

    Best first; ties go to the lower token id.
    """
    order = most_likely(probabilities, ids)
    reached = np.cumsum(probabilities[order])
    return order[: int(np.searchsorted(reached, top_p)) + 1]


def draw(probabilities: Floats, kept: Ints, rng: Generator) -> int:
    """Step 6, second half: one of the kept candidates, by probability. Takes exactly one number from `rng`."""
    cumulative = np.cumsum(probabilities[kept])
    place = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return int(kept[min(place, len(kept) - 1)])
