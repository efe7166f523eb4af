"""Pages as training examples: masking, padding and the batch a family of checkpoint reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling

from audit.arrays import Ints
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.families import Family
from audit.targets.encoders.heads import padded_labels


@dataclass(frozen=True, eq=False)
class Example:
    """One page to learn from, or to validate on.

    Attributes:
        page: as the checkpoint reads it.
        ids: (n_tokens,) its token ids, masked already where `labels` is given for a masked language model.
        labels: (n_tokens,) what the loss reads, `NOT_READ` elsewhere; None: mask anew whenever it is drawn. SPADE
            reads the page's links too, or (linking) instead of them; of a page with a class it is that alone, (1,).
    """

    page: Encoding
    ids: Ints
    labels: Ints | None


def labelled(page: Encoding) -> Example:
    """The page with the labels it carries; an example of a masked language model when it carries none."""
    if page.page_class is not None:
        return Example(page, page.ids, np.array([page.page_class], np.int64))
    return Example(page, page.ids, page.links if page.labels is None else page.labels)


class Collator:
    """Makes batches: masks pages that have no labels yet, pads to the longest page of the batch.

    Args:
        family: decides the form of the boxes.
        tokenizer: for its special tokens.
        mask_probability: the share of tokens that is predicted: 80 % of them become [MASK], 10 % a random token, 10 %
            stay (Devlin et al. 2019, section 3.1).
        seed: of the masks.
        sees_images: whether the model takes the pages' pictures.
    """

    def __init__(
        self, family: Family, tokenizer: Any, mask_probability: float, seed: int, sees_images: bool = False
    ) -> None:
        self._family = family
        self._sees_images = sees_images
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._masker = DataCollatorForLanguageModeling(tokenizer, mlm_probability=mask_probability, seed=seed)
        self._masker.create_rng()

    def masked(self, page: Encoding) -> Example:
        """The page with a mask drawn once."""
        special = torch.from_numpy(page.words < 0)[None]
        ids, labels = self._masker.torch_mask_tokens(torch.from_numpy(page.ids.copy())[None], special)
        return Example(page, ids[0].numpy(), labels[0].numpy())

    def __call__(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """The batch: the family's inputs and what the loss reads (`_targets`), as the models take them."""
        drawn = [self.masked(example.page) if example.labels is None else example for example in examples]
        length = max(len(example.ids) for example in drawn)
        shape = (len(drawn), length)
        ids = np.full(shape, self._pad_id, np.int64)
        attention = np.zeros(shape, np.int64)
        boxes = np.zeros((*shape, 4))
        for row, example in enumerate(drawn):
            n_tokens = len(example.ids)
            ids[row, :n_tokens] = example.ids
            boxes[row, :n_tokens] = example.page.boxes
            attention[row, :n_tokens] = 1
        batch = {**self._family.inputs(ids, attention, boxes, "cpu"), **_targets(drawn, length)}
        return {**batch, "pixel_values": _pixel_values(drawn)} if self._sees_images else batch


def _pixel_values(examples: Sequence[Example]) -> torch.Tensor:
    """The pages' pictures as the model takes them: (n_pages, 3, height, width)."""
    page_images = [example.page.page_image for example in examples]
    return torch.from_numpy(np.stack([page_image.values() for page_image in page_images if page_image is not None]))


def _targets(examples: Sequence[Example], length: int) -> dict[str, torch.Tensor]:
    """What the loss reads, all (n_pages, length), under the names of transformers' models.

    Taggers and masked language models take `labels`; classifiers of pages as well, (n_pages,). SPADE models take links,
    where `length` stands for "none", and which tokens are the first of their word.
    """
    if examples[0].page.page_class is not None:
        return {"labels": torch.tensor([example.page.page_class for example in examples])}
    labels = padded_labels([example.labels for example in examples], length)
    if examples[0].page.links is None:
        return {"labels": torch.from_numpy(labels)}
    links = padded_labels([example.page.links for example in examples], length)
    first = torch.from_numpy(labels != NOT_READ)
    links[links == NO_LINK] = length
    if examples[0].page.labels is None:
        return {"labels": torch.from_numpy(links), "bbox_first_token_mask": first}
    return {
        "initial_token_labels": torch.from_numpy(labels),
        "subsequent_token_labels": torch.from_numpy(links),
        "bbox_first_token_mask": first,
    }
