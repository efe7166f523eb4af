"""Readers: a page view and a question as the inputs of one family of model, and back into text; questions as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Speller:
    """Spells generated tokens with a tokenizer; what readers share.

    Attributes:
        forbidden: see `Reader`.
    """

    forbidden: frozenset[int]
    _tokenizer: Any

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=True)).strip()


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


LONGEST_ANSWER = 128
"""Tokens an answer may have, its end included (ours: the longest address of SROIE has 60, in BERT's vocabulary)."""
QUESTION = "{question}"
"""Stands for the question in a prompt."""


def plain(tokenizer: Any, text: str) -> str:
    """The text without anything that the tokenizer would read as a special token, such as the mark of an image."""
    for token in sorted(special_tokens(tokenizer), key=len, reverse=True):
        text = text.replace(token, " ")
    return text


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Tokens that stand for no text: the tokenizer's own special ones, and marks of fields as Donut has them."""
    special = {token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens}
    added = tokenizer.get_added_vocab()
    marks = {token: number for token, number in added.items() if token.startswith(("<s_", "</s_", "<sep/"))}
    declared = {
        str(token): number for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items() if token.special
    }
    return special | marks | declared


def ending(tokenizer: Any, ids: Iterable[int]) -> frozenset[int]:
    """Those of these tokens that may end an answer: special ones, and text without a letter or a digit.

    One that begins a word or a number would cut off the very answers that hold it.
    """
    special = {*special_tokens(tokenizer).values()}
    return frozenset(
        number for number in ids if number in special or not any(map(str.isalnum, tokenizer.decode([number])))
    )


def shortened(tokenizer: Any, text: str, n_tokens: int) -> str:
    """The beginning of the text that has at most `n_tokens` tokens; a question that is too long loses its end."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if len(encoded["input_ids"]) <= n_tokens:
        return text
    ends = [end for _, end in encoded["offset_mapping"][:n_tokens]]
    return text[: max(ends, default=0)]


def tokens_of(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text's tokens, no special ones added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def continued(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], list[int]]:
    """The tokens of a prompt, and those that follow when an answer stands right after it.

    They are as in the text written as one, unless a token would span both: the model's own answer cannot begin in the
    middle of a token either.
    """
    before, whole = tokens_of(tokenizer, prompt), tokens_of(tokenizer, prompt + answer)
    return before, whole[len(before) :] if whole[: len(before)] == before else tokens_of(tokenizer, answer)


def n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two rows begin with alike."""
    shortest = min(len(one), len(other))
    return next((index for index in range(shortest) if one[index] != other[index]), shortest)
