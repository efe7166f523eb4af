"""Algorithm 2 of the paper: from a scrubbed page to attempts at its field, token by token."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator as Rng

from audit.attacks.interface import ask_all
from audit.attacks.reconstruction.proposals import Prefix, Proposals
from audit.attacks.reconstruction.sampling import (
    Floats,
    Ints,
    Mean,
    combine,
    draw,
    log_likelihood_of_losses,
    log_softmax,
    most_likely,
    nucleus,
    temperature_at,
)
from audit.attacks.reconstruction.shots import Shot
from audit.engine.interface import Request
from audit.targets.interface import CandidateLogits, Candidates, FirstOrderLoss, Target, TrainingLoss


class Parameters(Protocol):
    """What of the attack's parameters the algorithm reads; see `Reconstruction`."""

    @property
    def n_attempts(self) -> int: ...  # noqa: D102
    @property
    def temperature(self) -> float: ...  # noqa: D102
    @property
    def temperature_start(self) -> float: ...  # noqa: D102
    @property
    def target_weight(self) -> float: ...  # noqa: D102
    @property
    def mean(self) -> Mean: ...  # noqa: D102
    @property
    def top_p(self) -> float: ...  # noqa: D102
    @property
    def screened(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Node:
    """What follows a prefix.

    Attributes:
        ids: (n_candidates,) the candidates.
        log_target: (n_candidates,) log p, what a token is sampled by (step 5).
        log_public: (n_candidates,) log ghat (step 3).
        kept: the indices that the nucleus keeps (step 6).
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


Value = tuple[Floats, Floats, bool]
"""Of the candidates after one prefix: log p, log ghat, and whether the losses said anything."""


@dataclass(frozen=True, eq=False)
class Public:
    """The baseline: the public likelihood alone decides (section 5.2)."""

    proposals: Proposals

    def values(
        self, _: Sequence[Prefix], __: Sequence[Candidates], log_g: Sequence[Floats], ___: float, ____: Parameters
    ) -> Generator[Request, Any, list[Value]]:
        """See `Player.values`."""
        yield from ()
        return [(own, own, True) for own in log_g]


@dataclass(frozen=True, eq=False)
class Judged:
    """Steps 2, 4 and 5: the target's training loss with every candidate, combined with the public likelihood."""

    proposals: Proposals
    target: Target

    def values(
        self,
        prefixes: Sequence[Prefix],
        candidates: Sequence[Candidates],
        log_g: Sequence[Floats],
        _: float,
        parameters: Parameters,
    ) -> Generator[Request, Any, list[Value]]:
        """See `Player.values`."""
        queries = [
            TrainingLoss(self.proposals.page_after(prefix), self.proposals.positions[len(prefix)], found.ids)
            for prefix, found in zip(prefixes, candidates, strict=True)
        ]
        losses = yield from self._losses(queries, log_g, parameters)
        return [judged(own, found, parameters) for own, found in zip(log_g, losses, strict=True)]

    def _losses(
        self, queries: Sequence[TrainingLoss], log_g: Sequence[Floats], parameters: Parameters
    ) -> Generator[Request, Any, list[Floats]]:
        """The losses of all candidates, or of the best few only, the others estimated: `Parameters.screened`.

        Screening is ours, not the paper's: candidates are ranked by what step 5 makes of a first-order estimate of
        their losses, the exact losses of the best ones take the place of their estimates, and the other estimates stay.
        No loss is below zero, so no estimate is.
        """
        if parameters.screened is None or all(len(query.candidates) <= parameters.screened for query in queries):
            return (yield from ask_all(self.target, queries))
        asked = [FirstOrderLoss(query.page, query.position, query.candidates) for query in queries]
        losses = [np.maximum(found, 0.0) for found in (yield from ask_all(self.target, asked))]
        chosen = [
            most_likely(np.exp(judged(own, found, parameters)[0]), query.candidates)[: parameters.screened]
            for query, own, found in zip(queries, log_g, losses, strict=True)
        ]
        exact = yield from ask_all(
            self.target,
            [replace(query, candidates=query.candidates[own]) for query, own in zip(queries, chosen, strict=True)],
        )
        for found, own, known in zip(losses, chosen, exact, strict=True):
            found[own] = known
        return losses


def judged(log_g: Floats, losses: Floats, parameters: Parameters) -> Value:
    """Steps 4 and 5 for the candidates after one prefix, from the public likelihood and the target's losses."""
    log_l, usable = log_likelihood_of_losses(losses, parameters.temperature)
    return combine(log_g, log_l, parameters.target_weight, parameters.mean), log_g, usable


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A masked language model under attack proposes and decides alone (section 4.3).

    The public model only says how likely the candidates are to it, for the membership scores.
    """

    proposals: Proposals
    public: Target

    def values(
        self,
        prefixes: Sequence[Prefix],
        candidates: Sequence[Candidates],
        log_p: Sequence[Floats],
        temperature: float,
        _: Parameters,
    ) -> Generator[Request, Any, list[Value]]:
        """See `Player.values`."""
        queries = [
            CandidateLogits(self.proposals.page_after(prefix), self.proposals.positions[len(prefix)], found.ids)
            for prefix, found in zip(prefixes, candidates, strict=True)
        ]
        logits = yield from ask_all(self.public, queries)
        return [(own, log_softmax(found / temperature), True) for own, found in zip(log_p, logits, strict=True)]


class Player(Protocol):
    """Who reconstructs."""

    @property
    def proposals(self) -> Proposals:
        """Where its candidates come from (step 1)."""
        ...

    def values(
        self,
        prefixes: Sequence[Prefix],
        candidates: Sequence[Candidates],
        log_proposer: Sequence[Floats],
        temperature: float,
        parameters: Parameters,
    ) -> Generator[Request, Any, list[Value]]:
        """What the candidates after each prefix are worth; `log_proposer` is the proposer's softmax (step 3)."""
        ...


def nodes_after(
    player: Player, prefixes: Sequence[Prefix], parameters: Parameters
) -> Generator[Request, Any, dict[Prefix, Node]]:
    """One step of algorithm 2 for prefixes of one length."""
    candidates = yield from player.proposals.after(prefixes)
    temperature = temperature_at(len(prefixes[0]), parameters.temperature, parameters.temperature_start)
    log_proposer = [log_softmax(found.logits / temperature) for found in candidates]
    values = yield from player.values(prefixes, candidates, log_proposer, temperature, parameters)
    return {
        prefix: Node(found.ids, log_p, log_g, nucleus(np.exp(log_p), found.ids, parameters.top_p), usable)
        for prefix, found, (log_p, log_g, usable) in zip(prefixes, candidates, values, strict=True)
    }


@dataclass(frozen=True)
class Reconstructed:
    """The attempts.

    Attributes:
        shots: the attempts.
        single: over all of them, steps whose nucleus was one token.
        unusable: over all of them, steps whose losses said nothing.
        blind: whether the first attempt had such a step.
    """

    shots: list[Shot]
    single: int
    unusable: int
    blind: bool


def reconstruct(player: Player, rng: Rng, parameters: Parameters) -> Generator[Request, Any, Reconstructed]:
    """All attempts side by side: those that share a prefix share its candidates and losses.

    What a candidate is worth depends on the prefix only, so this changes nothing but the work (METHODS.md 1 c). Each
    attempt draws from a source of its own: the first one is the same whatever their number.
    """
    sources = rng.spawn(parameters.n_attempts)
    shots = [Shot((), (), ())] * parameters.n_attempts
    single = unusable = 0
    blind = False
    for _ in player.proposals.positions:
        nodes = yield from nodes_after(player, sorted({shot.tokens for shot in shots}), parameters)
        single += sum(len(nodes[shot.tokens].kept) == 1 for shot in shots)
        unusable += sum(not nodes[shot.tokens].usable for shot in shots)
        blind |= not nodes[shots[0].tokens].usable
        shots = [nodes[shot.tokens].extended(shot, source) for shot, source in zip(shots, sources, strict=True)]
    return Reconstructed(shots, single, unusable, blind)


def agreement(
    exact: Player, rounded: Player, rng: Rng, parameters: Parameters
) -> Generator[Request, Any, tuple[int, int]]:
    """How many tokens both sample alike on the way that the exact one takes, and how many there are.

    Both draw with the same random numbers.
    """
    seed = int(rng.integers(2**63))
    sources = (np.random.default_rng(seed), np.random.default_rng(seed))
    shot, alike = Shot((), (), ()), 0
    for _ in exact.proposals.positions:
        ahead = []
        for player, source in zip((exact, rounded), sources, strict=True):
            nodes = yield from nodes_after(player, [shot.tokens], parameters)
            ahead.append(nodes[shot.tokens].extended(shot, source))
        alike += ahead[0].tokens == ahead[1].tokens
        shot = ahead[0]
    return alike, len(exact.proposals.positions)
