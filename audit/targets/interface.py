"""What can be asked of a checkpoint: queries, numpy in and numpy out, and the one method that answers them.

A new attack may add a query type, never a method. Batching, windows, dtype and device stay behind `ask`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from audit.corpus.documents import Document
from audit.record import TargetCard

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
A = TypeVar("A", covariant=True)

NOT_READ = -100
"""Label of a token that the training loss does not read (PyTorch's `ignore_index`)."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """A page, or the window of it that holds a field, as a target reads it.

    Attributes:
        ids: (n_tokens,) token ids, special tokens included.
        boxes: (n_tokens, 4) x0, y0, x1, y1 as shares of the page in [0, 1]; zeros where the corpus has no layout.
        words: (n_tokens,) index of each token's word in the document; -1 for special tokens.
        labels: (n_tokens,) class of each token, `NOT_READ` where the loss does not read it; None for untagged tasks.
        mask_id, unknown_id: the ids of [MASK] and [UNK].
    """

    ids: Ints
    boxes: Floats
    words: Ints
    labels: Ints | None
    mask_id: int
    unknown_id: int

    def positions_of(self, words: Iterable[int]) -> tuple[int, ...]:
        """Positions of the tokens of these words, left to right."""
        return tuple(int(position) for position in np.flatnonzero(np.isin(self.words, list(words))))

    def masked(self, positions: Sequence[int]) -> Encoding:
        """This page with [MASK] at `positions`."""
        return self.with_tokens(positions, [self.mask_id] * len(positions))

    def with_tokens(self, positions: Sequence[int], ids: Sequence[int]) -> Encoding:
        """This page with `ids` at `positions`; boxes and labels stay."""
        changed = self.ids.copy()
        changed[list(positions)] = ids
        return replace(self, ids=changed)


@dataclass(frozen=True, eq=False)
class Query(Generic[A]):
    """A question to a target; `A` is the type of its answer."""

    page: Encoding


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best tokens at a position: `ids` and `logits`, both (n_candidates,), best first, ties to the lower id."""

    ids: Ints
    logits: Floats


@dataclass(frozen=True, eq=False)
class FillMask(Query[Candidates]):
    """The `n_candidates` best tokens at `position`; special tokens and [UNK] are never candidates (ours)."""

    position: int
    n_candidates: int


@dataclass(frozen=True, eq=False)
class BestTokens(Query[Ints]):
    """The most likely token at each of `positions`: shape (n_positions,), ties to the lower id."""

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TrainingLoss(Query[Floats]):
    """The training loss of `page` with each of `candidates` at `position`: shape (n_candidates,), nats."""

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class TagProbabilities(Query[Floats]):
    """The probability of each tag for each token: shape (n_tokens, n_labels), rows sum to 1."""


class Target(Protocol):
    """A checkpoint as an attacker sees it. A defence that wraps a target implements this too.

    Attributes:
        card: what it is.
        answers: the query types it can answer.
        labels: the tags in the order of its outputs; empty for untagged tasks.
    """

    card: TargetCard
    answers: frozenset[type[Query[Any]]]
    labels: tuple[str, ...]

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """The document as the target reads it; when it is too long, the window around the words `around`.

        None when these words do not fit into one window or have no tokens.
        """
        ...

    def token_strings(self, ids: Sequence[int]) -> str:
        """The text of these tokens. For the owner's evidence only."""
        ...

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Answer many queries of one type, in order. An answer depends on its query alone."""
        ...
