"""Shared parts of text-and-layout readers: words with boxes, tokens of an answer, rows of a batch, page images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Box, Word
from audit.corpus.page_view import PageView
from audit.errors import TargetError
from audit.targets.answering.parts import image_of
from audit.targets.answering.reader import Inputs, PageTokens, Sample
from audit.targets.answering.wording import special_tokens
from audit.targets.checkpoint.folder import AnyFolder
from audit.targets.checkpoint.tokenizer import open_tokenizer, unpadded
from audit.targets.encoded_page import NOT_READ

BOX_SCALE = 1000
"""Boxes are whole thousandths of the page, as LayoutLM's (Xu et al. 2020, section 2.2)."""
NOWHERE: Box = (0, 0, 0, 0)
"""Of the end token and of padding, as in VT5's and UDOP's code."""
ROWS_KEPT = 64
"""Rows that a reader keeps without their sample's own tokens (ours): candidates for one place share all others."""


@dataclass(frozen=True)
class SampleRow:
    """The tokens of one sample, the end token included.

    Attributes:
        ids: of the tokens.
        boxes: of each token.
        words: the index of each token's word on the page; None for tokens that are not the page's.
    """

    ids: list[int]
    boxes: list[Box]
    words: list[int | None]

    @property
    def page(self) -> PageTokens:
        """The page's own tokens."""
        own = [(token, word) for token, word in zip(self.ids, self.words, strict=True) if word is not None]
        return PageTokens(tuple(token for token, _ in own), tuple(word for _, word in own))

    def holding(self, tokens: Sequence[int] | None) -> SampleRow:
        """This row with the first of `tokens` in place of the page's own ones, as many as there are; None: as it is."""
        if tokens is None:
            return self
        given = iter(tokens)
        ids = [own if word is None else next(given, own) for own, word in zip(self.ids, self.words, strict=True)]
        return SampleRow(ids, self.boxes, self.words)


def boxes_of(view: PageView) -> list[Box]:
    """The box of each word in thousandths of the page: whole numbers from 0 to 1000.

    Raises:
        TargetError: a word without a box, or a page without a size.
    """
    if not view.words:
        return []
    if view.size is None or any(word.box is None for word in view.words):
        raise TargetError("this model reads layout, and a page came without boxes", "add boxes and sizes")
    width, height = view.size
    pixels = np.array([word.box for word in view.words], float)
    shares = np.clip(pixels / [width, height, width, height], 0.0, 1.0)
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    whole = np.floor(shares * BOX_SCALE + 1e-6)
    return [(x0, y0, x1, y1) for x0, y0, x1, y1 in whole.tolist()]


def load_fast_tokenizer(folder: AnyFolder, config: Any) -> Any:
    """The checkpoint's own fast tokenizer.

    The model's configuration names the end and padding, so that also a tokenizer without them will do, such as BERT's.

    Raises:
        TargetError: there is none, or it is not the model's.
    """
    tokenizer = open_tokenizer(folder, ("pad", "unk"), ("tokenizer.json",))
    if len(tokenizer) > config.vocab_size:
        raise TargetError(f"{folder}: the tokenizer has {len(tokenizer)} tokens, the model {config.vocab_size}")
    if not isinstance(config.eos_token_id, int) or not isinstance(config.pad_token_id, int):
        raise TargetError(f"{folder}: config.json names no eos_token_id or no pad_token_id", "add the tokenizer's")
    return tokenizer


def never_spoken(tokenizer: Any, config: Any) -> frozenset[int]:
    """The tokens that are no part of an answer's text."""
    own = {config.eos_token_id, config.pad_token_id, config.decoder_start_token_id}
    return frozenset({*tokenizer.all_special_ids, *own} - {None})


def marks_of(tokenizer: Any) -> re.Pattern[str]:
    """A pattern for special tokens of the tokenizer in the text of a page or a question."""
    return re.compile("|".join(re.escape(mark) for mark in sorted(special_tokens(tokenizer), key=len, reverse=True)))


def tokens_of_words(tokenizer: Any, marks: re.Pattern[str], words: Sequence[Word]) -> PageTokens:
    """The tokens of a page's words, tokenised word by word; `marks` are read as spaces, see `marks_of`."""
    texts = [marks.sub(" ", word.text) for word in words]
    encoded = unpadded(tokenizer).encode(texts, is_pretokenized=True, add_special_tokens=False)
    return PageTokens(tuple(encoded.ids), tuple(encoded.word_ids))


def answer_ids(tokenizer: Any, end: int, answer: str, most: int) -> list[int]:
    """The tokens of an answer and its end, cut to `most`: an answer that is too long has no end."""
    ids: list[int] = unpadded(tokenizer).encode(answer, add_special_tokens=False).ids
    return [*ids, end][:most]


def padded(rows: Sequence[SampleRow], length: int, pad_id: int, dtype: torch.dtype = torch.long) -> Inputs:
    """Rows of one length, padded on the right: `input_ids`, `bbox` of `dtype`, zero for padding, `attention_mask`."""
    ids = torch.full((len(rows), length), pad_id)
    boxes = torch.zeros((len(rows), length, 4), dtype=dtype)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = torch.tensor(row.ids)
        boxes[number, : len(row.ids)] = torch.tensor(row.boxes, dtype=dtype)
        mask[number, : len(row.ids)] = 1
    return {"input_ids": ids, "bbox": boxes, "attention_mask": mask}


def labels_of(answers: Sequence[list[int]]) -> torch.Tensor:
    """Labels (n_samples, longest answer), `NOT_READ` after an answer's last token."""
    labels = torch.full((len(answers), max(map(len, answers))), NOT_READ)
    for number, ids in enumerate(answers):
        labels[number, : len(ids)] = torch.tensor(ids)
    return labels


class PageImages:
    """Makes `pixel_values` of pages with a checkpoint's image processor.

    Args:
        processor: see `audit.targets.answering.parts.image_processor_of`.
        size: height and width of the images that the model takes.

    Raises:
        TargetError: the processor makes images of another size.
    """

    def __init__(self, processor: Any, size: tuple[int, int]) -> None:
        self._processor = processor
        self.size = size
        made = tuple(self._pixels(np.zeros((64, 48, 3), np.uint8)).shape[-2:])
        if made != size:
            raise TargetError(
                f"the image processor makes images of {made} pixels (height, width), the model takes {size}",
                "save the image processor that the model was trained with beside it",
            )

    def __call__(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The pages' images: (n_samples, 3, height, width); samples of one page view share the work.

        Raises:
            TargetError: a page without an image.
        """
        views = {id(sample.view): sample for sample in samples}
        made = {view: self._pixels(image_of(sample)) for view, sample in views.items()}
        return torch.cat([made[id(sample.view)] for sample in samples])

    def _pixels(self, page: Any) -> torch.Tensor:
        # A page can be a few pixels wide: its shape does not tell which of its sides is the channels'.
        made = self._processor([page], input_data_format="channels_last", return_tensors="pt")
        pixels: torch.Tensor = made["pixel_values"]
        return pixels


def side_lengths(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width of a configuration's `image_size`, which is a square's side where it is one number."""
    if isinstance(size, int):
        return size, size
    height, width = size
    return int(height), int(width)
