"""Donut (Kim et al. 2022) and other vision-encoder-decoders: the page is an image, the question opens the text.

<s_docvqa><s_question>What is the total?</s_question><s_answer>   9.00</s_answer></s>
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from audit.errors import TargetError
from audit.targets.answering.parts import image_of, image_processor_of, padded, resolution_of, tokenizer_of
from audit.targets.answering.reader import ENCODED, Inputs, Sample
from audit.targets.answering.wording import (
    LONGEST_ANSWER,
    QUESTION,
    continued,
    plain,
    shortened,
    special_tokens,
    tokens_of,
)
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.encoded_page import NOT_READ

DONUT_PROMPT = "<s_docvqa><s_question>{question}</s_question><s_answer>"
"""What Donut is fine-tuned with on DocVQA."""
_MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>")
_END = "</s_answer>"
_OFFSET = 2
"""Positions that some decoders (RoBERTa's and its kin) count before the first token."""


def reader_of(folder: CheckpointFolder, config: Any, prompt: str | None) -> DonutReader:
    """The reader of a vision-encoder-decoder.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: with "{question}" in it; None: Donut's.

    Raises:
        TargetError: its tokenizer or its image processor cannot be used, the prompt does not fit, or there is none and
            the tokenizer does not know Donut's marks.
    """
    tokenizer = tokenizer_of(folder, config.decoder.vocab_size)
    if prompt is None and not all(mark in tokenizer.get_vocab() for mark in _MARKS):
        raise TargetError(
            f"{folder}: its vocabulary has no marks of a question ({_MARKS[0]}, {_MARKS[1]}), so docaudit cannot tell"
            " how the model is asked",
            'write in manifest.toml, below [recipe], prompt = "..." with the very text that it was trained to be asked'
            " with, {question} standing for the question (TrOCR, Nougat and Donut on CORD are asked no question)",
        )
    return DonutReader(image_processor_of(folder), tokenizer, config, prompt or DONUT_PROMPT)


class DonutReader:
    """See `audit.targets.answering.reader.Reader`."""

    needs_image = True

    def __init__(self, image_processor: Any, tokenizer: Any, config: Any, prompt: str) -> None:
        self._images = image_processor
        self._tokenizer = tokenizer
        known = tokenizer.get_vocab()
        self._prompt = prompt
        special = special_tokens(tokenizer)
        self.forbidden = frozenset(special.values())
        self._end = [known[_END]] if _END in known else []
        self.ends = frozenset([*self._end, tokenizer.eos_token_id])
        self._end += [tokenizer.eos_token_id]
        self._pad_id: int = tokenizer.pad_token_id
        self._start = self._start_of(config)
        # Text, unlike a mark, is parted from the answer by a space.
        self._gap = "" if tokens_of(tokenizer, self._prompt)[-1:] in [[number] for number in self.forbidden] else " "
        self.resolution = resolution_of(image_processor)
        self.max_tokens = int(getattr(config.decoder, "max_position_embeddings", 0) or 2 * LONGEST_ANSWER)
        self.max_new_tokens = min(LONGEST_ANSWER, self.max_tokens // 2)
        # The same question is put to many views of its page, and each of them is sorted by length before it is read.
        self._spelled = lru_cache(maxsize=4096)(self._spell)
        self._longest_question = self.max_tokens - _OFFSET - self.max_new_tokens - len(self._asked("")[0])
        if self._longest_question < 1:
            raise TargetError(
                f"the prompt leaves no room for a question: the decoder takes {self.max_tokens} tokens",
                "give a shorter [recipe] prompt in manifest.toml",
            )

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`."""
        prompts = [self._tokens(sample)[0] for sample in samples]
        return {**self._pages(samples), "decoder_input_ids": torch.tensor(prompts, dtype=torch.long)}

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`."""
        pairs = [self._tokens(sample) for sample in samples]
        return {
            **self._pages(samples),
            "decoder_input_ids": padded([[*prompt, *answer[:-1]] for prompt, answer in pairs], self._pad_id),
            "labels": padded([[*[NOT_READ] * (len(prompt) - 1), *answer] for prompt, answer in pairs], NOT_READ),
        }

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`."""
        return tuple(map(len, self._tokens(sample)))

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self._tokenizer.decode(spoken, skip_special_tokens=True)).strip()

    def _pages(self, samples: Sequence[Sample]) -> Inputs:
        encoded = [sample.encoded for sample in samples if sample.encoded is not None]
        return {ENCODED: torch.stack(encoded)} if len(encoded) == len(samples) else self.pictures(samples)

    def pictures(self, samples: Sequence[Sample]) -> Inputs:
        """See `PictureReader.pictures`."""
        pages = [image_of(sample) for sample in samples]
        return {
            "pixel_values": self._images(pages, input_data_format="channels_last", return_tensors="pt").pixel_values
        }

    def _tokens(self, sample: Sample) -> tuple[list[int], list[int]]:
        """The prompt's tokens, and the answer's with its end; no answer: none."""
        return self._spelled(sample.question, sample.answer)

    def _spell(self, question: str, answer: str | None) -> tuple[list[int], list[int]]:
        short = shortened(self._tokenizer, plain(self._tokenizer, question), self._longest_question)
        prompt, tokens = self._asked(short, answer)
        return prompt, tokens[: self.max_new_tokens]

    def _asked(self, question: str, answer: str | None = None) -> tuple[list[int], list[int]]:
        text = None if answer is None else self._gap + plain(self._tokenizer, answer)
        prompt, tokens = continued(self._tokenizer, self._prompt.replace(QUESTION, question), text or "")
        start = [] if prompt[:1] == self._start or self._begins_with_task(prompt) else self._start
        return [*start, *prompt], [] if text is None else [*tokens, *self._end]

    def _begins_with_task(self, prompt: list[int]) -> bool:
        return self._is_donut and bool(prompt) and prompt[0] in self.forbidden

    def _start_of(self, config: Any) -> list[int]:
        """The token that the decoder's text begins with, unless it begins with a mark of Donut's task."""
        self._is_donut = "donut" in str(config.encoder.model_type)
        named = [getattr(part, "decoder_start_token_id", None) for part in (config, config.decoder)]
        candidates = (*named, getattr(config.decoder, "bos_token_id", None))
        start = next((number for number in candidates if number is not None), self._tokenizer.eos_token_id)
        return [int(start)]
