"""Encoders under a head, which learn from pages: masked language models, taggers, classifiers, SPADE heads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Document
from audit.extensions.private.learners.answering import mean_costs
from audit.extensions.private.units import Batch, Learner
from audit.references.encoders import Collator, Example, labelled, save
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import family_of
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.models import masked_relations

LENGTHS = 64
"""Pages share a batch when their lengths lie between the same multiples of this (ours): padding stays small."""
_TARGETS = ("labels", "initial_token_labels", "subsequent_token_labels", "bbox_first_token_mask", "read_at")


class EncoderLearner(Learner):
    """An encoder under a head; a sample is a page.

    Args:
        model: a transformers model of a known family.
        encoder: makes its pages.
        start: the checkpoint that it starts from: the settings of its image processor go along.
        mask_probability: the share of tokens predicted on a page (masked language models only).
        device: "cpu", "cuda" or "mps".
    """

    def __init__(self, model: Any, encoder: Encoder, start: Path, mask_probability: float, device: str) -> None:
        self.model: Any = model.to(device).eval()
        self.device = device
        self._encoder = encoder
        self._start = start
        family = family_of(model.config.model_type)
        assert family is not None, "only models of known families are put under a head"
        self._family = family
        self._collator = self._collate_with(mask_probability, seed=0)
        self._mask_probability = mask_probability
        self._costs_of = self._costs_of_head(encoder.task)

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Example, ...]:
        """See `Learner.samples_of`: the page where the loss reads anything of it; of a longer one its beginning."""
        page = self._encoder.encode(document)
        if page is None:
            return ()
        if self._encoder.task == "mlm":
            return (self._masked(page, rng),)
        return (labelled(page),) if page.has_loss else ()

    def alike(self, sample: Example) -> Hashable:
        """See `Learner.alike`."""
        return len(sample.ids) // LENGTHS

    def collate(self, samples: Sequence[Example]) -> Batch:
        """See `Learner.collate`."""
        batch = self._collator(samples)
        if self._encoder.task == "mlm":
            batch["read_at"], batch["labels"] = _read_only(batch["labels"])
        return {name: value.to(self.device) for name, value in batch.items()}

    def losses(self, batch: Batch) -> torch.Tensor:
        """See `Learner.losses`."""
        return self._costs_of({name: value for name, value in batch.items() if name not in _TARGETS}, batch)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """See `Learner.save`."""
        save(self.model, self._encoder.tokenizer, folder, half=half, processor_of=self._start)

    def _collate_with(self, mask_probability: float, seed: int) -> Collator:
        sees_images = self._family.sight_of(self.model.config) is not None
        return Collator(self._family, self._encoder.tokenizer, mask_probability, seed, sees_images)

    def _masked(self, page: Encoding, rng: np.random.Generator) -> Example:
        """The page under a mask that hides something: there would be no loss of a page that shows everything."""
        masker = self._collate_with(self._mask_probability, int(rng.integers(2**31)))
        example = masker.masked(page)
        while example.labels is None or not (example.labels != NOT_READ).any():
            example = masker.masked(page)
        return example

    def _costs_of_head(self, head: HeadName) -> Callable[[Batch, Batch], torch.Tensor]:
        return {
            "mlm": self._masked_costs,
            "token-classification": self._tag_costs,
            "document-classification": self._class_costs,
            "spade-extraction": self._extraction_costs,
            "spade-linking": self._linking_costs,
        }[head]

    def _masked_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """The vocabulary's scores are computed for the predicted tokens only, a seventh of all, where that can be."""
        named = self._family.vocabulary_head
        if named is None:
            scores = self.model(**inputs).logits
            at = batch["read_at"][..., None].expand(-1, -1, scores.shape[-1])
            return mean_costs(scores.gather(1, at), batch["labels"])
        hidden = getattr(self.model, self._family.encoder)(**inputs).last_hidden_state
        at = batch["read_at"][..., None].expand(-1, -1, hidden.shape[-1])
        return mean_costs(getattr(self.model, named)(hidden.gather(1, at)), batch["labels"])

    def _tag_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        return mean_costs(self.model(**inputs).logits, batch["labels"])

    def _class_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        return mean_costs(self.model(**inputs).logits[:, None], batch["labels"][:, None])

    def _extraction_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        output = self.model(**inputs)
        classes = mean_costs(output.initial_token_logits, batch["initial_token_labels"])
        return classes + mean_costs(output.subsequent_token_logits, batch["subsequent_token_labels"])

    def _linking_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        # transformers' BROS masks its scores only where it is to compute its own loss.
        scores = masked_relations(self.model(**inputs).logits, batch["bbox_first_token_mask"])
        return mean_costs(scores, batch["labels"])


def _read_only(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the labels that are read, and these labels, (n_pages, most read of a page): padding is not read."""
    read = labels != NOT_READ
    order = torch.argsort((~read).long(), dim=1, stable=True)[:, : int(read.sum(dim=1).max())]
    return order, labels.gather(1, order)
