"""How an attempt takes its next token: as published (steps 3 to 6), or always the one that the target likes best.

A method is a rule. What is known of the candidates after a prefix does not depend on it, so all methods share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.reconstruction.sampling import (
    Mean,
    combine,
    draw,
    log_likelihood_of_losses,
    log_softmax,
    nucleus,
    temperature_at,
)
from audit.attacks.reconstruction.shots import Shot

DEFAULT, LOWEST_LOSS, TUNED = "default", "lowest_loss", "tuned"


@dataclass(frozen=True, eq=False)
class PrefixKnowledge:
    """What an attacker knows of the candidates after one prefix.

    Attributes:
        ids: (n_candidates,) the candidates (step 1).
        logits: (n_candidates,) the proposer's.
        losses: (n_candidates,) the target's training loss with each, nats (step 2); None where none was asked for.
        public: (n_candidates,) the public model's logits, where another model proposed; None: the proposer's serve.
    """

    ids: Ints
    logits: Floats
    losses: Floats | None = None
    public: Floats | None = None


@dataclass(frozen=True, eq=False)
class Node:
    """What follows a prefix.

    Attributes:
        ids: (n_candidates,) the candidates.
        log_target: (n_candidates,) log p, what a token is sampled by (step 5).
        log_public: (n_candidates,) log ghat (step 3).
        kept: the indices that may be sampled (step 6).
        usable: whether the target's losses said anything.
    """

    ids: Ints
    log_target: Floats
    log_public: Floats
    kept: Ints
    usable: bool

    def extended(self, shot: Shot, rng: Rng) -> Shot:
        """The attempt with its next token."""
        place = draw(np.exp(self.log_target), self.kept, rng)
        return Shot(
            (*shot.tokens, int(self.ids[place])),
            (*shot.log_target, float(self.log_target[place])),
            (*shot.log_public, float(self.log_public[place])),
        )


class Rule(Protocol):
    """How a token is chosen among the candidates."""

    def node(self, told: PrefixKnowledge, step: int) -> Node:
        """What follows a prefix of `step` tokens."""
        ...


@dataclass(frozen=True)
class Sampling:
    """Steps 3 to 6 of the paper; see `Reconstruction` for the settings. The defaults are those that docaudit ships."""

    temperature: float = 0.3
    temperature_start: float = 10.0
    target_weight: float = 0.4
    mean: Mean = "geometric"
    top_p: float = 0.10

    def node(self, told: PrefixKnowledge, step: int) -> Node:
        """See `Rule.node`."""
        temperature = temperature_at(step, self.temperature, self.temperature_start)
        log_p = log_g = log_softmax(told.logits / temperature)
        usable = True
        if told.losses is not None:
            log_l, usable = log_likelihood_of_losses(told.losses, self.temperature)
            log_p = combine(log_g, log_l, self.target_weight, self.mean)
        if told.public is not None:
            log_g = log_softmax(told.public / temperature)
        return Node(told.ids, log_p, log_g, nucleus(np.exp(log_p), told.ids, self.top_p), usable)


@dataclass(frozen=True)
class LowestLoss:
    """The candidate of lowest training loss; where no loss was asked for, the proposer's most likely one (ours).

    The published rule can let a confident public model outvote a target that remembers: a loss of 0 adds at most 1/T to
    a candidate's logarithm, before it is weighed. This rule heeds the public model only among equal losses.
    """

    def node(self, told: PrefixKnowledge, step: int) -> Node:
        """See `Rule.node`. Losses that are not finite come last; ties go to the more likely, then to the lower id."""
        losses = np.zeros(len(told.ids)) if told.losses is None else told.losses
        ranked = np.where(np.isfinite(losses), losses, np.inf)
        best = np.lexsort((told.ids, -told.logits, ranked))[:1]
        certain = np.full(len(told.ids), -np.inf)
        certain[best] = 0.0
        return Node(told.ids, certain, log_softmax(told.logits), best, usable=True)


SHIPPED = Sampling()
"""The settings of the default method, whatever a file of parameters sets."""
