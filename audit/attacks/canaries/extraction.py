"""One canary: what the attacker finds, and where the true completion stands among all that could have stood there.

The same for every kind of model; `pages`, `masked` and `guided` say how completions are scored and where the search
begins.
Nothing here knows whether a canary was inserted: the bound on epsilon rests on that (methods.md#epsilon-from-one-run).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator as Rng
from pydantic import ConfigDict, TypeAdapter

from audit.arrays import Floats, Ints
from audit.attacks.canaries.search import Scorer, descended, losses_of_all, place_of, scored
from audit.engine.interface import Json, Request
from audit.measurements import STRICT
from audit.stats.exposure import exposure
from audit.targets.interface import AnswerLoss, CandidateLogits, CompletionLoss, RelaxedLoss, Target

QueryStyle = Literal["pages", "masks", "answers"]
REASONS = {
    "split": "canaries whose completion holds a word that is not one token of the model, the same in every place",
    "unknown": "canaries whose completion holds a word that the model's vocabulary lacks",
    "unread": (
        "canaries that the model cannot read in one piece: a page too long, words without tokens, or a page without a "
        "loss, for the model lacks its intent or tags"
    ),
    "alike": "canaries whose completion holds two words that are one token of the model",
    "single": "canaries for which the model knows fewer than two candidates: there is nothing to guess",
    "no finite loss": "canaries for whose true completion the model's loss is no finite number",
}
"""Why a canary cannot be asked for, in words."""


@dataclass(frozen=True, eq=False)
class Start:
    """What the optimiser found, before any exhaustive search.

    Attributes:
        completions: (n_found, n_places) candidate numbers: one of each restart, or of each beam.
        losses: (n_found,) nats.
        n_stalled: steps that could not be taken.
    """

    completions: Ints
    losses: Floats
    n_stalled: int = 0


@dataclass(frozen=True)
class Ranked:
    """Where the true completion stands among the references behind the same prefix.

    Attributes:
        rank: 1 + the references that are at least as likely.
        ties: references that are exactly as likely.
        n_references: without the completions of the other canaries of the set, whichever were inserted.
        bits: of exposure (`audit.stats.exposure`).
        p_value: of no memory.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    rank: int
    ties: int
    n_references: int
    bits: float
    p_value: float


@dataclass(frozen=True)
class Outcome:
    """What came of one canary; completions are numbers of the pattern's candidates, all of them.

    Attributes:
        left_out: why it could not be asked for, a key of `REASONS`; None when it was. Then all below is empty.
        n_candidates: |V0|, of those that the model reads as one token each.
        n_split, n_unknown: candidates left out, for they are split, or unknown.
        optimiser: the best completion of the optimiser alone.
        optimiser_loss: its loss, nats; None where it is not finite.
        n_distinct: different completions among those of the restarts, or beams.
        n_found: restarts, or beams.
        n_stalled: steps of the optimiser that could not be taken.
        strongest: the completion with the lowest loss of all that the attacker scored.
        strongest_loss: likewise.
        true_loss: of the true completion.
        enumerated: whether every completion was scored.
        reached: whether the optimiser found the exact minimum; None where it is not known.
        ranked: None where no reference is left, or another canary has the same completion.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    left_out: str | None = None
    n_candidates: int = 0
    n_split: int = 0
    n_unknown: int = 0
    optimiser: tuple[int, ...] = ()
    optimiser_loss: float | None = None
    n_distinct: int = 0
    n_found: int = 0
    n_stalled: int = 0
    strongest: tuple[int, ...] = ()
    strongest_loss: float | None = None
    true_loss: float | None = None
    enumerated: bool = False
    reached: bool | None = None
    ranked: Ranked | None = None

    def in_words_of(self, words: Sequence[str], everything: Sequence[str]) -> Outcome:
        """This outcome, whose completions are numbers of `words`, with them as numbers of `everything`."""
        places = [everything.index(word) for word in words]
        optimiser, strongest = (tuple(places[number] for number in found) for found in (self.optimiser, self.strongest))
        return replace(self, optimiser=optimiser, strongest=strongest)

    @property
    def missed(self) -> bool:
        """Whether the search missed: the true completion is likelier than what it found."""
        return self.true_loss is not None and (self.strongest_loss is None or self.true_loss < self.strongest_loss)

    def as_json(self) -> Json:
        """For the journal."""
        return asdict(self)

    @property
    def coherent(self) -> bool:
        """Whether it is what an attempt returns: a canary that was left out for a known reason, or one that was not."""
        if self.left_out is not None:
            found = self.optimiser or self.strongest or self.ranked is not None or self.true_loss is not None
            return self.left_out in REASONS and not found
        return self.n_candidates >= 2 and 0 < len(self.optimiser) == len(self.strongest) and self.true_loss is not None


_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


def read_outcome(content: Json) -> Outcome:
    """The outcome that a journal holds.

    Raises:
        ValueError: it is no outcome of a canary: what is missing or damaged must never be read as left out.
    """
    text = json.dumps(content)
    outcome = _OUTCOME.validate_json(text, strict=True)
    if not outcome.coherent or json.loads(json.dumps(outcome.as_json())) != json.loads(text):
        raise ValueError("the outcome of a canary is damaged")
    return outcome


@dataclass(frozen=True)
class Effort:
    """How far a canary is searched.

    Attributes:
        limit: completions up to which every one is scored.
        n_references: fresh draws that the true completion is ranked among, beyond that.
    """

    limit: int
    n_references: int


@dataclass(frozen=True, eq=False)
class Secret:
    """What is looked for, by candidate numbers.

    Attributes:
        n_candidates: |V0|.
        truth: (n_places,) the true completion.
        others: (n_others, n_places) those of the other canaries of the set that are made of the same candidates.
    """

    n_candidates: int
    truth: Ints
    others: Ints


def kind_of(target: Target) -> QueryStyle | None:
    """How canaries are asked of a target; None: they cannot be."""
    if {RelaxedLoss, CompletionLoss} <= target.answers:
        return "pages"
    if CandidateLogits in target.answers:
        return "masks"
    return "answers" if AnswerLoss in target.answers else None


def secret_of(truth: Sequence[str], others: Sequence[Sequence[str]], candidates: Sequence[str]) -> Secret:
    """The secret in candidate numbers; other completions that hold another word, or are of another length, drop out.

    Args:
        truth: all of `candidates`.
        others: the completions of the other canaries.
        candidates: V0.
    """
    numbers = {word: number for number, word in enumerate(candidates)}
    alike = [
        [numbers[word] for word in other]
        for other in others
        if len(other) == len(truth) and all(word in numbers for word in other)
    ]
    rows = np.array(alike, np.int64).reshape(-1, len(truth))
    return Secret(len(candidates), np.array([numbers[word] for word in truth], np.int64), rows)


def searched(
    scorer: Scorer, start: Start, secret: Secret, effort: Effort, rng: Rng
) -> Generator[Request, Any, Outcome]:
    """The strongest attack and the rank of the truth: of all completions, or by descent and among fresh draws.

    Args:
        scorer: of the model.
        start: what the optimiser found.
        secret: what is looked for.
        effort: how far.
        rng: of the draws.
    """
    n_places = len(secret.truth)
    # Logarithms: |V0| ** n_places may be beyond any array.
    if n_places * np.log(secret.n_candidates) <= np.log(effort.limit) + 1e-9:
        losses = yield from losses_of_all(scorer, secret.n_candidates, n_places)
        return _of_all(losses, start, secret)
    return (yield from _of_draws(scorer, start, secret, effort.n_references, rng))


def _of_all(losses: Floats, start: Start, secret: Secret) -> Outcome:
    truth = place_of(secret.truth, secret.n_candidates)
    kept = np.ones(losses.size, bool)
    kept[[place_of(other, secret.n_candidates) for other in secret.others]] = False
    kept[truth] = False
    best = int(losses.argmin())
    strongest = np.array(np.unravel_index(best, (secret.n_candidates,) * len(secret.truth)), np.int64)
    # Compared within one pass: rounding may differ between passes.
    found = losses[place_of(_optimiser(start), secret.n_candidates)]
    reached = bool(found <= losses[best])
    return _outcome(start, secret, strongest, float(losses[best]), float(losses[truth]), losses[kept], reached)


def _of_draws(
    scorer: Scorer, start: Start, secret: Secret, n_references: int, rng: Rng
) -> Generator[Request, Any, Outcome]:
    drawn = rng.integers(secret.n_candidates, size=(n_references, len(secret.truth)))
    losses = yield from scored(scorer, drawn)
    (true_loss,) = yield from scored(scorer, secret.truth[None])
    begun = np.concatenate([start.completions, drawn])
    best = begun[int(np.concatenate([start.losses, losses]).argmin())]
    strongest, lowest = yield from descended(scorer, secret.n_candidates, best)
    # Drawn completions that are another canary's.
    known = {tuple(row) for row in secret.others.tolist()}
    others = np.array([tuple(row) in known for row in drawn.tolist()], bool)
    return _outcome(start, secret, strongest, lowest, float(true_loss), losses[~others], None)


def _optimiser(start: Start) -> Ints:
    best: Ints = start.completions[int(start.losses.argmin())]
    return best


def _outcome(
    start: Start,
    secret: Secret,
    strongest: Ints,
    lowest: float,
    true_loss: float,
    references: Floats,
    reached: bool | None,
) -> Outcome:
    if not np.isfinite(true_loss):
        return Outcome("no finite loss", secret.n_candidates)
    if np.array_equal(strongest, secret.truth):
        true_loss = lowest  # Rounding may differ between passes.
    if (secret.others == secret.truth).all(axis=1).any():
        # Another canary has this completion: references without those of canaries are no equals of it.
        references = references[:0]
    return Outcome(
        n_candidates=secret.n_candidates,
        optimiser=_numbers(_optimiser(start)),
        optimiser_loss=_finite(float(start.losses.min())),
        n_distinct=len(np.unique(start.completions, axis=0)),
        n_found=len(start.completions),
        n_stalled=start.n_stalled,
        strongest=_numbers(strongest),
        strongest_loss=_finite(lowest),
        true_loss=true_loss,
        enumerated=reached is not None,
        reached=reached,
        ranked=_ranked(true_loss, references, reached is not None),
    )


def _ranked(true_loss: float, references: Floats, enumerated: bool) -> Ranked | None:
    if not references.size:
        return None
    found = exposure(-true_loss, -references, enumerated=enumerated)
    return Ranked(found.rank, found.ties, references.size, found.bits, found.p_value)


def _numbers(completion: Ints) -> tuple[int, ...]:
    return tuple(int(number) for number in completion)


def _finite(loss: float) -> float | None:
    return loss if np.isfinite(loss) else None
