"""What can be asked of a checkpoint: queries, numpy in and numpy out, and the one method that answers them.

A new attack may add a query type, never a method. Batching, windows, dtype and device stay behind `ask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Floats, Ints
from audit.corpus.documents import Document
from audit.corpus.page_view import PageView
from audit.record import TargetCard

A = TypeVar("A", covariant=True)

NOT_READ = -100
"""Label of a token that the training loss does not read (PyTorch's `ignore_index`)."""
NO_LINK = -1
"""Link of a token that has no predecessor, or no parent."""
WHITE = 255


Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class PixelScale:
    """How a model takes pixels: value = (pixel * factor - mean) / std, with a mean and a std for each of R, G and B."""

    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)


@dataclass(frozen=True, eq=False)
class PageImage:
    """A page's image as a target reads it: the whole page, resized, RGB.

    Two pictures are the same only when they are one object: what is computed from a picture is kept for as long as the
    picture lives. The image is opened when its pixels are first asked for: listing fields opens none.

    Attributes:
        open_page: gives the page without patches: (3, height, width), uint8; never written to.
        size: height and width in pixels.
        scale: how the target takes the pixels.
        reach: how far beyond its edges a pixel of the page shows, in pixels of the picture; 0.5 for linear weights and
            a page made smaller.
        patches: (n, 4) boxes painted white, as shares of the page.
    """

    open_page: Callable[[], Pixels]
    size: tuple[int, int]
    scale: PixelScale = PixelScale()
    reach: float = 0.5
    patches: Floats = field(default_factory=lambda: np.empty((0, 4)))

    @cached_property
    def pixels(self) -> Pixels:
        """The page with its patches: (3, height, width), uint8; every pixel that shows a trace of a patch is white."""
        pixels = self.open_page().copy()
        height, width = self.size
        corners = self.patches.reshape(-1, 2, 2) * [width, height] + [[[-self.reach] * 2, [self.reach] * 2]]
        for (x0, y0), (x1, y1) in np.maximum(corners, 0):
            pixels[:, int(np.floor(y0)) : int(np.ceil(y1)), int(np.floor(x0)) : int(np.ceil(x1))] = WHITE
        return pixels

    def values(self) -> NDArray[np.float32]:
        """The pixels as the target takes them: (3, height, width)."""
        mean, std = (np.array(value, np.float32)[:, None, None] for value in (self.scale.mean, self.scale.std))
        values: NDArray[np.float32] = (self.pixels * np.float32(self.scale.factor) - mean) / std
        return values

    def painted(self, boxes: Floats) -> PageImage:
        """This picture with white patches over `boxes` too, (n, 4) shares of the page."""
        return replace(self, patches=np.concatenate([self.patches, boxes]))

    def noise(self, seed: Sequence[int]) -> PageImage:
        """Gaussian noise in place of the page, under the same patches: the same noise for the same seed.

        The mean is the middle of the range and two standard deviations reach its ends (ours; the paper does not say).
        """

        def page() -> Pixels:
            noise = np.random.default_rng([*seed]).normal(WHITE / 2, WHITE / 4, (3, *self.size))
            return np.clip(np.rint(noise), 0, WHITE).astype(np.uint8)

        return replace(self, open_page=page)


@dataclass(frozen=True, eq=False)
class Encoding:
    """A page, or the window of it that holds a field, as a target reads it.

    Attributes:
        ids: (n_tokens,) token ids, special tokens included.
        boxes: (n_tokens, 4) x0, y0, x1, y1 as shares of the page in [0, 1]; zeros where the corpus has no layout.
        words: (n_tokens,) index of each token's word in the document; -1 for special tokens.
        labels: (n_tokens,) class of each token, `NOT_READ` where the loss does not read it; None for untagged tasks.
        mask_id, unknown_id: the ids of [MASK] and [UNK].
        links: (n_tokens,) position in this page of each token's predecessor (SPADE extraction) or parent (SPADE
            linking), `NO_LINK` where it has none, `NOT_READ` where the loss does not read it; None for other tasks.
        page_image: the page's image, for targets that see it.
        intent: class of the whole utterance, for models that name intents.
    """

    ids: Ints
    boxes: Floats
    words: Ints
    labels: Ints | None
    mask_id: int
    unknown_id: int
    links: Ints | None = None
    page_image: PageImage | None = None
    intent: int | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the training loss reads anything of this page."""
        return any(values is not None and bool((values != NOT_READ).any()) for values in (self.labels, self.links))

    def positions_of(self, words: Iterable[int]) -> tuple[int, ...]:
        """Positions of the tokens of these words, left to right."""
        return tuple(int(position) for position in np.flatnonzero(np.isin(self.words, list(words))))

    def masked(self, positions: Sequence[int]) -> Self:
        """This page with [MASK] at `positions`."""
        return self.with_tokens(positions, [self.mask_id] * len(positions))

    def scrubbed(self, positions: Sequence[int]) -> Self:
        """This page as the adversary gets it: [MASK] at `positions`, and white patches over them in the image.

        The patches stay when tokens are put in place (Dentan et al. 2024, section 4.1).
        """
        masked = self.masked(positions)
        if self.page_image is None:
            return masked
        return replace(masked, page_image=self.page_image.painted(self.boxes[list(positions)]))

    def with_noise(self, seed: Sequence[int]) -> Self:
        """This page with Gaussian noise in place of its image, patches kept (Dentan et al. 2024, section 6.2).

        As it is for targets that see no image. The noise follows from `seed`.
        """
        return self if self.page_image is None else replace(self, page_image=self.page_image.noise(seed))

    def with_tokens(self, positions: Sequence[int], ids: Sequence[int]) -> Self:
        """This page with `ids` at `positions`; boxes, labels and picture stay."""
        changed = self.ids.copy()
        changed[list(positions)] = ids
        return replace(self, ids=changed)


@dataclass(frozen=True, eq=False)
class Query(Generic[A]):
    """A question to a target; `A` is the type of its answer."""


@dataclass(frozen=True, eq=False)
class PageQuery(Query[A]):
    """A query about a page that the target has read."""

    page: Encoding


@dataclass(frozen=True, eq=False)
class PageViewQuery(Query[A]):
    """A query about a question on a page view, for models that answer questions."""

    view: PageView
    question: str


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best tokens at a position: `ids` and `logits`, both (n_candidates,), best first, ties to the lower id."""

    ids: Ints
    logits: Floats


@dataclass(frozen=True, eq=False)
class FillMask(PageQuery[Candidates]):
    """The `n_candidates` best tokens at `position`; special tokens and [UNK] are never candidates (ours)."""

    position: int
    n_candidates: int


@dataclass(frozen=True, eq=False)
class BestTokens(PageQuery[Ints]):
    """The most likely token at each of `positions`: shape (n_positions,), ties to the lower id."""

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MaskedLoss(PageQuery[Floats]):
    """The cross-entropy of the tokens at `positions` while all of them are hidden: shape (n_positions,), nats.

    `page` holds the true tokens; the target hides them. The mean is the training loss of a masked language model under
    this mask.
    """

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MaskedCompletionLoss(PageQuery[Floats]):
    """The mean cross-entropy of each of `completions` while `positions` are hidden: shape (n_completions,), nats.

    That of what stands on `page` is the mean of its `MaskedLoss`; all are read off one forward pass.

    Attributes:
        positions: of the unknown tokens, hidden by the target.
        completions: (n_completions, n_positions) token ids.
    """

    positions: tuple[int, ...]
    completions: Ints


@dataclass(frozen=True, eq=False)
class BestIntent(PageQuery[int]):
    """The most likely intent of an utterance, as `Encoding.intent` has it; ties to the lower index."""


@dataclass(frozen=True, eq=False)
class CandidateLogits(PageQuery[Floats]):
    """The masked language model's logit of each of `candidates` at `position`: shape (n_candidates,)."""

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class TrainingLoss(PageQuery[Floats]):
    """The training loss of `page` with each of `candidates` at `position`: shape (n_candidates,), nats."""

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class FirstOrderLoss(PageQuery[Floats]):
    """An estimate of the training loss of `page` with each of `candidates` at `position`: shape (n_candidates,), nats.

    The loss of the page as it is, plus the gradient of that loss with respect to the word embedding at `position`,
    times the difference between the candidate's embedding and that of the token that stands there. It is exact for that
    token, may be far off or below zero for others, and takes one forward and one backward pass, however many they are.
    Unlike other answers it may depend on the queries beside it, by rounding.
    """

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The loss of a page with mixed tokens.

    Attributes:
        loss: nats.
        gradient: of the loss with respect to each weight, shape (n_positions, n_candidates).
    """

    loss: float
    gradient: Floats


@dataclass(frozen=True, eq=False)
class RelaxedLoss(PageQuery[Relaxed]):
    """The training loss of `page` with mixtures of `candidates` at `positions` (Parikh et al. 2022, equation 2).

    The input at a position is the sum of the candidates' embeddings, weighted. Unlike other answers it may depend on
    the queries beside it, by rounding.

    Attributes:
        positions: of the unknown tokens.
        candidates: (n_candidates,) token ids that may stand there.
        weights: (n_positions, n_candidates), each row a distribution.
        mix_characters: for models with a character layer: what it makes of the candidates is mixed with the same
            weights (the attacker who knows the model); False: unknown tokens show it no characters, as in the paper.
    """

    positions: tuple[int, ...]
    candidates: Ints
    weights: Floats
    mix_characters: bool = True


@dataclass(frozen=True, eq=False)
class CompletionLoss(PageQuery[Floats]):
    """The training loss of `page` with each of `completions` at `positions`: shape (n_completions,), nats.

    Attributes:
        positions: of the unknown tokens.
        completions: (n_completions, n_positions) token ids.
    """

    positions: tuple[int, ...]
    completions: Ints


@dataclass(frozen=True, eq=False)
class Embed(Query[Floats]):
    """The embedding of a text by a sentence embedder: shape (n_dimensions,); of unit length where the model says so."""

    text: str


@dataclass(frozen=True, eq=False)
class TagProbabilities(PageQuery[Floats]):
    """The probability of each tag for each token: shape (n_tokens, n_labels), rows sum to 1."""


@dataclass(frozen=True, eq=False)
class BestLinks(PageQuery[Ints]):
    """The most likely predecessor or parent of each token: shape (n_tokens,), `NO_LINK` for none, `NOT_READ` unread."""


@dataclass(frozen=True, eq=False)
class Reply:
    """What a model answered.

    Attributes:
        text: the answer, without special tokens, white space at its ends taken off.
        confidence: the product of the probabilities of its tokens, special tokens left out; in [0, 1].
        n_tokens: of the answer, special tokens left out.
        ended: whether the model ended it; False: it was cut off at the longest answer it may give.
    """

    text: str
    confidence: float
    n_tokens: int
    ended: bool


@dataclass(frozen=True, eq=False)
class Answer(PageViewQuery[Reply]):
    """The model's greedy answer to the question."""


@dataclass(frozen=True, eq=False)
class AnswerLoss(PageViewQuery[Floats]):
    """The log-probability of each token of `answer`, given those before it: shape (n_tokens,), nats, all <= 0.

    The last one is the token that ends an answer. Minus their mean is the training loss of the sample, their sum the
    log-probability that sampling at temperature 1 gives this answer. An answer longer than the model may give is cut:
    its last token then is not the end.
    """

    answer: str


@dataclass(frozen=True, eq=False)
class Adapted:
    """How a model takes to one sample when it is trained on that sample alone (DocMIA; methods.md#document-membership).

    Attributes:
        distance: L2 norm of the change of the trained parameters.
        losses: (n_steps + 1,) the training loss before the first step and after each, nats.
        similarities: NLS of the model's answer to the true one, in [0, 1], before the first step and after the last;
            for token classifiers the share of tokens tagged right.
    """

    distance: float
    losses: Floats
    similarities: tuple[float, float]


@dataclass(frozen=True)
class AdaptationRule:
    """Adam on one layer, until the loss changes by less than `threshold` between steps, or `max_steps` are taken."""

    threshold: float = 1e-3
    max_steps: int = 200
    learning_rate: float = 1e-3


@dataclass(frozen=True, eq=False)
class Adaptation(PageViewQuery[Adapted]):
    """Fine-tunes one layer of a copy of the model on this question and `answer`; the model itself stays as it is."""

    answer: str
    rule: AdaptationRule


@dataclass(frozen=True, eq=False)
class PageAdaptation(PageQuery[Adapted]):
    """The same on a page and its labels, for token classifiers."""

    rule: AdaptationRule


class Target(Protocol):
    """A checkpoint as an attacker sees it. A defence that wraps a target implements this too.

    Attributes:
        card: what it is.
        answers: the query types it can answer.
    """

    card: TargetCard
    answers: frozenset[type[Query[Any]]]

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Answer many queries of one type, in order. An answer depends on its query alone."""
        ...


def type_asked(target: Target, queries: Sequence[Query[Any]]) -> type[Query[Any]] | None:
    """The type that all queries are of; None when there are none.

    Raises:
        ValueError: a query of a type that the target cannot answer, or queries of several types.
    """
    kinds = {type(query) for query in queries}
    if not kinds:
        return None
    kind = kinds.pop()
    if kinds or kind not in target.answers:
        raise ValueError(f"{target.card.architecture} cannot answer this mix of queries")
    return kind


class TokenTarget(Target, Protocol):
    """A target that reads pages as tokens: it answers queries about an `Encoding` of its own.

    Attributes:
        labels: the tags in the order of its outputs; empty for untagged tasks.
    """

    labels: tuple[str, ...]

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """The document as the target reads it; when it is too long, the window around the words `around`.

        None when these words do not fit into one window or have no tokens.
        """
        ...

    def token_strings(self, ids: Sequence[int]) -> str:
        """The text of these tokens. For the owner's evidence only."""
        ...
