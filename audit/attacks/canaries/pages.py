"""Canaries asked of models that read pages as tokens.

NLU models, text and layout classifiers, masked models. Masked language models
(methods/canaries.md): the loss of a completion is minus its pseudo-log-likelihood; each of its
words is masked in turn and read from all others (Salazar, Liang, Nguyen & Kirchhoff 2020, "Masked
language model scoring"; as evidence of membership Mireshghallah, Goyal, Uniyal, Berg-Kirkpatrick &
Shokri 2022). Probabilities are among the candidates, for the attacker knows that no other word
stands there.

The relaxed attack (methods/canaries.md#canary-extraction): unknown tokens are mixtures of
candidates, changed by gradient descent (Parikh, Dupuy & Gupta 2022, "Canary extraction in natural
language understanding models", equations 1 to 3, appendix B).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.canaries.measures import Outcome
from audit.attacks.canaries.search import Effort, Scorer, score_finite, search, secret_of
from audit.attacks.interface import ask, ask_all
from audit.corpus.canaries.pages import page_of, positions_of
from audit.corpus.canaries.schema import PATTERNS, Canary
from audit.corpus.documents import Corpus
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    CandidateLogits,
    CompletionLoss,
    RelaxedLoss,
    Target,
    TokenTarget,
)


@dataclass(frozen=True, eq=False)
class Readable:
    """Hold the page of a canary as a target reads it, and the candidates that are one token there.

    Attributes:
        page: page with some candidate in every unknown place; white there, where the target sees
            the image.
        positions: positions of the unknown tokens.
        words: V0: the candidates that the model reads as one token each.
        ids: (n_words,) their token ids.
    """

    page: Encoding
    positions: tuple[int, ...]
    words: tuple[str, ...]
    ids: Ints


OPEN = -1
"""Candidate number of a place that is not filled yet."""
AT_ONCE = 512
"""Pages that an attempt asks for at once: each has its own tokens, and many attempts are in
flight."""


BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
"""Of Adam (Kingma & Ba 2015); the paper names no others."""


@dataclass(frozen=True)
class Inversion:
    """Ask a model with a training loss, by the relaxed attack.

    Settings of the paper (appendix B) where it gives them.

    Attributes:
        n_epochs: steps of Adam.
        learning_rate: learning rate of the first step.
        decay: what the learning rate is multiplied with after each step.
        temperature: temperature of the softmax, at the first step (equation 1).
        temperature_decay: what it is multiplied with after each step.
        n_restarts: starting points; the lowest loss of a discrete completion wins (METHODS).
        spread: standard deviation of the logits at the start (METHODS: large ones are saturated and
            find nothing).
        mix_characters: whether characters are mixed, see `RelaxedLoss.mix_characters`.
    """

    n_epochs: int = 250
    learning_rate: float = 6.5e-3
    decay: float = 0.995
    temperature: float = 0.1
    temperature_decay: float = 0.997
    n_restarts: int = 4
    spread: float = 0.01
    mix_characters: bool = True

    def scorer(self, target: Target, secret: Readable) -> Scorer:
        """Return a scorer of completions by the training loss of the canary's page."""
        return completion_scorer(target, secret.page, secret.positions, secret.ids)

    def start(
        self, target: Target, secret: Readable, rng: Rng
    ) -> Generator[Request, Any, tuple[Ints, Floats]]:
        """Find first completions and their losses by following gradients of the loss."""
        return invert(target, secret.page, secret.positions, secret.ids, self, rng)


def invert(
    target: Target,
    page: Encoding,
    positions: tuple[int, ...],
    candidates: Ints,
    settings: Inversion,
    rng: Rng,
) -> Generator[Request, Any, tuple[Ints, Floats]]:
    """Find the tokens that lower the training loss of a page most.

    It descends on mixtures of candidates.

    All restarts go side by side: at each step one `RelaxedLoss` for each, asked together. At the
    end the likeliest candidates of each restart are put in place, and the loss of that discrete
    completion decides.

    Args:
        target: answers `RelaxedLoss` and `CompletionLoss`.
        page: page as the target reads it, with its labels; what stands at `positions` does not
            matter.
        positions: positions of the unknown tokens.
        candidates: (n_candidates,) distinct token ids.
        settings: settings of the attack.
        rng: random generator of the starting points.

    Returns:
        Candidate numbers, (n_restarts, n_positions), and their losses, (n_restarts,) nats: infinite
        where the model gives no finite one.
    """
    shape = (settings.n_restarts, len(positions), len(candidates))
    logits = rng.normal(0.0, settings.spread, shape)
    adam = _Adam(shape)
    for step in range(settings.n_epochs):
        temperature = settings.temperature * settings.temperature_decay**step
        weights = softmax(logits / temperature)
        queries = [
            RelaxedLoss(page, positions, candidates, mixed, mix_characters=settings.mix_characters)
            for mixed in weights
        ]
        relaxed = yield from ask_all(target, queries)
        gradient = np.stack([answer.gradient for answer in relaxed])
        finite = np.isfinite(gradient).all(axis=(1, 2)) & np.isfinite(
            [answer.loss for answer in relaxed]
        )
        gradient = np.where(finite[:, None, None], gradient, 0.0)
        # Through the softmax, from the weights to the logits.
        downhill = (
            weights * (gradient - (weights * gradient).sum(axis=-1, keepdims=True)) / temperature
        )
        logits -= settings.learning_rate * settings.decay**step * adam.direction(downhill)
    numbers = logits.argmax(axis=2).astype(np.int64)
    losses = yield from score_finite(
        completion_scorer(target, page, positions, candidates), numbers
    )
    return numbers, losses


def completion_scorer(
    target: Target, page: Encoding, positions: tuple[int, ...], candidates: Ints
) -> Scorer:
    """Return a scorer of completions by the training loss of the page that they stand on.

    Arguments are those of `invert`.
    """

    def losses(numbers: Ints) -> Generator[Request, Any, Floats]:
        """Ask for the page's training loss with each completion: (n_completions,), nats."""
        return (yield from ask(target, CompletionLoss(page, positions, candidates[numbers])))

    return losses


def softmax(values: Floats) -> Floats:
    """Turn values into distributions over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float64)


class _Adam:
    """Optimise by Adam, several restarts side by side."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        """Start the moments at zero for parameters of `shape`: (restarts, places, candidates)."""
        self._mean, self._square, self._steps = np.zeros(shape), np.zeros(shape), 0

    def direction(self, gradient: Floats) -> Floats:
        """Return the step to subtract from the parameters at a learning rate of 1."""
        self._steps += 1
        self._mean = BETAS[0] * self._mean + (1 - BETAS[0]) * gradient
        self._square = BETAS[1] * self._square + (1 - BETAS[1]) * gradient**2
        mean = self._mean / (1 - BETAS[0] ** self._steps)
        square = self._square / (1 - BETAS[1] ** self._steps)
        return np.asarray(mean / (np.sqrt(square) + ADAM_EPSILON), np.float64)


@dataclass(frozen=True)
class ByMasks:
    """Ask a masked language model, by pseudo-log-likelihood.

    Attributes:
        n_restarts: orders in which places are filled.
    """

    n_restarts: int

    def scorer(self, target: Target, secret: Readable) -> Scorer:
        """Return a scorer of completions by minus their pseudo-log-likelihood, nats.

        A word is read once for all completions that are alike around it.
        """

        def losses(numbers: Ints) -> Generator[Request, Any, Floats]:
            """Sum minus log-probabilities of each masked word: (n_completions,), nats."""
            total = np.zeros(len(numbers))
            for place in range(numbers.shape[1]):
                gapped = numbers.copy()
                gapped[:, place] = OPEN
                distinct, row_of = np.unique(gapped, axis=0, return_inverse=True)
                chances = yield from _probabilities(
                    target, secret, distinct, np.full(len(distinct), place)
                )
                with np.errstate(divide="ignore"):
                    total -= np.log(chances[row_of.ravel(), numbers[:, place]])
            return total

        return losses

    def start(
        self, target: Target, secret: Readable, rng: Rng
    ) -> Generator[Request, Any, tuple[Ints, Floats]]:
        """Find first completions and their losses by filling masks, one word a step.

        Each is the likeliest given those already filled.

        As Ghazvininejad, Levy, Liu & Zettlemoyer (2019) decode, the surest place comes first; other
        restarts fill the places in random orders. No word is taken back: the search that follows
        does that.
        """
        filled_rows = np.full((self.n_restarts, len(secret.positions)), OPEN, np.int64)
        for _ in secret.positions:
            owners, places = np.nonzero(filled_rows == OPEN)
            chances = yield from _probabilities(target, secret, filled_rows[owners], places)
            for restart in range(self.n_restarts):
                rows = np.flatnonzero(owners == restart)
                row = rows[chances[rows].max(axis=1).argmax()] if restart == 0 else rng.choice(rows)
                filled_rows[restart, places[row]] = chances[row].argmax()
        return filled_rows, (yield from score_finite(self.scorer(target, secret), filled_rows))


Approach = Inversion | ByMasks
"""How a kind of model that reads tokens is asked."""


def ask_page(
    target: TokenTarget,
    corpus: Corpus,
    canary: Canary,
    others: Sequence[Canary],
    approach: Approach,
    effort: Effort,
    rng: Rng,
) -> Generator[Request, Any, Outcome]:
    """Rank the true completion of a canary among all.

    Every completion is tried, or descent begins at the best that the approach's search finds.

    Args:
        target: target that `approach` is for.
        corpus: holds the carriers' pages.
        canary: canary whose completion is looked for.
        others: the other canaries of the set.
        approach: how the model is asked.
        effort: effort of what follows the first search.
        rng: random generator of its starting points and of the draws.
    """
    readable = read_page(target, corpus, canary)
    if isinstance(readable, str):
        return Outcome(readable)
    secret = secret_of(
        canary.completion, [sibling.completion for sibling in others], readable.words
    )
    scorer = approach.scorer(target, readable)
    start = partial(approach.start, target, readable, rng)
    outcome = yield from search(scorer, start, secret, effort, rng)
    everything = PATTERNS[canary.pattern].candidates
    strongest = tuple(everything.index(readable.words[number]) for number in outcome.strongest)
    return replace(
        outcome, strongest=strongest, n_unnamed=_count_unknown_words(target, corpus, canary)
    )


def _count_unknown_words(target: TokenTarget, corpus: Corpus, canary: Canary) -> int:
    """Count words of the prefix that are unknown tokens to the model.

    It cannot tell this canary from another.
    """
    document = page_of(corpus, canary, canary.completion)
    completion = positions_of(canary, document)
    page = target.encode(document, around=completion)
    assert page is not None, "it was read before"
    first = completion[0]
    prefix = [page.positions_of([word]) for word in range(first - len(canary.prefix), first)]
    return sum(page.unknown_id in page.ids[list(positions)] for positions in prefix)


def read_page(target: TokenTarget, corpus: Corpus, canary: Canary) -> Readable | str:
    """Read the canary's page, or return a key of `REASONS`: why it cannot be asked for.

    A candidate that is not one token wherever it stands ("split"), that the vocabulary lacks
    ("unknown"), or with which the model cannot read the page ("unread") is left out; two candidates
    with the same token are one.
    """
    pages, refused = _candidate_pages(target, corpus, canary)
    for word in canary.completion:
        if word in refused:
            return refused[word]
    ids = {word: int(page.ids[positions[0]]) for word, (page, positions) in pages.items()}
    if len(set(ids.values())) < 2:
        return "single"
    completion = set(canary.completion)
    if len({ids[word] for word in completion}) < len(completion):
        return "alike"
    words = _distinct_words(ids, canary.completion)
    page, positions = pages[words[0]]
    if page.page_image is not None:
        page = page.scrubbed(positions)
    return Readable(page, positions, words, np.array([ids[word] for word in words], np.int64))


def _candidate_pages(
    target: TokenTarget, corpus: Corpus, canary: Canary
) -> tuple[dict[str, tuple[Encoding, tuple[int, ...]]], dict[str, str]]:
    """Return by candidate its page and its tokens' positions, and why others are not asked for."""
    pages: dict[str, tuple[Encoding, tuple[int, ...]]] = {}
    refused: dict[str, str] = {}
    for word in PATTERNS[canary.pattern].candidates:
        candidate = _candidate_page(target, corpus, canary, word)
        if isinstance(candidate, str):
            refused[word] = candidate
        else:
            pages[word] = candidate
    return pages, refused


def _distinct_words(ids: Mapping[str, int], completion: Sequence[str]) -> tuple[str, ...]:
    """Choose one word for each token, in the pattern's order.

    Where several words have the same token, it is that of the completion, else the first.

    Args:
        ids: token of each word, in the pattern's order.
        completion: words of the canary's completion.
    """
    chosen: dict[int, str] = {}
    for word, token in ids.items():
        chosen.setdefault(token, word)
    for word in completion:
        chosen[ids[word]] = word
    return tuple(word for word, token in ids.items() if chosen[token] == word)


def _candidate_page(
    target: TokenTarget, corpus: Corpus, canary: Canary, word: str
) -> tuple[Encoding, tuple[int, ...]] | str:
    """Encode the canary's page with a word in every place of its completion.

    Return the page and the places' tokens, or a key of `REASONS`.

    A masked language model reads every page; others need a training loss on it.
    """
    document = page_of(corpus, canary, [word] * len(canary.completion))
    words = positions_of(canary, document)
    page = target.encode(document, around=words)
    if page is None or not (page.has_loss or CandidateLogits in target.answers):
        return "unread"
    positions = page.positions_of(words)
    tokens = set(page.ids[list(positions)].tolist())
    if len(positions) != len(words) or len(tokens) != 1:
        return "split"
    return "unknown" if page.unknown_id in tokens else (page, positions)


def _probabilities(
    target: Target, secret: Readable, numbers: Ints, places: Ints
) -> Generator[Request, Any, Floats]:
    """Ask for the probability of each candidate at one place of each of several completions.

    The shape is (n_rows, n_candidates).

    Args:
        target: answers `CandidateLogits`.
        secret: what is looked for.
        numbers: (n_rows, n_places) candidate numbers, `OPEN` where a mask stands.
        places: (n_rows,) the place that is read, which is open.
    """
    logits: list[Floats] = []
    for first in range(0, len(numbers), AT_ONCE):
        rows = numbers[first : first + AT_ONCE]
        filled = np.where(rows == OPEN, secret.page.mask_id, secret.ids[rows]).tolist()
        queries = [
            CandidateLogits(
                secret.page.with_tokens(secret.positions, tokens),
                secret.positions[place],
                secret.ids,
            )
            for tokens, place in zip(filled, places[first : first + AT_ONCE], strict=True)
        ]
        logits += yield from ask_all(target, queries)
    return softmax(np.stack(logits))
