"""Reading for models that write a page as JSON or markup, through the reader of their family.

A family's reader makes the prompt; what follows it is the whole output, marks of fields included, and the end token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from audit.corpus.outputs import as_marks, keys_of
from audit.targets.answering.page_text import around
from audit.targets.answering.reader import Inputs, PictureReader, Reader, Sample
from audit.targets.checkpoint.tokenizer import unpadded
from audit.targets.encoded_page import NOT_READ

_TOKENS_KEPT = 256
"""Outputs whose tokens are kept (ours): the same one is scored with many page views."""


class ParsingReader:
    """Implements `audit.targets.answering.reader.Reader`; a sample's answer is the whole output.

    JSON is taught in Donut's marks where the tokenizer has a mark for every key, else as it is written.

    Attributes:
        n_before: tokens that the decoder is taught before the output's own.
        needs_words: a page without words cannot be written.
        scores: see `rows_for`.

    Args:
        inner: the family's reader; its prompt holds no question.
        tokenizer: the checkpoint's, fast.
        decodes: the model is a decoder alone: the output goes on in the prompt's row.
        longest: tokens of the longest output.
    """

    def __init__(self, inner: Reader, tokenizer: Any, *, decodes: bool, longest: int) -> None:
        self.inner = inner
        self.needs_image, self.resolution = inner.needs_image, inner.resolution
        self.needs_words = bool(getattr(inner, "needs_words", False))
        self.scores = int(getattr(inner, "scores", 0))
        self.max_tokens, self.max_new_tokens = inner.max_tokens, longest
        inner.max_new_tokens = longest
        silent = {tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id, *_unmarked(tokenizer, inner)}
        self.forbidden = frozenset(silent - {None})
        self.ends = frozenset({tokenizer.eos_token_id, *_unmarked(tokenizer, inner)})
        self._tokenizer = tokenizer
        self._marks = frozenset(tokenizer.get_vocab())
        self._pad = int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
        self._decodes = decodes
        # A decoder that is given a prompt of its own is taught nothing before the output's first token.
        self._begin = [] if decodes or isinstance(inner, PictureReader) else around(tokenizer)[0]
        self.n_before = len(self._begin)
        self._encoded = lru_cache(_TOKENS_KEPT)(self._encode)

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`."""
        return self.inner.prompts([replace(sample, question="", answer=None) for sample in samples])

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`."""
        return self._stack([self._with_output(sample) for sample in samples])

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: a decoder's rows with outputs are alone."""
        if sample.answer is None:
            return self.inner.alike(sample)
        if self._decodes:
            return sample
        return self.inner.alike(replace(sample, answer=None)), len(self.tokens_of(sample.answer)[0])

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`; marks of fields stay, and so does white space at the ends."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def written(self, output: str) -> str:
        """The text that the model is taught for a data set's output."""
        keys = keys_of(output)
        return as_marks(output) if keys and all(f"<s_{key}>" in self._marks for key in keys) else output

    def tokens_of(self, output: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens of an output as it is taught, and the place of each in the text; ends are not there."""
        return self._encoded(output)

    def _encode(self, output: str) -> tuple[list[int], list[tuple[int, int]]]:
        for end in self._end_texts():
            output = output.replace(end, " " * len(end))
        encoded = unpadded(self._tokenizer).encode(output, add_special_tokens=False)
        return list(encoded.ids), list(encoded.offsets)

    def _end_texts(self) -> list[str]:
        return [str(self._tokenizer.convert_ids_to_tokens(token)) for token in self.ends]

    def _with_output(self, sample: Sample) -> Inputs:
        """One sample's inputs with its output and the end, and the labels of these."""
        inputs = self.prompts([sample])
        ids, _ = self.tokens_of(self.written(sample.answer or ""))
        if self._decodes:
            return self._continued(inputs, [*ids, self._tokenizer.eos_token_id][: self.max_new_tokens])
        taught = [*self._begin, *ids, self._tokenizer.eos_token_id][: self.max_new_tokens]
        if "decoder_input_ids" not in inputs:
            return {**inputs, "labels": torch.tensor([taught])}
        prompt = inputs["decoder_input_ids"][0].tolist()
        return {
            **inputs,
            "decoder_input_ids": torch.tensor([[*prompt, *taught[:-1]]]),
            "labels": torch.tensor([[*[NOT_READ] * (len(prompt) - 1), *taught]]),
        }

    def _continued(self, inputs: Inputs, output: list[int]) -> Inputs:
        """A decoder's prompt and what follows; nothing is filled up before the prompt."""
        row = inputs["input_ids"]
        own = inputs.get("attention_mask", torch.ones_like(row))[0].bool()
        kept = {
            name: _longer(value[:, own], len(output)) if value.shape == row.shape else value
            for name, value in inputs.items()
        }
        prompt = row[0, own].tolist()
        return {
            **kept,
            "input_ids": torch.tensor([[*prompt, *output]]),
            "labels": torch.tensor([[*[NOT_READ] * len(prompt), *output]]),
        }

    def _stack(self, samples: Sequence[Inputs]) -> Inputs:
        """Inputs of several samples as one batch, filled at their ends."""
        fill = {"input_ids": self._pad, "decoder_input_ids": self._pad, "labels": NOT_READ}
        return {name: _filled([one[name] for one in samples], fill.get(name, 0)) for name in samples[0]}


class ParsingPictureReader(ParsingReader):
    """The same for a family that encodes a page's image by itself; see `PictureReader`."""

    def pictures(self, samples: Sequence[Sample]) -> Inputs:
        """See `PictureReader.pictures`."""
        assert isinstance(self.inner, PictureReader)
        return self.inner.pictures(samples)


def parsing_reader(inner: Reader, tokenizer: Any, *, decodes: bool, longest: int) -> ParsingReader:
    """The reader of a parsing model of any family; see `ParsingReader`."""
    kind = ParsingPictureReader if isinstance(inner, PictureReader) else ParsingReader
    return kind(inner, tokenizer, decodes=decodes, longest=longest)


def _unmarked(tokenizer: Any, inner: Reader) -> frozenset[int]:
    """The ends of the family's answers that are no marks of a field."""
    names = {token: str(tokenizer.convert_ids_to_tokens(token)) for token in inner.ends}
    return frozenset(token for token, name in names.items() if not name.startswith("</s_"))


def _longer(value: torch.Tensor, n: int) -> torch.Tensor:
    """What is said of each token of a row, (1, n_tokens), and of `n` more as of the last one."""
    return torch.cat([value, *[value[:, -1:]] * n], dim=1)


def _filled(values: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
    """Tensors of one rank along their first dimension, each filled at the end of the others to the largest."""
    shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]

    def grown(value: torch.Tensor) -> torch.Tensor:
        pads = [(0, size - own) for size, own in zip(shape, value.shape[1:], strict=True)]
        return torch.nn.functional.pad(value, [n for pair in reversed(pads) for n in pair], value=fill)

    return torch.cat([grown(value) for value in values])
