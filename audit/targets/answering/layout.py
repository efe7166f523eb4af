"""Readers of words with boxes: their rows and page images.

UDOP's (Tang et al. 2023) are as `UdopProcessor` makes them.

The question, with the task's prompt before it, is the first text; the page's words with their boxes
are the second.

Two things to know about transformers' UDOP (5.x):

- Its documentation and its processor give boxes in thousandths of the page, but the model takes
  shares of the page: it cuts coordinates at 1, so that every word stands in the page's far corner
  and takes the picture's last patch, and of the layout only the words' order from left to right and
  downwards is left. A checkpoint trained through the processor was trained so, and is read so here.
- Padding changes answers by more than rounding: patches stand after the padding, and padding claims
  the first patch. And pages of exactly one length that share a batch may still differ in their last
  bits from each alone, as such lengths do not fill the kernels' blocks. So every sample is asked
  alone, without padding, as by hand.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.targets import wording
from audit.targets.answering.pictures import image_of, image_processor_of
from audit.targets.answering.reader import (
    LONGEST_ANSWER,
    QUESTION,
    ApartReader,
    Inputs,
    PageTokens,
    Sample,
    with_mask,
)
from audit.targets.batching import bucket_of
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder
from audit.targets.checkpoint.loading import open_tokenizer, unpadded

BOX_SCALE = 1000
"""Boxes are whole thousandths of the page, as LayoutLM's (Xu et al. 2020, section 2.2)."""
NOWHERE: Box = (0, 0, 0, 0)
"""Of the end token and of padding, as in VT5's and UDOP's code."""
ROWS_KEPT = 64
"""Rows that a reader keeps without their sample's own tokens: candidates for one place share all
others."""


@dataclass(frozen=True)
class SampleRow:
    """The tokens of one sample, the end token included.

    Attributes:
        ids: ids of the tokens.
        boxes: boxes of each token.
        words: the index of each token's word on the page; None for tokens that are not the page's.
    """

    ids: list[int]
    boxes: list[Box]
    words: list[int | None]

    @property
    def page(self) -> PageTokens:
        """Return the ids and word indices of those tokens of the row that are the page's."""
        own = [
            (token, word)
            for token, word in zip(self.ids, self.words, strict=True)
            if word is not None
        ]
        return PageTokens(tuple(token for token, _ in own), tuple(word for _, word in own))

    def holding(self, tokens: Sequence[int] | None) -> SampleRow:
        """Return this row with its page's tokens replaced by `tokens`, from the first on.

        Where `tokens` are fewer, the last ones of the page stay. None: all stay.
        """
        if tokens is None:
            return self
        given = iter(tokens)
        ids = [
            own if word is None else next(given, own)
            for own, word in zip(self.ids, self.words, strict=True)
        ]
        return SampleRow(ids, self.boxes, self.words)


def boxes_of(view: PageView) -> list[Box]:
    """Return the box of each word in thousandths of the page: whole numbers from 0 to 1000.

    Raises:
        TargetError: a word without a box, or a page without a size.
    """
    if not view.words:
        return []
    if view.size is None or any(word.box is None for word in view.words):
        raise TargetError(
            "this model reads layout, and a page came without boxes", "add boxes and sizes"
        )
    width, height = view.size
    pixels = np.array([word.box for word in view.words], float)
    shares = np.clip(pixels / [width, height, width, height], 0.0, 1.0)
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    whole = np.floor(shares * BOX_SCALE + 1e-6)
    return [(x0, y0, x1, y1) for x0, y0, x1, y1 in whole.tolist()]


def load_fast_tokenizer(folder: AnyFolder, config: Any) -> Any:
    """Open the checkpoint's fast tokenizer, of a model that names its end and padding tokens.

    The model's configuration names the end and padding, so that also a tokenizer without them will
    do, such as BERT's.

    Raises:
        TargetError: there is none, or it is not the model's.
    """
    tokenizer = open_tokenizer(folder, ("pad", "unk"), config.vocab_size)
    if not isinstance(config.eos_token_id, int) or not isinstance(config.pad_token_id, int):
        raise TargetError(
            f"{folder}: config.json names no eos_token_id or no pad_token_id", "add the tokenizer's"
        )
    return tokenizer


def tokens_of_words(tokenizer: Any, marks: re.Pattern[str], words: Sequence[Word]) -> PageTokens:
    """Return the tokens of a page's words, tokenised word by word.

    `marks` are read as spaces, see `marks_of`.
    """
    texts = [marks.sub(" ", word.text) for word in words]
    encoded = unpadded(tokenizer).encode(texts, is_pretokenized=True, add_special_tokens=False)
    return PageTokens(tuple(encoded.ids), tuple(encoded.word_ids))


def padded(rows: Sequence[SampleRow], length: int, pad_id: int) -> Inputs:
    """Return rows as a model's inputs (n_rows, length), padded on the right.

    The inputs are `input_ids`, `bbox` (zero for padding) and `attention_mask`.
    """
    boxes = [[*row.boxes, *[NOWHERE] * (length - len(row.boxes))] for row in rows]
    own = with_mask([row.ids for row in rows], pad_id, length)
    return {**own, "bbox": torch.tensor(boxes, dtype=torch.long)}


class RowReader(ApartReader):
    """The base of readers of a page's words; see `audit.targets.answering.reader.TokenReader`.

    Args:
        tokenizer: a fast tokenizer.
        max_tokens: the longest row.
        max_new_tokens: the longest answer.
        end: the token that ends an answer.
        pad: what rows are padded with.
        images: makes the page's image; None: a model that sees none.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_tokens: int,
        max_new_tokens: int,
        end: int,
        pad: int,
        images: PageImages | None = None,
    ) -> None:
        super().__init__(tokenizer)
        self.resolution = None if images is None else images.size
        self.needs_image = images is not None
        self.max_tokens, self.max_new_tokens = max_tokens, max_new_tokens
        self.ends = frozenset({end})
        self._close, self._end, self._pad, self._images = [end], end, pad, images
        self._rows = lru_cache(ROWS_KEPT)(self._laid_out)

    _n_visual = 0

    @abstractmethod
    def _laid_out(
        self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str
    ) -> SampleRow:
        """Lay out a page of this size and a question as one row."""

    def page_tokens(self, view: PageView, question: str) -> PageTokens:
        """Return the page's tokens, with the word of each, in the row that asks a question."""
        return self._rows(view.words, view.size, question).page

    def alike(self, sample: Sample) -> object:
        """Return a batching key: samples with equal keys have rows of one padded length.

        The key is the padded length of the row, and the number of tokens of the answer.
        """
        return self._bucket(self._row(sample)), None if sample.answer is None else len(
            self._answer(sample)
        )

    def _bucket(self, row: SampleRow) -> int:
        """Return the padded length of a row, which is longer than the row.

        With the visual tokens it makes full blocks (see `audit.targets.batching`).
        """
        return bucket_of(len(row.ids), self._n_visual)

    def _row(self, sample: Sample) -> SampleRow:
        """Return a sample's row, with the sample's replacement tokens where it has some."""
        return self._rows(sample.view.words, sample.view.size, sample.question).holding(
            sample.tokens
        )


class LayoutReader(RowReader):
    """The base of readers of words with boxes.

    Args:
        tokenizer: a fast tokenizer; its own special tokens are not used.
        config: names the end and padding tokens.
        images: images, see `RowReader`.
        max_tokens: largest number of tokens, see `RowReader`.
    """

    def __init__(
        self, tokenizer: Any, config: Any, images: PageImages | None, max_tokens: int
    ) -> None:
        super().__init__(
            tokenizer, max_tokens, LONGEST_ANSWER, config.eos_token_id, config.pad_token_id, images
        )
        own = {config.eos_token_id, config.pad_token_id, config.decoder_start_token_id}
        self.forbidden = frozenset({*tokenizer.all_special_ids, *own} - {None})

    def prompts(self, samples: Sequence[Sample]) -> Inputs:
        """Return the inputs of `generate`: rows without answers, padded to one length.

        They are `input_ids`, `bbox`, `attention_mask`, and `pixel_values` where the model sees.
        """
        rows = [self._row(sample) for sample in samples]
        inputs = padded(rows, max(map(self._bucket, rows)), self._pad)
        if self._images is not None:
            inputs["pixel_values"] = self._images(samples)
        return inputs

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of a generated answer, without tokens that no answer may hold."""
        spoken = [token for token in ids if token not in self.forbidden]
        return str(self.tokenizer.decode(spoken, clean_up_tokenization_spaces=False)).strip()


class PageImages:
    """Makes `pixel_values` of pages with a checkpoint's image processor.

    Args:
        processor: processor, see `audit.targets.answering.pictures.image_processor_of`.
        size: height and width of the images that the model takes.

    Raises:
        TargetError: the processor makes images of another size.
    """

    def __init__(self, processor: Any, size: tuple[int, int]) -> None:
        """Check on a trial image that the processor makes images of the model's size."""
        self._processor = processor
        self.size = size
        made = tuple(self._pixels(np.zeros((64, 48, 3), np.uint8)).shape[-2:])
        if made != size:
            raise TargetError(*wording("other_image_size", made=made, size=size))

    def __call__(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return the pages' images: (n_samples, 3, height, width).

        Samples of one page view share the work.

        Raises:
            TargetError: a page without an image.
        """
        views = {id(sample.view): sample for sample in samples}
        made = {view: self._pixels(image_of(sample)) for view, sample in views.items()}
        return torch.cat([made[id(sample.view)] for sample in samples])

    def _pixels(self, page: Any) -> torch.Tensor:
        """Return one page's pixels as the processor scales them: (1, 3, height, width)."""
        # A page can be a few pixels wide: its shape does not tell which of its sides is the
        # channels'.
        made = self._processor([page], input_data_format="channels_last", return_tensors="pt")
        pixels: torch.Tensor = made["pixel_values"]
        return pixels


def side_lengths(size: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width in pixels from a configuration's `image_size`.

    It is a square's side where it is one number.
    """
    if isinstance(size, int):
        return size, size
    height, width = size
    return int(height), int(width)


UDOP_PROMPT = f"Question answering. {QUESTION}"
"""The prompt of UDOP's question-answering task (Tang et al. 2023, table 1), and transformers'
example."""
UDOP_TOKENS = 512
"""The longest text of a checkpoint whose tokenizer names none; UDOP's own have 512."""


class UdopReader(LayoutReader):
    """Implements `audit.targets.answering.reader.TokenReader` for transformers' UDOP.

    Args:
        tokenizer: a `UdopTokenizer`.
        config: names the end and padding tokens and the size of the image.
        images: makes the page's image.
        prompt: holds "{question}".
    """

    def __init__(
        self, tokenizer: Any, config: Any, images: PageImages, prompt: str = UDOP_PROMPT
    ) -> None:
        if QUESTION not in prompt:
            raise TargetError(f"UDOP's prompt holds {QUESTION}", f"as in {UDOP_PROMPT!r}")
        longest = tokenizer.model_max_length
        limit = int(longest) if longest < VERY_LARGE_INTEGER else UDOP_TOKENS
        super().__init__(tokenizer, config, images, limit)
        self._prompt = prompt

    def alike(self, sample: Sample) -> object:
        """Return the sample itself as its batching key, so that each sample is a batch."""
        return sample

    def _bucket(self, row: SampleRow) -> int:
        """Return the row's own length: a row that is alone in its batch has no padding."""
        return len(row.ids)

    def _laid_out(
        self, words: tuple[Word, ...], size: tuple[int, int] | None, question: str
    ) -> SampleRow:
        """Return one row of the prompt with the question, then the page's words and boxes."""
        encoded = self.tokenizer(
            [self._prompt.replace(QUESTION, self._marks.sub(" ", question))],
            text_pair=[[self._marks.sub(" ", word.text) for word in words]],
            boxes=[boxes_of(PageView(words, size))],
            # The longer of the two loses its end first: the words, unless a question is longer than
            # the page.
            truncation="longest_first",
            max_length=self.max_tokens,
        )
        of_page = zip(encoded.sequence_ids(0), encoded.word_ids(0), strict=True)
        return SampleRow(
            encoded["input_ids"][0],
            [(x0, y0, x1, y1) for x0, y0, x1, y1 in encoded["bbox"][0]],
            [word if sequence == 1 else None for sequence, word in of_page],
        )


def udop_reader(folder: CheckpointFolder, config: Any, prompt: str | None = None) -> UdopReader:
    """Return the reader of words, boxes and images for a UDOP checkpoint.

    Args:
        folder: holds tokenizer.json and the image processor's settings.
        config: the checkpoint's.
        prompt: prompt in place of `UDOP_PROMPT`.

    Raises:
        TargetError: they cannot be used, or are not the model's; or see `UdopReader`.
    """
    tokenizer = load_fast_tokenizer(folder, config)
    if not hasattr(tokenizer, "sep_token_box"):
        raise TargetError(
            f"{folder}: the tokenizer is not UDOP's", "save the UdopTokenizer beside the model"
        )
    processor = image_processor_of(folder)
    processor.apply_ocr = (
        False  # The audit's words are the corpus's, whatever the checkpoint's own OCR would read.
    )
    images = PageImages(processor, side_lengths(config.image_size))
    return UdopReader(tokenizer, config, images, UDOP_PROMPT if prompt is None else prompt)
