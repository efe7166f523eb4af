"""One canary: what the attacker finds, and the rank of the true completion among all that could have stood there.

The same for every kind of model; `pages` and `decode_guided` score completions and begin the search. Completions are
rows of candidate numbers, 0 to |V0| - 1, one for each unknown place; the search is exhaustive, or by descent.
Nothing here knows whether a canary was inserted: the bound on epsilon rests on that (methods.md#epsilon-from-one-run).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.outcomes import Outcome, Ranked
from audit.engine.interface import Request
from audit.stats.likelihood_ratio import exposure
from audit.targets.interface import AnswerLoss, CandidateLogits, CompletionLoss, RelaxedLoss, Target

QueryStyle = Literal["pages", "masks", "answers"]
Scorer = Callable[[Ints], Generator[Request, Any, Floats]]
"""The loss of completions, (n_completions, n_places) candidate numbers -> (n_completions,) nats, lower is likelier."""

CHUNK = 4096
"""Completions that are asked for at once (ours): what many attempts hold in memory at a time stays small."""


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


def query_style(target: Target) -> QueryStyle | None:
    """Return the style in which canaries are asked of a target; None: they cannot be."""
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


def search(scorer: Scorer, start: Start, secret: Secret, effort: Effort, rng: Rng) -> Generator[Request, Any, Outcome]:
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
    truth = index_of_completion(secret.truth, secret.n_candidates)
    kept = np.ones(losses.size, bool)
    kept[[index_of_completion(other, secret.n_candidates) for other in secret.others]] = False
    kept[truth] = False
    best = int(losses.argmin())
    strongest = np.array(np.unravel_index(best, (secret.n_candidates,) * len(secret.truth)), np.int64)
    # Compared within one pass: rounding may differ between passes.
    found = losses[index_of_completion(_optimiser(start), secret.n_candidates)]
    reached = bool(found <= losses[best])
    return _outcome(start, secret, strongest, float(losses[best]), float(losses[truth]), losses[kept], reached)


def _of_draws(
    scorer: Scorer, start: Start, secret: Secret, n_references: int, rng: Rng
) -> Generator[Request, Any, Outcome]:
    drawn = rng.integers(secret.n_candidates, size=(n_references, len(secret.truth)))
    losses = yield from score_finite(scorer, drawn)
    (true_loss,) = yield from score_finite(scorer, secret.truth[None])
    begun = np.concatenate([start.completions, drawn])
    best = begun[int(np.concatenate([start.losses, losses]).argmin())]
    strongest, lowest = yield from descend_from(scorer, secret.n_candidates, best)
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


def completion_numbers(start: int, stop: int, n_candidates: int, n_places: int) -> Ints:
    """The completions of these places in lexicographic order: (stop - start, n_places) candidate numbers."""
    places = np.unravel_index(np.arange(start, stop), (n_candidates,) * n_places)
    return np.stack(places, axis=1).astype(np.int64)


def index_of_completion(completion: Ints, n_candidates: int) -> int:
    """Return the index of a completion in lexicographic order, from 0."""
    return int(np.ravel_multi_index(tuple(completion), (n_candidates,) * len(completion)))


def losses_of_all(scorer: Scorer, n_candidates: int, n_places: int) -> Generator[Request, Any, Floats]:
    """The loss of every completion: (n_candidates ** n_places,), in lexicographic order."""
    n_completions = n_candidates**n_places
    found = []
    for start in range(0, n_completions, CHUNK):
        numbers = completion_numbers(start, min(start + CHUNK, n_completions), n_candidates, n_places)
        found.append((yield from score_finite(scorer, numbers)))
    return np.concatenate(found)


def descend_from(scorer: Scorer, n_candidates: int, start: Ints) -> Generator[Request, Any, tuple[Ints, float]]:
    """Coordinate descent: place by place the best candidate, until no single change lowers the loss.

    Args:
        scorer: of the model.
        n_candidates: |V0|.
        start: (n_places,) candidate numbers.

    Returns:
        The completion, (n_places,) candidate numbers, and its loss.
    """
    best = start.copy()
    (lowest,) = yield from score_finite(scorer, best[None])
    unchanged, place = 0, 0
    # A loss may differ in its last bits between batches: no completion is ever taken up a second time.
    seen = {tuple(best)}
    while unchanged < len(best):
        changes = np.repeat(best[None], n_candidates, axis=0)
        changes[:, place] = np.arange(n_candidates)
        losses = yield from score_finite(scorer, changes)
        choice = int(losses.argmin())
        if losses[choice] < losses[best[place]] and tuple(changes[choice]) not in seen:
            best, lowest, unchanged = changes[choice], losses[choice], 0
            seen.add(tuple(best))
        else:
            unchanged += 1
        place = (place + 1) % len(best)
    return best, float(lowest)


def score_finite(scorer: Scorer, numbers: Ints) -> Generator[Request, Any, Floats]:
    """The losses of completions; one that is no number is infinite, so that no search ever chooses it."""
    losses = yield from scorer(numbers)
    return np.where(np.isfinite(losses), losses, np.inf)
