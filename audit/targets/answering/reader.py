"""Readers: a page view and a question as the inputs of one family of model, and back into text.

Questions as tokens.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from transformers import GenerationConfig

from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.loading import unpadded
from audit.targets.checkpoint.safety import DAMAGE, one_line
from audit.targets.encoded_page import NOT_READ

Inputs = dict[str, torch.Tensor]
"""Keyword arguments of a model's `forward` or `generate`, one row a sample, on the CPU."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A question on a page view, and its answer where one is given.

    Attributes:
        tokens: ids that take the place of the page's own, for a `TokenReader`; None: the page as it
            is.
        encoded: the page as the model's encoder saw it, (n_patches, n_hidden), for a
            `PictureReader`; or `Begun`; None: not yet.
        whole: whether the tokens before the answer have labels too, for a reader of `whole_rows`.
        at_page_end: whether the answer stands behind the page's last word, for such a reader.
    """

    view: PageView
    question: str
    answer: str | None = None
    tokens: tuple[int, ...] | None = None
    encoded: Any = None
    whole: bool = False
    at_page_end: bool = False


class Begun(NamedTuple):
    """A decoder's row, of which it has read the beginning.

    Attributes:
        row: values of each of its tokens, (..., n_tokens).
        cache: keys and values of the tokens that it has read.
        n: their number.
        length: tokens of the row when it is filled up.
    """

    row: Inputs
    cache: Any
    n: int
    length: int


class Reader(ABC):
    """One checkpoint's own way of reading: its processor, its prompt, its end of an answer.

    Attributes:
        tokenizer: the checkpoint's fast tokenizer.
        resolution: height and width in pixels of the images it makes; None: no image, or of several
            sizes.
        needs_image: whether a page without an image cannot be asked.
        needs_words: whether a page without words cannot be asked.
        whole_rows: whether the model may have been trained to give pages and questions too.
        max_tokens: the longest row that its model reads, special tokens included: of text, or of
            patches where the page is read from its image alone.
        max_new_tokens: the longest answer it is asked for, special tokens included.
        scores: values that scoring one row makes, at most, where they count (see `rows_for`).
        packed: names of inputs that hold the pictures of all samples side by side, in one row.
        forbidden: ids of tokens that are never part of an answer's text (special tokens), the end
            token among them.
        ends: ids of the tokens that end an answer; those that the model's generation settings name
            need not be here.
        advice: what helps where its processor cannot read a page.

    Args:
        tokenizer: padding and truncation that its files ask for are taken off here.
    """

    needs_image = True
    needs_words = False
    whole_rows = False
    resolution: tuple[int, int] | None = None
    max_tokens: int
    max_new_tokens: int
    scores = 0
    packed: frozenset[str] = frozenset()
    advice = "save the processor that the model was trained with beside it"

    def __init__(self, tokenizer: Any) -> None:
        unpadded(tokenizer)
        self.tokenizer = tokenizer
        self.forbidden = frozenset(special_tokens(tokenizer).values())
        # A VT5 with the tokenizer of a BERT has its end token in its configuration alone.
        self.ends = frozenset({tokenizer.eos_token_id} - {None})
        self._marks = marks_of(tokenizer)

    @abstractmethod
    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `generate` for samples with equal keys of `alike`."""

    @abstractmethod
    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `forward`, with the answers as labels of the training loss.

        They are `prompts` and "labels", -100 where nothing is read.

        Takes any samples, so that they can be trained on together. An answer of more than
        `max_new_tokens` tokens is cut to as many, and its last label then is not the end token.
        """

    @abstractmethod
    def alike(self, sample: Sample) -> object:
        """Return a batching key: only samples with equal keys share a forward pass.

        So each is padded as if it were alone.

        Of a sample with an answer it also tells answers of other numbers of tokens apart, and holds
        for `taught`.
        """

    def n_of_page(self, sample: Sample, ids: Sequence[int], most: int) -> int:
        """Return how many first tokens of a row, `most` at most, are equal under every question."""
        return 0

    def text_of(self, ids: Sequence[int]) -> str:
        """Decode generated tokens as an answer, without special tokens and outer white space."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self.tokenizer.decode(spoken, skip_special_tokens=True)).strip()

    def _plain(self, text: str, most: int | None = None) -> str:
        """Return a text with its special tokens blanked out, cut to its first `most` tokens."""
        plain = self._marks.sub(" ", text)
        return plain if most is None else first_tokens(self.tokenizer, plain, most)


class ApartReader(Reader):
    """The base of readers whose model has a decoder of its own, which gives the answer alone."""

    _begin: Sequence[int] = ()
    _close: Sequence[int]

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `forward`: prompts for the encoder, and answers as labels."""
        return {
            **self.prompts(samples),
            "labels": filled([self._answer(sample) for sample in samples], NOT_READ),
        }

    def _answer(self, sample: Sample) -> list[int]:
        """Return an answer's tokens to its end, cut: an answer that is too long has no end."""
        ids = (
            unpadded(self.tokenizer)
            .encode(self._plain(sample.answer or ""), add_special_tokens=False)
            .ids
        )
        return [*self._begin, *ids, *self._close][: self.max_new_tokens]


ENCODED = "encoded"
"""The name under which `Inputs` hold pages that are encoded already, (n_samples, n_patches,
n_hidden)."""


@runtime_checkable
class PictureReader(Protocol):
    """A reader whose model encodes a page's image by itself: questions reach its decoder only.

    `prompts` and `taught` hold `ENCODED` in place of the image where all samples have their page
    encoded.
    """

    def pictures(self, samples: Sequence[Sample]) -> Inputs:
        """Return the encoder's inputs of the samples' page images."""
        ...


@dataclass(frozen=True)
class PageTokens:
    """The page's own tokens in one row.

    Attributes:
        ids: token ids.
        words: the index of each one's word on the page.
    """

    ids: tuple[int, ...]
    words: tuple[int, ...]


@runtime_checkable
class TokenReader(Protocol):
    """A reader to which a page is words.

    It can lay other tokens before its model (`Sample.tokens`).

    The page's tokens are the same under every question, but a longer question may cut off more of
    the last ones.
    """

    tokenizer: Any

    def page_tokens(self, view: PageView, question: str) -> PageTokens:
        """Return the page's tokens, with the word of each, in the row that asks this question."""
        ...


LONGEST_ANSWER = 128
"""Tokens an answer may have, its end included (the longest address of SROIE has 60, in BERT's
vocabulary)."""
QUESTION = "{question}"
"""Stands for the question in a prompt."""


def marks_of(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern that finds the tokenizer's special tokens in a text.

    The text is that of a page, a question or an answer.
    """
    return re.compile(
        "|".join(
            re.escape(mark) for mark in sorted(special_tokens(tokenizer), key=len, reverse=True)
        )
    )


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the tokens that stand for no text, each with its id.

    They are the tokenizer's own special ones, and marks of fields as Donut has them.
    """
    special = {
        token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens
    }
    added = tokenizer.get_added_vocab()
    marks = {
        token: number
        for token, number in added.items()
        if token.startswith(("<s_", "</s_", "<sep/"))
    }
    declared = {
        str(token): n
        for n, token in getattr(tokenizer, "added_tokens_decoder", {}).items()
        if token.special
    }
    return special | marks | declared


def ending(tokenizer: Any, ids: Iterable[int]) -> frozenset[int]:
    """Return those of the token ids that may end an answer.

    They are special ones, and text without a letter or a digit.

    One that begins a word or a number would cut off the very answers that hold it.
    """
    special = {*special_tokens(tokenizer).values()}
    return frozenset(
        n for n in ids if n in special or not any(map(str.isalnum, tokenizer.decode([n])))
    )


def first_tokens(tokenizer: Any, text: str, n_tokens: int) -> str:
    """Return the beginning of a text that has at most `n_tokens` tokens."""
    encoded = unpadded(tokenizer).encode(text, add_special_tokens=False)
    if len(encoded.ids) <= n_tokens:
        return text
    return text[: max((end for _, end in encoded.offsets[: max(n_tokens, 0)]), default=0)]


def tokens_of(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a text, without special tokens around it."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def continued(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt, and those of an answer written right after it.

    They are as in the text written as one, unless a token would span both: the model's own answer
    cannot begin in the middle of a token either.
    """
    before, whole = tokens_of(tokenizer, prompt), tokens_of(tokenizer, prompt + answer)
    return before, whole[len(before) :] if whole[: len(before)] == before else tokens_of(
        tokenizer, answer
    )


def filled(rows: Sequence[Sequence[int]], value: int, length: int = 0) -> torch.Tensor:
    """Return rows of ids as a tensor (n_rows, length), padded with `value` on the right.

    It is at least as long as the longest.
    """
    length = max(length, *map(len, rows))
    return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows], dtype=torch.long)


def with_mask(rows: Sequence[Sequence[int]], value: int, length: int) -> Inputs:
    """Return rows of ids as `input_ids` and `attention_mask`, padded with `value` on the right."""
    mask = [[1] * len(row) for row in rows]
    return {"input_ids": filled(rows, value, length), "attention_mask": filled(mask, 0, length)}


def positions_of(config: Any, names: Sequence[str] = ("max_position_embeddings",)) -> int | None:
    """Return the longest row of a model, by the first of `names` its configuration has.

    None: none says.
    """
    return next(
        (n for name in names if isinstance(n := getattr(config, name, None), int) and n > 0), None
    )


def is_of_tokens(value: torch.Tensor, inputs: Inputs) -> bool:
    """Test whether a tensor among a model's inputs has one value per token of a row."""
    return value.shape[:2] == inputs["input_ids"].shape and not value.is_floating_point()


def unfilled(inputs: Inputs) -> Inputs:
    """Return the inputs of one row without its padding."""
    own = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))[0].bool()
    return {
        name: value[:, own] if is_of_tokens(value, inputs) else value
        for name, value in inputs.items()
    }


def n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of ids with which both rows begin."""
    shortest = min(len(one), len(other))
    return next((index for index in range(shortest) if one[index] != other[index]), shortest)


KEPT = ("bos_token_id", "pad_token_id", "decoder_start_token_id", "renormalize_logits")
"""What only says how an answer begins, or changes nothing about which token is the best."""
NEUTRAL: dict[str, object] = TABLE["answering"]["neutral"] | dict.fromkeys(
    TABLE["answering"]["unset"]
)
"""Settings that change which token is the best, or end an answer early, with the value that lifts them; None too does.
What would sample, search or stop by the clock is of no use to a greedy answer and left out."""
_LONGEST = ("max_length", "max_new_tokens")
_TOKENS = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "forced_bos_token_id")
"""Settings that forbid or force tokens: kept as far as these are no part of an answer's text."""


def greedy(own: GenerationConfig, ends: Set[int], marks: Set[int]) -> GenerationConfig:
    """Return generation settings for greedy answers that end at any of `ends`.

    Args:
        own: the checkpoint's.
        ends: ids of the tokens that end an answer: they are never forbidden, but at its very
            beginning.
        marks: ids of tokens that are no part of any answer's text: they alone may be forbidden.
    """
    values = {name: getattr(own, name, None) for name in KEPT} | _harmless_settings(
        own, ends, marks
    )
    settings = {name: value for name, value in values.items() if value is not None}
    if ends:
        settings["eos_token_id"] = sorted(ends)
    settings.setdefault("pad_token_id", min(ends, default=0))
    return GenerationConfig(**settings, do_sample=False, num_beams=1)


def lifted(own: GenerationConfig, reader: Reader) -> tuple[str, ...]:
    """Return the names of generation settings that are dropped or cut for the audit.

    They are those that bear on answers.

    Args:
        own: the checkpoint's settings, before `open_ends`.
        reader: its way of reading; a limit of length is lifted when it is under that of the reader.
    """
    end_ids = ids_of(own.eos_token_id)
    harmless = _harmless_settings(own, reader.ends | end_ids, reader.forbidden)
    names = [name for name in _TOKENS if _setting_of(own, name) != harmless[name]]
    names += [
        name for name, neutral in NEUTRAL.items() if getattr(own, name, None) not in (None, neutral)
    ]
    if _spelling_ends(end_ids, reader):
        names.append("eos_token_id")
    for name in _LONGEST:
        limit = getattr(own, name, None)
        if limit is not None and limit < reader.max_new_tokens:
            names.append(name)
    return tuple(sorted(names))


def open_ends(own: GenerationConfig, reader: Reader) -> None:
    """Remove from the settings' end tokens those that spell letters or digits, in place.

    Answers go on after them.
    """
    end_ids = ids_of(own.eos_token_id)
    spoken = _spelling_ends(end_ids, reader)
    if spoken:
        own.eos_token_id = sorted(end_ids - spoken) or None


def _spelling_ends(end_ids: Set[int], reader: Reader) -> Set[int]:
    """Return those end tokens that spell letters or digits."""
    return {
        token
        for token in end_ids - reader.ends - reader.forbidden
        if any(map(str.isalnum, reader.text_of([token])))
    }


def ids_of(value: int | Sequence[int] | None) -> frozenset[int]:
    """Return the token ids that a setting holds: one number, several or none."""
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def set_start(model: Any) -> None:
    """Set the decoder's start token from the model's configuration where none is set.

    Raises:
        TargetError: neither names the token that a decoder begins with, or the model does not have
            it.
    """
    own, config = model.generation_config, model.config
    n_tokens = int(config.get_text_config(decoder=True).vocab_size)
    if any(not number < n_tokens for number in ids_of(own.pad_token_id)):
        own.pad_token_id = None  # as of a token for padding that was added to the tokenizer alone
    if not config.is_encoder_decoder:
        return
    _find_start(own, config)
    start = own.bos_token_id if own.decoder_start_token_id is None else own.decoder_start_token_id
    if any(not 0 <= number < n_tokens for number in ids_of(start)):
        raise TargetError(*wording("start_unknown", start=start, n_tokens=n_tokens))


def _find_start(own: GenerationConfig, config: Any) -> None:
    """Set the settings' start token of the decoder from the model's configuration.

    Raises:
        TargetError: nothing names it.
    """
    if own.decoder_start_token_id is not None or own.bos_token_id is not None:
        return
    configs = (config, getattr(config, "decoder", None), getattr(config, "text_config", None))
    starts = [getattr(inner, "decoder_start_token_id", None) for inner in configs]
    own.decoder_start_token_id = next((number for number in starts if number is not None), None)
    if own.decoder_start_token_id is None:
        raise TargetError(*wording("no_start_token"))


def _harmless_settings(own: GenerationConfig, ends: Set[int], marks: Set[int]) -> dict[str, Any]:
    """Return those settings that forbid or force tokens without preventing any answer.

    None: nothing.
    """
    silent = marks - ends
    words = [word for word in _setting_of(own, "bad_words_ids") or () if silent >= {*word}]
    forced = _setting_of(own, "forced_bos_token_id")
    return {
        "suppress_tokens": _listed_among(own, "suppress_tokens", silent),
        "begin_suppress_tokens": _listed_among(own, "begin_suppress_tokens", marks | ends),
        "bad_words_ids": words or None,
        "forced_bos_token_id": forced if forced in marks else None,
    }


def _listed_among(own: GenerationConfig, name: str, tokens: Set[int]) -> list[int] | None:
    """Return the tokens that the setting `name` lists and `tokens` hold; None without any."""
    listed = [token for token in _setting_of(own, name) or () if token in tokens]
    return listed or None


def _setting_of(own: GenerationConfig, name: str) -> Any:
    """Return the value of a generation setting; None where it is unset or an empty list."""
    value = getattr(own, name, None)
    return None if value == [] else value


def generation_of(folder: CheckpointFolder) -> GenerationConfig:
    """Return the checkpoint's generation settings, or the defaults where it has none."""
    if not (folder.path / "generation_config.json").is_file():
        return GenerationConfig()
    try:
        return GenerationConfig.from_pretrained(folder.path, local_files_only=True)
    except DAMAGE as error:
        raise TargetError(
            f"{folder}: generation_config.json cannot be used: {one_line(error)}"
        ) from None
