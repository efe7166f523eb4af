"""Search for the completion of one canary, and the rank of the true one among all that could stand there.

The same for every kind of model: a `Scorer` gives the losses of completions, a `Start` begins a
search that cannot try all (`pages`, `decode_guided`). Completions are rows of candidate numbers, 0
to |V0| - 1, one for each unknown place. Nothing here knows whether a canary was inserted: the bound
on epsilon rests on that (methods/canaries.md#epsilon-from-one-run).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.measures import Outcome, Ranked
from audit.attacks.interface import ask, ask_all
from audit.corpus.canaries.pages import question_of, sheet_of
from audit.corpus.canaries.schema import PATTERNS, Canary
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.engine.interface import Request
from audit.stats.likelihood_ratio import exposure
from audit.targets.interface import (
    Answer,
    AnswerLoss,
    CandidateLogits,
    CompletionLoss,
    RelaxedLoss,
    Target,
)

QueryStyle = Literal["pages", "masks", "answers", "replies"]
Scorer = Callable[[Ints], Generator[Request, Any, Floats]]
"""The loss of completions, (n_completions, n_places) candidate numbers -> (n_completions,) nats,
lower is likelier."""
Start = Callable[[], Generator[Request, Any, tuple[Ints, Floats]]]
"""Some completions, (n_found, n_places), and their losses, (n_found,): one of each restart, or of
each beam."""

UNKNOWN = -1
"""In place of a reply without any word of a completion."""
CHUNK = 4096
"""Completions that are asked for at once: what many attempts hold in memory at a time stays
small."""


@dataclass(frozen=True)
class Effort:
    """Set how far a canary is searched.

    Attributes:
        limit: completions up to which every one is scored.
        n_references: fresh draws that the true completion is ranked among, beyond that.
    """

    limit: int
    n_references: int


@dataclass(frozen=True, eq=False)
class Secret:
    """Hold the completion that is searched for, by candidate numbers.

    Attributes:
        n_candidates: |V0|.
        truth: (n_places,) the true completion.
        others: (n_others, n_places) those of the other canaries of the set that are made of the
            same candidates.
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
    return (
        "answers"
        if AnswerLoss in target.answers
        else "replies"
        if Answer in target.answers
        else None
    )


def secret_of(
    truth: Sequence[str], others: Sequence[Sequence[str]], candidates: Sequence[str]
) -> Secret:
    """Convert completions to candidate numbers.

    Others that hold another word, or are of another length, drop out.

    Args:
        truth: all of `candidates`.
        others: the completions of the other canaries.
        candidates: V0.
    """
    numbers = {word: number for number, word in enumerate(candidates)}
    alike = [
        completion
        for completion in others
        if len(completion) == len(truth) and numbers.keys() >= {*completion}
    ]
    rows = [numbers[word] for word in chain.from_iterable(alike)]
    siblings = np.array(rows, np.int64).reshape(-1, len(truth))
    return Secret(len(candidates), np.array([numbers[word] for word in truth], np.int64), siblings)


def search(
    scorer: Scorer, start: Start, secret: Secret, effort: Effort, rng: Rng
) -> Generator[Request, Any, Outcome]:
    """Search for the likeliest completion and rank the true one.

    Among all, or by descent and among fresh draws.

    Args:
        scorer: scorer of the model.
        start: completion that descent begins with, beside the draws.
        secret: what is looked for.
        effort: effort of the search.
        rng: random generator of the draws, after what `start` draws.
    """
    n_places = len(secret.truth)
    # Logarithms: |V0| ** n_places may be beyond any array.
    if n_places * np.log(secret.n_candidates) <= np.log(effort.limit) + 1e-9:
        losses = yield from losses_of_all(scorer, secret.n_candidates, n_places)
        return _search_all(losses, secret)
    return (yield from _search_by_descent(scorer, start, secret, effort.n_references, rng))


def _search_all(losses: Floats, secret: Secret) -> Outcome:
    """Rank the true completion among the losses of all completions, and return the likeliest."""
    truth = index_of_completion(secret.truth, secret.n_candidates)
    is_reference = np.ones(losses.size, bool)
    is_reference[
        [index_of_completion(completion, secret.n_candidates) for completion in secret.others]
    ] = False
    is_reference[truth] = False
    best = int(losses.argmin())
    strongest = np.array(
        np.unravel_index(best, (secret.n_candidates,) * len(secret.truth)), np.int64
    )
    return _make_outcome(
        secret,
        strongest,
        float(losses[best]),
        float(losses[truth]),
        losses[is_reference],
        enumerated=True,
    )


def _search_by_descent(
    scorer: Scorer, start: Start, secret: Secret, n_references: int, rng: Rng
) -> Generator[Request, Any, Outcome]:
    """Rank the true completion among drawn ones, and find the likeliest by coordinate descent."""
    starts, first_losses = yield from start()
    drawn = rng.integers(secret.n_candidates, size=(n_references, len(secret.truth)))
    losses = yield from score_finite(scorer, drawn)
    (true_loss,) = yield from score_finite(scorer, secret.truth[None])
    best = np.concatenate([starts, drawn])[int(np.concatenate([first_losses, losses]).argmin())]
    strongest, lowest = yield from descend_from(scorer, secret.n_candidates, best)
    # Drawn completions that are another canary's.
    excluded = {tuple(row) for row in secret.others.tolist()}
    is_excluded = np.array([tuple(row) in excluded for row in drawn.tolist()], bool)
    return _make_outcome(
        secret, strongest, lowest, float(true_loss), losses[~is_excluded], enumerated=False
    )


def _make_outcome(
    secret: Secret,
    strongest: Ints,
    lowest: float,
    true_loss: float,
    references: Floats,
    *,
    enumerated: bool,
) -> Outcome:
    """Make the outcome of a search from its best completion and the losses of references."""
    if not np.isfinite(true_loss):
        return Outcome("no finite loss", secret.n_candidates)
    if np.array_equal(strongest, secret.truth):
        true_loss = lowest  # Rounding may differ between passes.
    ranked = None
    # Where another canary has this completion, references without those of canaries are no equals
    # of it.
    if references.size and not (secret.others == secret.truth).all(axis=1).any():
        found = exposure(-true_loss, -references, enumerated=enumerated)
        ranked = Ranked(found.rank, found.ties, references.size, found.bits, found.p_value)
    return Outcome(
        n_candidates=secret.n_candidates,
        strongest=tuple(strongest.tolist()),
        strongest_loss=lowest if np.isfinite(lowest) else None,
        true_loss=true_loss,
        enumerated=enumerated,
        ranked=ranked,
    )


def index_of_completion(completion: Ints, n_candidates: int) -> int:
    """Return the index of a completion in lexicographic order, from 0."""
    return int(np.ravel_multi_index(tuple(completion), (n_candidates,) * len(completion)))


def losses_of_all(
    scorer: Scorer, n_candidates: int, n_places: int
) -> Generator[Request, Any, Floats]:
    """Score every completion: (n_candidates ** n_places,), in lexicographic order."""
    n_completions = n_candidates**n_places
    results = []
    for start in range(0, n_completions, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, n_completions))
        places = np.stack(np.unravel_index(numbers, (n_candidates,) * n_places), axis=1).astype(
            np.int64
        )
        results.append((yield from score_finite(scorer, places)))
    return np.concatenate(results)


def descend_from(
    scorer: Scorer, n_candidates: int, start: Ints
) -> Generator[Request, Any, tuple[Ints, float]]:
    """Run coordinate descent: place by place the best candidate.

    It ends when no single change lowers the loss.

    Args:
        scorer: scorer of the model.
        n_candidates: |V0|.
        start: (n_places,) candidate numbers.

    Returns:
        The completion, (n_places,) candidate numbers, and its loss.
    """
    best = start.copy()
    (lowest,) = yield from score_finite(scorer, best[None])
    unchanged = 0
    place = 0
    # A loss may differ in its last bits between batches: no completion is ever taken up a second
    # time.
    seen = {tuple(best)}
    while unchanged < len(best):
        changes = np.repeat(best[None], n_candidates, axis=0)
        changes[:, place] = np.arange(n_candidates)
        losses = yield from score_finite(scorer, changes)
        choice = int(losses.argmin())
        if losses[choice] < losses[best[place]] and tuple(changes[choice]) not in seen:
            best = changes[choice]
            lowest = losses[choice]
            unchanged = 0
            seen.add(tuple(best))
        else:
            unchanged += 1
        place = (place + 1) % len(best)
    return best, float(lowest)


def score_finite(scorer: Scorer, numbers: Ints) -> Generator[Request, Any, Floats]:
    """Return the losses of completions, (n_completions,), infinite where they are not finite.

    A loss that is not finite becomes infinite, so that no search ever chooses it.
    """
    losses = yield from scorer(numbers)
    return np.where(np.isfinite(losses), losses, np.inf)


@dataclass(frozen=True)
class Asked:
    """Ask a model that answers the question about a canary, on its page with the completion left blank.

    Attributes:
        target: answers `AnswerLoss`.
        view: the page.
        question: about the canary.
        words: V0.
        n_places: words of the completion.
    """

    target: Target
    view: PageView
    question: str
    words: Sequence[str]
    n_places: int

    def losses(self, numbers: Ints, *, whole: bool = True) -> Generator[Request, Any, Floats]:
        """Compute minus the log-probability of each answer, (n_answers,), nats.

        Without `whole` by that of their beginning.
        """
        texts = [" ".join(map(self.words.__getitem__, row)) for row in numbers]
        answers = yield from ask_all(
            self.target, [AnswerLoss(self.view, self.question, text) for text in texts]
        )
        end = None if whole else -1
        return np.array([-answer[:end].sum() for answer in answers])

    def decode_guided(self, n_beams: int) -> Generator[Request, Any, tuple[Ints, Floats]]:
        """Decode the `n_beams` likeliest answers over `words`, left to right, with their losses.

        A `Start`.
        """
        words = np.arange(len(self.words))
        beams = np.zeros((1, 0), np.int64)
        losses = np.zeros(1)
        for place in range(self.n_places):
            grown = [np.repeat(beams, len(words), axis=0), np.tile(words, len(beams))[:, None]]
            beams = np.concatenate(grown, axis=1)
            beam_losses = yield from self.losses(beams, whole=place == self.n_places - 1)
            losses = np.where(np.isfinite(beam_losses), beam_losses, np.inf)
            order = np.argsort(losses, kind="stable")[:n_beams]
            beams = beams[order]
            losses = losses[order]
        return beams, losses


def ask_question(
    target: Target,
    corpus: Corpus,
    canary: Canary,
    others: Sequence[Canary],
    n_beams: int,
    effort: Effort,
    rng: Rng,
) -> Generator[Request, Any, Outcome]:
    """Try every answer, or descend from guided decoding over whole answers, and rank the true one.

    Args:
        target: answers `AnswerLoss`.
        corpus: holds the carriers' pages.
        canary: canary whose completion is looked for.
        others: the other canaries of the set.
        n_beams: beginnings that are kept from word to word.
        effort: effort of the search.
        rng: random generator of the draws.
    """
    words = PATTERNS[canary.pattern].candidates
    prompt = Asked(
        target, sheet_of(corpus, canary), question_of(canary), words, len(canary.completion)
    )
    secret = secret_of(canary.completion, [sibling.completion for sibling in others], words)
    return (
        yield from search(prompt.losses, lambda: prompt.decode_guided(n_beams), secret, effort, rng)
    )


def ask_reply(target: Target, corpus: Corpus, canary: Canary) -> Generator[Request, Any, Outcome]:
    """Ask a model that gives answers alone for the completion.

    Losses are 0 where it stands in the reply, else 1.

    Args:
        target: answers `Answer`.
        corpus: holds the carriers' pages.
        canary: canary whose completion is looked for.
    """
    words = PATTERNS[canary.pattern].candidates
    reply = yield from ask(target, Answer(sheet_of(corpus, canary), question_of(canary)))
    hit = fold("".join(canary.completion)) in "".join(filter(str.isalnum, fold(reply.text)))
    words_said = (
        canary.completion if hit else [word for word in reply.text.split() if word in words]
    )
    strongest = tuple(map(words.index, words_said)) or (UNKNOWN,)
    return Outcome(
        n_candidates=len(words), strongest=strongest, strongest_loss=0.0, true_loss=float(not hit)
    )
