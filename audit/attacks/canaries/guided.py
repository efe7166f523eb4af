"""Canaries asked of models that write answers: decoding over V0 alone, from left to right (methods.md#canaries)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.extraction import Effort, Scorer, Start, search, secret_of
from audit.attacks.canaries.outcomes import Outcome
from audit.attacks.interface import ask_all
from audit.case import Case
from audit.corpus.canaries.schema import PATTERNS, Canary, question_of, sheet_of
from audit.corpus.documents import Corpus
from audit.corpus.page_view import PageView
from audit.engine.interface import Request
from audit.targets.interface import AnswerLoss, Target


def ask_question(
    target: Target, corpus: Corpus, canary: Canary, others: Sequence[Canary], n_beams: int, effort: Effort, rng: Rng
) -> Generator[Request, Any, Outcome]:
    """Guided decoding, then every answer or descent over whole answers, and the rank of the true one.

    The question is put on the page with the canary's line, its completion left blank.

    Args:
        target: answers `AnswerLoss`.
        corpus: holds the carriers' pages.
        canary: whose completion is looked for.
        others: the other canaries of the set.
        n_beams: beginnings that are kept from word to word.
        effort: of what follows the decoding.
        rng: of the draws.
    """
    words = PATTERNS[canary.pattern].candidates
    if len(words) < 2:
        return Outcome("single")
    view, question = sheet_of(corpus, canary, None), question_of(canary)
    secret = secret_of(canary.completion, [other.completion for other in others], words)
    start = yield from decode_guided(target, view, question, words, len(canary.completion), n_beams)
    return (yield from search(answer_scorer(target, view, question, words), start, secret, effort, rng))


def decode_guided(
    target: Target, view: PageView, question: str, words: Sequence[str], n_places: int, n_beams: int
) -> Generator[Request, Any, Start]:
    """Decode over `words` alone, keeping the `n_beams` likeliest beginnings: of one beam, greedy decoding.

    Returns:
        The completions of the last beams, likeliest first; fewer where there are not so many.
    """
    beams = np.zeros((1, 0), np.int64)
    for place in range(n_places):
        last = place == n_places - 1
        beams = np.concatenate(
            [np.repeat(beams, len(words), axis=0), np.tile(np.arange(len(words)), len(beams))[:, None]], axis=1
        )
        losses = yield from _losses(target, view, question, words, beams, whole=last)
        kept = np.argsort(np.where(np.isfinite(losses), losses, np.inf), kind="stable")[:n_beams]
        beams, losses = beams[kept], losses[kept]
    return Start(beams, np.where(np.isfinite(losses), losses, np.inf))


def answer_scorer(target: Target, view: PageView, question: str, words: Sequence[str]) -> Scorer:
    """Scores completions by minus the log-probability of the answer that they are."""

    def losses(numbers: Ints) -> Generator[Request, Any, Floats]:
        return (yield from _losses(target, view, question, words, numbers, whole=True))

    return losses


def _losses(
    target: Target, view: PageView, question: str, words: Sequence[str], numbers: Ints, *, whole: bool
) -> Generator[Request, Any, Floats]:
    """Minus the log-probability of answers; without `whole` that of beginnings, the token that ends an answer apart."""
    texts = [" ".join(words[number] for number in row) for row in numbers]
    answers = yield from ask_all(target, [AnswerLoss(view, question, text) for text in texts])
    end = None if whole else -1
    return np.array([-answer[:end].sum() for answer in answers])


def sample_answers(
    case: Case, rounded: Target, canary: Canary, n: int, rng: Rng
) -> Generator[Request, Any, tuple[Floats, Floats]]:
    """The losses of `n` drawn answers by the target and by the same in a coarser number format: (n,) each."""
    words = PATTERNS[canary.pattern].candidates
    view, question = sheet_of(case.corpus, canary, None), question_of(canary)
    drawn = rng.integers(len(words), size=(n, len(canary.completion)))
    exact, coarse = (answer_scorer(target, view, question, words) for target in (case.target, rounded))
    return (yield from exact(drawn)), (yield from coarse(drawn))
