"""The relaxed attack on one canary: unknown tokens as mixtures of candidates, changed by gradient descent.

Method: methods.md#canary-extraction.

Parikh, Dupuy & Gupta (2022), "Canary extraction in natural language understanding models", equations 1 to 3 and
appendix B. Generators: they yield requests and are sent the answers, as attempts do (`audit.engine.interface`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.search import Scorer, score_finite
from audit.attacks.interface import ask, ask_all
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import CompletionLoss, RelaxedLoss, Target

BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
"""Of Adam (Kingma & Ba 2015); the paper names no others."""


@dataclass(frozen=True)
class Inversion:
    """Settings of the relaxed attack; those of the paper (appendix B) where it gives them.

    Attributes:
        n_epochs: steps of Adam.
        learning_rate: of the first step.
        decay: what the learning rate is multiplied with after each step.
        temperature: of the softmax, at the first step (equation 1).
        temperature_decay: what it is multiplied with after each step.
        n_restarts: starting points; the lowest loss of a discrete completion wins (METHODS).
        spread: standard deviation of the logits at the start (METHODS: large ones are saturated and find nothing).
        mix_characters: see `RelaxedLoss.mix_characters`.
    """

    n_epochs: int = 250
    learning_rate: float = 6.5e-3
    decay: float = 0.995
    temperature: float = 0.1
    temperature_decay: float = 0.997
    n_restarts: int = 4
    spread: float = 0.01
    mix_characters: bool = True


def invert(
    target: Target, page: Encoding, positions: tuple[int, ...], candidates: Ints, settings: Inversion, rng: Rng
) -> Generator[Request, Any, tuple[Ints, Floats]]:
    """Find the tokens that lower the training loss of a page most, by descent on mixtures of candidates.

    All restarts go side by side: at each step one `RelaxedLoss` for each, asked together. At the end the likeliest
    candidates of each restart are put in place, and the loss of that discrete completion decides.

    Args:
        target: answers `RelaxedLoss` and `CompletionLoss`.
        page: as the target reads it, with its labels; what stands at `positions` does not matter.
        positions: of the unknown tokens.
        candidates: (n_candidates,) distinct token ids.
        settings: of the attack.
        rng: of the starting points.

    Returns:
        Candidate numbers, (n_restarts, n_positions), and their losses, (n_restarts,) nats: infinite where the model
        gives no finite one.
    """
    shape = (settings.n_restarts, len(positions), len(candidates))
    logits = rng.normal(0.0, settings.spread, shape)
    adam = _Adam(shape)
    for step in range(settings.n_epochs):
        temperature = settings.temperature * settings.temperature_decay**step
        weights = softmax(logits / temperature)
        queries = [
            RelaxedLoss(page, positions, candidates, mixed, mix_characters=settings.mix_characters) for mixed in weights
        ]
        relaxed = yield from ask_all(target, queries)
        gradient = np.stack([answer.gradient for answer in relaxed])
        finite = np.isfinite(gradient).all(axis=(1, 2)) & np.isfinite([answer.loss for answer in relaxed])
        downhill = _through_softmax(weights, np.where(finite[:, None, None], gradient, 0.0)) / temperature
        logits -= settings.learning_rate * settings.decay**step * adam.direction(downhill, finite)
    numbers = logits.argmax(axis=2).astype(np.int64)
    losses = yield from score_finite(completion_scorer(target, page, positions, candidates), numbers)
    return numbers, losses


def completion_scorer(target: Target, page: Encoding, positions: tuple[int, ...], candidates: Ints) -> Scorer:
    """Scores completions by the training loss of the page that they stand on; arguments are those of `invert`."""

    def losses(numbers: Ints) -> Generator[Request, Any, Floats]:
        return (yield from ask(target, CompletionLoss(page, positions, candidates[numbers])))

    return losses


def softmax(values: Floats) -> Floats:
    """Rows of the last axis as distributions."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    weights: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return weights


def _through_softmax(weights: Floats, gradient: Floats) -> Floats:
    """The gradient with respect to what the softmax was taken of, from that with respect to its weights."""
    passed: Floats = weights * (gradient - (weights * gradient).sum(axis=-1, keepdims=True))
    return passed


class _Adam:
    """Adam for several restarts, each with its own count of steps: one that stalls leaves its means as they are."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._mean = np.zeros(shape)
        self._square = np.zeros(shape)
        self._steps = np.zeros((shape[0], 1, 1))

    def direction(self, gradient: Floats, taken: np.ndarray[Any, np.dtype[np.bool_]]) -> Floats:
        """Return what to subtract for a learning rate of 1; zeros for restarts that take no step."""
        rows = taken[:, None, None]
        self._steps += rows
        self._mean = np.where(rows, BETAS[0] * self._mean + (1 - BETAS[0]) * gradient, self._mean)
        self._square = np.where(rows, BETAS[1] * self._square + (1 - BETAS[1]) * gradient**2, self._square)
        counts = np.maximum(self._steps, 1)
        mean, square = self._mean / (1 - BETAS[0] ** counts), self._square / (1 - BETAS[1] ** counts)
        return np.where(rows, mean / (np.sqrt(square) + ADAM_EPSILON), 0.0)
