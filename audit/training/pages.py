"""Pages as training examples: masking, padding and the batch a family of checkpoint reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling

from audit.targets.families import Family
from audit.targets.interface import NOT_READ, Encoding, Ints


@dataclass(frozen=True, eq=False)
class Example:
    """One page to learn from, or to validate on.

    Attributes:
        page: as the checkpoint reads it.
        ids: (n_tokens,) its token ids, masked already where `labels` is given for a masked language model.
        labels: (n_tokens,) what the loss reads, `NOT_READ` elsewhere; None: mask anew whenever it is drawn.
    """

    page: Encoding
    ids: Ints
    labels: Ints | None


class Collator:
    """Makes batches: masks pages that have no labels yet, pads to the longest page of the batch.

    Args:
        family: decides the form of the boxes.
        tokenizer: for its special tokens.
        mask_probability: the share of tokens that is predicted: 80 % of them become [MASK], 10 % a random token, 10 %
            stay (Devlin et al. 2019, section 3.1).
        seed: of the masks.
    """

    def __init__(self, family: Family, tokenizer: Any, mask_probability: float, seed: int) -> None:
        self._family = family
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._masker = DataCollatorForLanguageModeling(tokenizer, mlm_probability=mask_probability, seed=seed)
        self._masker.create_rng()

    def masked(self, page: Encoding) -> Example:
        """The page with a mask drawn once."""
        special = torch.from_numpy(page.words < 0)[None]
        ids, labels = self._masker.torch_mask_tokens(torch.from_numpy(page.ids.copy())[None], special)
        return Example(page, ids[0].numpy(), labels[0].numpy())

    def __call__(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """The batch: the family's inputs and `labels`, all (n_pages, n_tokens) or (n_pages, n_tokens, 4)."""
        drawn = [self.masked(example.page) if example.labels is None else example for example in examples]
        length = max(len(example.ids) for example in drawn)
        shape = (len(drawn), length)
        ids = np.full(shape, self._pad_id, np.int64)
        attention = np.zeros(shape, np.int64)
        boxes = np.zeros((*shape, 4))
        labels = np.full(shape, NOT_READ, np.int64)
        for row, example in enumerate(drawn):
            n_tokens = len(example.ids)
            assert example.labels is not None
            ids[row, :n_tokens] = example.ids
            labels[row, :n_tokens] = example.labels
            boxes[row, :n_tokens] = example.page.boxes
            attention[row, :n_tokens] = 1
        return {**self._family.inputs(ids, attention, boxes, "cpu"), "labels": torch.from_numpy(labels)}
