"""The attempts of one field: which was most plausible, and how plausible it was (section 4.3). Pure numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.arrays import Floats

Score = Callable[[Floats, Floats], float]


@dataclass(frozen=True)
class Shot:
    """One attempt at a field.

    Attributes:
        tokens: what was put in its place.
        log_target: (n_tokens,) logarithm of p_i, the likelihood that each token had when it was sampled (step 5).
        log_public: (n_tokens,) logarithm of ghat_i, its likelihood to the public model (step 3), over the same
            candidates.
    """

    tokens: tuple[int, ...]
    log_target: tuple[float, ...]
    log_public: tuple[float, ...]

    def as_json(self) -> dict[str, list[Any]]:
        """For the journal."""
        return {"tokens": [*self.tokens], "log_target": [*self.log_target], "log_public": [*self.log_public]}


def read_shots(outcome: Sequence[dict[str, Any]]) -> list[Shot]:
    """Shots from the journal."""
    return [Shot(tuple(one["tokens"]), tuple(one["log_target"]), tuple(one["log_public"])) for one in outcome]


def log_perplexity(log_likelihoods: Floats) -> float:
    """The logarithm of a field's perplexity, product^(-1/k)."""
    return -float(log_likelihoods.mean())


def _ratio(target: Floats, public: Floats) -> float:
    return log_perplexity(public) - log_perplexity(target)


MEMBERSHIP_SCORES: dict[str, Score] = {
    "perplexity_ratio": _ratio,
    "raw_perplexity": lambda _, public: log_perplexity(public),
    "raw_and_ratio": lambda target, public: log_perplexity(public) + _ratio(target, public),
    "likelihood_gap": lambda target, public: float(np.max(np.exp(target) - np.exp(public))),
    "likelihood_ratio": lambda target, public: float(np.max(target - public)),
}
"""The five membership inference metrics of section 4.3; the larger, the more plausible the attempt.

Perplexities and ratios are compared by their logarithms, which sorts alike. The first is docaudit's primary score,
fixed before any scan.
"""
PRIMARY = "perplexity_ratio"


def baseline_score(_: Floats, public: Floats) -> float:
    """What ranks the attempts of someone without the model: the lower the public perplexity, the more plausible."""
    return -log_perplexity(public)


def best(shots: Sequence[Shot], score: Score) -> tuple[Shot, float]:
    """The most plausible attempt, the first one of equals, and its score."""
    scores = [score(np.array(shot.log_target), np.array(shot.log_public)) for shot in shots]
    place = int(np.argmax(scores))
    return shots[place], scores[place]
