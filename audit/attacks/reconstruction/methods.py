"""Methods: how an attempt takes its next token.

That is as published (steps 3 to 6), or always the one that the target likes best. A method is a
rule. What is known of the candidates after a prefix does not depend on it, so all methods share it.
The attempts of a field are ranked by how plausible each is (section 4.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks import measuring

HOT_STEPS = 3
"""Steps over which the temperature falls to its final value (appendix A)."""


@dataclass(frozen=True)
class Shot:
    """One attempt at a field.

    Attributes:
        tokens: what was put in its place.
        log_target: (n_tokens,) logarithm of p_i, the likelihood that each token had when it was
            sampled (step 5).
        log_public: (n_tokens,) logarithm of ghat_i, its likelihood to the public model (step 3),
            over the same candidates.
    """

    tokens: tuple[int, ...]
    log_target: tuple[float, ...]
    log_public: tuple[float, ...]

    def as_json(self) -> dict[str, list[Any]]:
        """Convert the attempt for the journal."""
        return {
            "tokens": [*self.tokens],
            "log_target": [*self.log_target],
            "log_public": [*self.log_public],
        }


def read_shots(outcome: Sequence[dict[str, Any]]) -> list[Shot]:
    """Read attempts from the journal."""
    return [
        Shot(tuple(shot["tokens"]), tuple(shot["log_target"]), tuple(shot["log_public"]))
        for shot in outcome
    ]


def log_perplexity(log_likelihoods: Floats) -> float:
    """Compute the logarithm of a field's perplexity, product^(-1/k)."""
    return -float(log_likelihoods.mean())


def best(shots: Sequence[Shot], *, with_target: bool) -> tuple[Shot, float]:
    """Return the most plausible attempt, the first one of equals, and its score.

    The larger, the more plausible.

    The score is the logarithm of the perplexity ratio, the public model's over the target's, fixed
    before any scan; without the target it is minus that of the public perplexity (section 4.3).
    """

    def score(shot: Shot) -> float:
        """Compute the log-perplexity ratio, public over target, or minus the public one."""
        public = log_perplexity(np.array(shot.log_public))
        return public - log_perplexity(np.array(shot.log_target)) if with_target else -public

    scores = [score(shot) for shot in shots]
    index = int(np.argmax(scores))
    return shots[index], scores[index]


def temperature_at(step: int, temperature: float, temperature_start: float) -> float:
    """Compute T_t = T (1 + (T_start - 1) max(0, 1 - t/3)), t = 0, 1, ...

    It is hot first, and T from the fourth token on.
    """
    return temperature * (1 + (temperature_start - 1) * max(0.0, 1 - step / HOT_STEPS))


def most_likely(probabilities: Floats, ids: Ints) -> Ints:
    """Sort the indices of all candidates, most likely first, ties to the lower token id.

    (n_candidates,).
    """
    return np.lexsort((ids, -probabilities))


def nucleus(probabilities: Floats, ids: Ints, top_p: float) -> Ints:
    """Return the indices of the nucleus (step 6).

    That is the smallest set of best candidates whose probabilities reach `top_p`. Best
    first; ties go to the lower token id.
    """
    order = most_likely(probabilities, ids)
    reached = np.cumsum(probabilities[order])
    return order[: int(np.searchsorted(reached, top_p)) + 1]


def draw(probabilities: Floats, kept: Ints, rng: Rng) -> int:
    """Draw a candidate of the nucleus by probability (step 6).

    Takes exactly one number from `rng`.
    """
    cumulative = np.cumsum(probabilities[kept])
    index = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return int(kept[min(index, len(kept) - 1)])


@dataclass(frozen=True, eq=False)
class PrefixKnowledge:
    """What an attacker knows of the candidates after one prefix.

    Attributes:
        ids: (n_candidates,) the candidates (step 1).
        logits: (n_candidates,) the proposer's.
        losses: (n_candidates,) the target's training loss with each, nats (step 2); None where none
            was asked for.
        public: (n_candidates,) the public model's logits, where another model proposed; None: the
            proposer's serve.
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
        """Return the attempt with a next token drawn from this node."""
        index = draw(np.exp(self.log_target), self.kept, rng)
        return Shot(
            (*shot.tokens, int(self.ids[index])),
            (*shot.log_target, float(self.log_target[index])),
            (*shot.log_public, float(self.log_public[index])),
        )


@dataclass(frozen=True)
class Sampling:
    """Steps 3 to 6 of the paper; see `Reconstruction` for the settings.

    The defaults are those that docaudit ships.
    """

    temperature: float = measuring.TEMPERATURE
    temperature_start: float = 10.0
    target_weight: float = measuring.TARGET_WEIGHT
    mean: measuring.Mean = measuring.MEAN
    top_p: float = 0.10

    def node(self, knowledge: PrefixKnowledge, step: int) -> Node:
        """Return the distribution of the token after a prefix of `step` tokens."""
        temperature = temperature_at(step, self.temperature, self.temperature_start)
        log_p = log_g = measuring.log_softmax(knowledge.logits / temperature)
        usable = True
        if knowledge.losses is not None:
            log_l, usable = measuring.log_likelihood_of_losses(knowledge.losses, self.temperature)
            log_p = measuring.combine(log_g, log_l, self.target_weight, self.mean)
        if knowledge.public is not None:
            log_g = measuring.log_softmax(knowledge.public / temperature)
        return Node(
            knowledge.ids, log_p, log_g, nucleus(np.exp(log_p), knowledge.ids, self.top_p), usable
        )


@dataclass(frozen=True)
class LowestLoss:
    """The candidate of lowest training loss.

    Where no loss was asked for, the proposer's most likely one.

    The published rule can let a confident public model outvote a target that remembers: a loss of 0
    adds at most 1/T to a candidate's logarithm, before it is weighed. This rule heeds the public
    model only among equal losses.
    """

    def node(self, knowledge: PrefixKnowledge, step: int) -> Node:
        """Return the distribution that gives all to the token of the lowest loss.

        Losses that are not finite come last; ties go to the more likely, then to the lower id.
        """
        losses = np.zeros(len(knowledge.ids)) if knowledge.losses is None else knowledge.losses
        ranked = np.where(np.isfinite(losses), losses, np.inf)
        best = np.lexsort((knowledge.ids, -knowledge.logits, ranked))[:1]
        certain = np.full(len(knowledge.ids), -np.inf)
        certain[best] = 0.0
        return Node(
            knowledge.ids, certain, measuring.log_softmax(knowledge.logits), best, usable=True
        )


Rule = Sampling | LowestLoss
"""How a token is chosen among the candidates."""
SHIPPED = Sampling()
"""The settings of the default method, whatever a file of parameters sets."""
