"""Candidates weighed by the target's losses and the public model's logits: steps 4 and 5 of CDMI. Pure numpy.

Dentan et al. 2024, section 4.2.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from audit.arrays import Floats

Mean = Literal["geometric", "arithmetic"]
TEMPERATURE = 0.3
TARGET_WEIGHT = 0.4
MEAN: Mean = "geometric"
"""The settings that docaudit ships; the paper gives ranges."""
MEMORY = 2.0
"""By which a positive control makes the true candidate likelier, see `memory_of` (ours)."""


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


def memory_of(values: Floats) -> float:
    """Compute how strong a planted memory is: `MEMORY` standard deviations of the difference between two candidates.

    Args:
        values: (n_candidates,) losses or logits; those that are not finite do not count.
    """
    finite = values[np.isfinite(values)]
    return MEMORY * math.sqrt(2) * float(finite.std()) if finite.size else 0.0
