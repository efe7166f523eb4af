"""UDOP's input of a page and a question (Tang et al. 2023), as transformers' `UdopProcessor` makes it.

The question, with the task's prompt before it, is the first text; the page's words with their boxes are the second.

Two things to know about transformers' UDOP (5.x):

- Its documentation and its processor give boxes in thousandths of the page, but the model takes shares of the page: it
  cuts coordinates at 1, so that every word stands in the page's far corner and takes the picture's last patch, and of
  the layout only the words' order from left to right and downwards is left. A checkpoint trained through the processor
  was trained so, and must be read so; this is the default here. One trained with shares, as the authors' own code does,
  says so in its config.json: `"box_scale": 1`.
- Padding changes answers by more than rounding: patches stand after the padding, and padding claims the first patch.
  And pages of exactly one length that share a batch may still differ in their last bits from each alone, as such
  lengths do not fill the kernels' blocks. So every sample is asked alone, without padding, as by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from audit.corpus.documents import Box, Word
from audit.corpus.page_view import PageView
from audit.errors import TargetError
from audit.targets.answering.layout import (
    BOX_SCALE,
    ROWS_KEPT,
    PageImages,
    SampleRow,
    answer_ids,
    boxes_of,
    labels_of,
    load_fast_tokenizer,
    marks_of,
    never_spoken,
    padded,
    side_lengths,
)
from audit.targets.answering.parts import image_processor_of
from audit.targets.answering.reader import Inputs, PageTokens, Sample
from audit.targets.answering.wording import LONGEST_ANSWER, QUESTION
from audit.targets.checkpoint.folder import CheckpointFolder

PROMPT = f"Question answering. {QUESTION}"
"""The prompt of UDOP's question-answering task (Tang et al. 2023, table 1), and transformers' example."""
MAX_TOKENS = 512
"""The longest text of a checkpoint whose tokenizer names none (ours); UDOP's own have 512."""


class UdopReader:
    """Implements `audit.targets.answering.reader.TokenReader` for transformers' UDOP.

    Args:
        tokenizer: a `UdopTokenizer`.
        config: names the end and padding tokens, the size of the image, and what boxes are (see the module).
        images: makes the page's image.
        prompt: holds "{question}".
    """

    def __init__(self, tokenizer: Any, config: Any, images: PageImages, prompt: str = PROMPT) -> None:
        if QUESTION not in prompt:
            raise TargetError(f"UDOP's prompt holds {QUESTION}", f"as in {PROMPT!r}")
        scale = getattr(config, "box_scale", BOX_SCALE)
        if scale not in (1, BOX_SCALE):
            raise TargetError(f"config.json: box_scale is 1 or {BOX_SCALE}")
        self.resolution: tuple[int, int] | None = images.size
        self.needs_image = True
        longest = tokenizer.model_max_length
        self.max_tokens = int(longest) if longest < VERY_LARGE_INTEGER else MAX_TOKENS
        self.max_new_tokens = LONGEST_ANSWER
        self.forbidden = never_spoken(tokenizer, config)
        self.ends = frozenset({config.eos_token_id})
        self._tokenizer = tokenizer
        self._end, self._pad = config.eos_token_id, config.pad_token_id
        self._box_unit, self._box_dtype = (1, torch.long) if scale == BOX_SCALE else (BOX_SCALE, torch.float32)
        self._images = images
        self._prompt = prompt
        self._marks = marks_of(tokenizer)
        self._rows = lru_cache(ROWS_KEPT)(self._laid_out)

    @property
    def tokenizer(self) -> Any:
        """See `TokenReader.tokenizer`."""
        return self._tokenizer

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.prompts`: `input_ids`, `bbox`, `attention_mask`, `pixel_values`."""
        rows = [self._row(sample) for sample in samples]
        inputs = padded(rows, max(len(row.ids) for row in rows), self._pad, self._box_dtype)
        return {**inputs, "pixel_values": self._images(samples)}

    def taught(self, samples: Sequence[Sample]) -> Inputs:
        """See `Reader.taught`; in training rows are padded as `UdopProcessor` pads them."""
        return {**self.prompts(samples), "labels": labels_of([self._answer(sample) for sample in samples])}

    def alike(self, sample: Sample) -> object:
        """See `Reader.alike`: no sample is like another."""
        return sample

    def text_of(self, ids: Sequence[int]) -> str:
        """See `Reader.text_of`."""
        spoken = [token for token in ids if token not in self.forbidden]
        text: str = self._tokenizer.decode(spoken, clean_up_tokenization_spaces=False)
        return text.strip()

    def page_tokens(self, view: PageView, question: str) -> PageTokens:
        """See `TokenReader.page_tokens`."""
        return self._rows(view.words, view.size, question).page

    def _row(self, sample: Sample) -> SampleRow:
        return self._rows(sample.view.words, sample.view.size, sample.question).holding(sample.tokens)

    def _laid_out(self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str) -> SampleRow:
        encoded = self._tokenizer(
            [self._prompt.replace(QUESTION, self._marks.sub(" ", question))],
            text_pair=[[self._marks.sub(" ", word.text) for word in words]],
            boxes=[boxes_of(PageView(words, size))],
            # The longer of the two loses its end first: the words, unless a question is longer than the page.
            truncation="longest_first",
            max_length=self.max_tokens,
        )
        of_page = zip(encoded.sequence_ids(0), encoded.word_ids(0), strict=True)
        return SampleRow(
            encoded["input_ids"][0],
            [self._own(box) for box in encoded["bbox"][0]],
            [word if sequence == 1 else None for sequence, word in of_page],
        )

    def _own(self, box: Sequence[float]) -> Box:
        x0, y0, x1, y1 = (value / self._box_unit for value in box)
        return x0, y0, x1, y1

    def _answer(self, sample: Sample) -> list[int]:
        return answer_ids(self._tokenizer, self._end, self._marks.sub(" ", sample.answer or ""), self.max_new_tokens)


def reader_of(folder: CheckpointFolder, config: Any, prompt: str | None = None) -> UdopReader:
    """The reader of a checkpoint.

    Args:
        folder: holds tokenizer.json and the image processor's settings.
        config: the checkpoint's.
        prompt: in place of `PROMPT`.

    Raises:
        TargetError: they cannot be used, or are not the model's; or see `UdopReader`.
    """
    tokenizer = load_fast_tokenizer(folder, config)
    if not hasattr(tokenizer, "sep_token_box"):
        raise TargetError(f"{folder}: the tokenizer is not UDOP's", "save the UdopTokenizer beside the model")
    processor = image_processor_of(folder)
    processor.apply_ocr = False  # The audit's words are the corpus's, whatever the checkpoint's own OCR would read.
    images = PageImages(processor, side_lengths(config.image_size))
    return UdopReader(tokenizer, config, images, PROMPT if prompt is None else prompt)
