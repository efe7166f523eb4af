"""Canaries asked of models that write answers: decoding over V0 alone, from left to right (methods.md#canaries)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.extraction import Effort, Scorer, Secret, Start, search, secret_of
from audit.attacks.canaries.outcomes import Outcome
from audit.attacks.interface import ask_all
from audit.case import Case
from audit.corpus.canaries.schema import PATTERNS, Canary, question_of, sheet_of
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.page_view import PageView
from audit.engine.interface import Request
from audit.targets.interface import Answer, AnswerLoss, Target


def ask_question(
    target: Target,
    corpus: Corpus,
    canary: Canary,
    others: Sequence[Canary],
    n_beams: int,
    effort: Effort,
    n_decoys: int,
    rng: Rng,
) -> Generator[Request, Any, Outcome]:
    """Guided decoding, then every answer or descent over whole answers, and the rank of the true one.

    The question is put on the page with the canary's line, its completion left blank; and, where training saw the
    completion there, beside decoys (`ask_beside_decoys`).

    Args:
        target: answers `AnswerLoss`.
        corpus: holds the carriers' pages.
        canary: whose completion is looked for.
        others: the other canaries of the set.
        n_beams: beginnings that are kept from word to word.
        effort: of what follows the decoding.
        n_decoys: pages with a decoy.
        rng: of the draws.
    """
    words = PATTERNS[canary.pattern].candidates
    if len(words) < 2:
        return Outcome("single")
    view, question = sheet_of(corpus, canary, None), question_of(canary)
    secret = secret_of(canary.completion, [other.completion for other in others], words)
    start = yield from decode_guided(target, view, question, words, len(canary.completion), n_beams)
    found = yield from search(answer_scorer(target, view, question, words), start, secret, effort, rng)
    if found.left_out is not None or not canary.printed or Answer not in target.answers:
        return found
    return replace(found, beside_decoys=(yield from ask_beside_decoys(target, corpus, canary, secret, n_decoys, rng)))


def ask_beside_decoys(
    target: Target, corpus: Corpus, canary: Canary, secret: Secret, n_decoys: int, rng: Rng
) -> Generator[Request, Any, tuple[int, ...]]:
    """Put other completions on the page and take the most frequent completion that is answered and not printed.

    A model that remembers a page as a whole may know it again only where something stands (ours). No decoy is the true
    completion or has more than half of its words in their places.

    Args:
        target: answers `Answer`.
        corpus: holds the carriers' pages.
        canary: whose completion is looked for; training pages print it.
        secret: the same by candidate numbers.
        n_decoys: pages, at most.
        rng: of the decoys.

    Returns:
        Candidate numbers; empty where no answer is another completion.
    """
    words = PATTERNS[canary.pattern].candidates
    drawn = rng.integers(secret.n_candidates, size=(n_decoys, len(secret.truth)))
    decoys = [
        [words[number] for number in row] for row in drawn[2 * (drawn == secret.truth).sum(axis=1) <= drawn.shape[1]]
    ]
    question = question_of(canary)
    replies = yield from ask_all(target, [Answer(sheet_of(corpus, canary, decoy), question) for decoy in decoys])
    number_of = {fold(word): number for number, word in enumerate(words)}
    a_word = re.compile("|".join(map(re.escape, sorted(number_of, key=len, reverse=True))))
    found: Counter[tuple[int, ...]] = Counter()
    for reply, decoy in zip(replies, decoys, strict=True):
        text = fold(reply.text)
        answer = a_word.findall(text)
        if len(answer) == len(decoy) and "".join(answer) == text != fold("".join(decoy)):
            found[tuple(number_of[word] for word in answer)] += 1
    return found.most_common(1)[0][0] if found else ()


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
