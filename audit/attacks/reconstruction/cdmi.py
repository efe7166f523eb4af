"""Algorithm 2 of the paper: from a scrubbed page to attempts at its field, token by token."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats
from audit.attacks.interface import ask_all
from audit.attacks.measuring import memory_of
from audit.attacks.reconstruction.methods import Node, PrefixKnowledge, Rule, Shot
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import CandidateLogits, Candidates, FillMask, Target, TrainingLoss

Prefix = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Proposals:
    """Steps 1 of one field: attempts, attack and baseline share what follows a prefix.

    See methods/reconstruction.md.

    Attributes:
        proposer: a target with a masked-language-model head.
        page: the page, its field scrubbed.
        positions: positions of the field's tokens, left to right.
        n_candidates: N_c.
    """

    proposer: Target
    page: Encoding
    positions: tuple[int, ...]
    n_candidates: int
    _known: dict[Prefix, Candidates] = field(default_factory=dict)

    def page_after(self, prefix: Prefix) -> Encoding:
        """Return the page with the field's first tokens in place.

        Those not yet reached stay [MASK].
        """
        return self.page.with_tokens(self.positions[: len(prefix)], prefix)

    def after(self, prefixes: Sequence[Prefix]) -> Generator[Request, Any, list[Candidates]]:
        """Ask for the candidates of the token that follows each prefix."""
        unknown = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self._known]
        places = [(self.page_after(prefix), self.positions[len(prefix)]) for prefix in unknown]
        answers = yield from ask_all(
            self.proposer, [FillMask(*place, self.n_candidates) for place in places]
        )
        self._known.update(zip(unknown, answers, strict=True))
        return [self._known[prefix] for prefix in prefixes]


@dataclass(frozen=True, eq=False)
class Alone:
    """The proposer decides alone: the baseline, with the public model (section 5.2)."""

    proposals: Proposals

    def knowledge(
        self, prefixes: Sequence[Prefix]
    ) -> Generator[Request, Any, list[PrefixKnowledge]]:
        """Return the candidates after each prefix with their logits, and no losses."""
        proposed = yield from self.proposals.after(prefixes)
        return [PrefixKnowledge(candidates.ids, candidates.logits) for candidates in proposed]


@dataclass(frozen=True, eq=False)
class JudgedCandidates:
    """Step 2: the public model proposes, and the target judges.

    The target's training loss is read with every candidate, once a prefix.
    """

    query: ClassVar[type[TrainingLoss] | type[CandidateLogits]] = TrainingLoss
    answer: ClassVar[str] = "losses"
    proposals: Proposals
    target: Target
    _answers: dict[Prefix, Floats] = field(default_factory=dict)

    def knowledge(
        self, prefixes: Sequence[Prefix]
    ) -> Generator[Request, Any, list[PrefixKnowledge]]:
        """Return the candidates after each prefix with their logits and the target's answers."""
        proposed = dict(zip(prefixes, (yield from self.proposals.after(prefixes)), strict=True))
        new = {
            prefix: candidates
            for prefix, candidates in proposed.items()
            if prefix not in self._answers
        }
        self._answers.update(zip(new, (yield from self._asked(new)), strict=True))
        knowledge = []
        for prefix in prefixes:
            candidates = proposed[prefix]
            answer = {self.answer: self._answers[prefix]}
            knowledge.append(PrefixKnowledge(candidates.ids, candidates.logits, **answer))
        return knowledge

    def read_at(self, prefix: Prefix) -> Floats:
        """Return the target's losses of the candidates after a prefix.

        If it was not asked about, after the first other prefix of its length.
        """
        if prefix in self._answers:
            return self._answers[prefix]
        alike = [answered for answered in self._answers if len(answered) == len(prefix)]
        return self._answers[min(alike)]

    def _asked(
        self, candidates: Mapping[Prefix, Candidates]
    ) -> Generator[Request, Any, list[Floats]]:
        """Ask the target for its losses of the candidates that follow each prefix."""
        queries = []
        for prefix, proposed in candidates.items():
            page = self.proposals.page_after(prefix)
            position = self.proposals.positions[len(prefix)]
            queries.append(self.query(page, position, proposed.ids))
        return ask_all(self.target, queries)


class MaskedModel(JudgedCandidates):
    """A masked language model under attack proposes and decides alone (section 4.3).

    Its `target` is the public model, which only says how likely the candidates are to it, for the
    membership scores.
    """

    query = CandidateLogits
    answer = "public"


@dataclass(frozen=True, eq=False)
class PlantedMemory:
    """The real target with a memory of known strength: the attack's positive control.

    The true token is made likelier than the real target has it by `memory_of` the losses, or where
    a masked language model decides, of the logits. The target is asked
    nothing more: where no attempt took the true tokens before this one, the losses that another
    attempt met at the same position stand in, both in the public model's order. A truth that is no
    candidate cannot be planted.

    Attributes:
        attacker: the real attacker after its attempts.
        truth: the field's tokens.
    """

    attacker: JudgedCandidates
    truth: Prefix

    @property
    def proposals(self) -> Proposals:
        """Return the source of its candidates (step 1)."""
        return self.attacker.proposals

    def knowledge(
        self, prefixes: Sequence[Prefix]
    ) -> Generator[Request, Any, list[PrefixKnowledge]]:
        """Return what is known after each prefix when the true candidate is remembered."""
        candidates = yield from self.proposals.after(prefixes)
        return [self._planted(*pair) for pair in zip(candidates, prefixes, strict=True)]

    def _planted(self, candidates: Candidates, prefix: Prefix) -> PrefixKnowledge:
        """Return what is known of the candidates after a prefix, the true one remembered."""
        ids = candidates.ids
        logits = candidates.logits
        true = ids == self.truth[len(prefix)]
        if isinstance(self.attacker, MaskedModel):
            return PrefixKnowledge(ids, logits + true * memory_of(logits))
        losses = self.attacker.read_at(prefix)
        return PrefixKnowledge(ids, logits, np.maximum(losses - true * memory_of(losses), 0.0))


Player = Alone | JudgedCandidates | PlantedMemory
"""Whoever reconstructs."""


def nodes_after(
    player: Player, rule: Rule, prefixes: Sequence[Prefix]
) -> Generator[Request, Any, dict[Prefix, Node]]:
    """Return, by prefix, the distribution of its next token (one step of algorithm 2)."""
    knowledge = yield from player.knowledge(prefixes)
    nodes = zip(prefixes, knowledge, strict=True)
    return {prefix: rule.node(candidates, len(prefix)) for prefix, candidates in nodes}


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


def reconstruct(
    player: Player, rule: Rule, n_attempts: int, rng: Rng
) -> Generator[Request, Any, Reconstructed]:
    """Run all attempts side by side: those that share a prefix share its candidates and losses.

    What a candidate is worth depends on the prefix only, so this changes nothing but the work
    (methods/reconstruction.md). Each
    attempt draws from a source of its own: the first one is the same whatever their number.
    """
    sources = rng.spawn(n_attempts)
    shots = [Shot((), (), ())] * n_attempts
    single = unusable = 0
    blind = False
    for _ in player.proposals.positions:
        nodes = yield from nodes_after(player, rule, sorted({shot.tokens for shot in shots}))
        single += sum(len(nodes[shot.tokens].kept) == 1 for shot in shots)
        unusable += sum(not nodes[shot.tokens].usable for shot in shots)
        blind |= not nodes[shots[0].tokens].usable
        shots = [
            nodes[shot.tokens].extended(shot, source)
            for shot, source in zip(shots, sources, strict=True)
        ]
    return Reconstructed(shots, single, unusable, blind)


def reaches(proposals: Proposals, truth: Prefix) -> Generator[Request, Any, bool]:
    """Tell whether every true token is among the candidates after the true ones before it.

    See methods/reconstruction.md.
    """
    for step, token in enumerate(truth):
        (candidates,) = yield from proposals.after([truth[:step]])
        if token not in candidates.ids:
            return False
    return True


def rebuilds(planted: PlantedMemory, rule: Rule, rng: Rng) -> Generator[Request, Any, bool]:
    """Tell whether one attempt with a planted memory gives the whole field.

    It ends at the first wrong token, so true prefixes suffice.
    """
    shot = Shot((), (), ())
    for step in range(len(planted.truth)):
        nodes = yield from nodes_after(planted, rule, [shot.tokens])
        shot = nodes[shot.tokens].extended(shot, rng)
        if shot.tokens[step] != planted.truth[step]:
            return False
    return True
