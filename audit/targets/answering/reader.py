"""Readers: a page view and a question as the inputs of one family of question-answering model, and back into text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from audit.corpus.page_view import PageView

Inputs = dict[str, torch.Tensor]
"""Keyword arguments of a model's `forward` or `generate`, one row a sample, on the CPU."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A question on a page view, and its answer where one is given.

    Attributes:
        tokens: ids that take the place of the page's own, for a `TokenReader`; None: the page as it is.
        encoded: the page as the model's encoder saw it, (n_patches, n_hidden), for a `PictureReader`; None: not yet.
    """

    view: PageView
    question: str
    answer: str | None = None
    tokens: tuple[int, ...] | None = None
    encoded: torch.Tensor | None = None


class Reader(Protocol):
    """One checkpoint's own way of reading: its processor, its prompt, its end of an answer.

    Attributes:
        resolution: height and width in pixels of the images it makes; None: no image, or of several sizes.
        needs_image: whether a page without an image cannot be asked.
        max_tokens: the longest row that its model reads, special tokens included: of text, or of patches where the
            page is read from its image alone.
        max_new_tokens: the longest answer it is asked for, special tokens included.
        forbidden: ids of tokens that are never part of an answer's text (special tokens), the end token among them.
        ends: ids of the tokens that end an answer; those that the model's generation settings name need not be here.
    """

    resolution: tuple[int, int] | None
    needs_image: bool
    max_tokens: int
    max_new_tokens: int
    forbidden: frozenset[int]
    ends: frozenset[int]

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """The inputs of `generate`; samples that `alike` puts together only."""
        ...

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """The inputs of `forward` for the training loss: `prompts` and "labels", -100 where nothing is read.

        Takes any samples, so that they can be trained on together. An answer of more than `max_new_tokens` tokens is
        cut to as many, and its last label then is not the end token.
        """
        ...

    def alike(self, sample: Sample) -> object:
        """A key: only samples of one key share a batch of `prompts`, so that a sample is padded as if it were alone.

        Of a sample with an answer it also tells answers of other numbers of tokens apart, and holds for `taught`.
        """
        ...

    def text_of(self, ids: Sequence[int]) -> str:
        """The answer that these generated tokens spell, without special tokens, white space at its ends taken off."""
        ...


ENCODED = "encoded"
"""The name under which `Inputs` hold pages that are encoded already, (n_samples, n_patches, n_hidden)."""


@runtime_checkable
class PictureReader(Reader, Protocol):
    """A reader whose model encodes a page's image by itself: questions reach its decoder only.

    `prompts` and `taught` hold `ENCODED` in place of the image where all samples have their page encoded.
    """

    def pictures(self, samples: Sequence[Sample]) -> Inputs:
        """What the model's encoder is called with."""
        ...


@dataclass(frozen=True)
class PageTokens:
    """The page's own tokens in one row: `ids`, and in `words` the index of each one's word on the page."""

    ids: tuple[int, ...]
    words: tuple[int, ...]


@runtime_checkable
class TokenReader(Reader, Protocol):
    """A reader to which a page is words: it can lay other tokens before its model (`Sample.tokens`).

    The page's tokens are the same under every question, but a longer question may cut off more of the last ones.
    """

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's fast tokenizer."""
        ...

    def page_tokens(self, view: PageView, question: str) -> PageTokens:
        """The page's tokens that a row with this question holds."""
        ...
