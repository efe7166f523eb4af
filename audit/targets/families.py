"""The families of encoder checkpoints: their classes, and the form in which each takes boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    BertForMaskedLM,
    BertForTokenClassification,
    BrosForTokenClassification,
    LayoutLMForMaskedLM,
    LayoutLMForTokenClassification,
)

from audit.targets.bros_mlm import BrosForMaskedLM
from audit.targets.heads import HeadName
from audit.targets.interface import Floats, Ints

LAYOUTLM_SCALE = 1000
"""LayoutLM's boxes are whole numbers from 0 to 1000 (Xu et al. 2020, section 2.2)."""


@dataclass(frozen=True)
class Family:
    """One family of checkpoint.

    Attributes:
        name: as people write it.
        encoder: the attribute of the model that holds its encoder.
        heads: the class for each head.
        boxes: turns shares of the page, (n_pages, n_tokens, 4) in [0, 1], into the model's own input; None: no layout.
    """

    name: str
    encoder: str
    heads: dict[HeadName, type[Any]]
    boxes: Callable[[Floats], NDArray[Any]] | None

    def inputs(self, ids: Ints, attention_mask: Ints, boxes: Floats, device: str) -> dict[str, torch.Tensor]:
        """The keyword arguments of the model's (or its encoder's) forward pass, on `device`."""
        inputs: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": attention_mask}
        if self.boxes is not None:
            inputs["bbox"] = self.boxes(boxes)
        return {name: torch.from_numpy(value).to(device) for name, value in inputs.items()}


def _thousandths(boxes: Floats) -> Ints:
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    return np.floor(boxes * LAYOUTLM_SCALE + 1e-6).astype(np.int64)


def _shares(boxes: Floats) -> NDArray[np.float32]:
    return boxes.astype(np.float32)


FAMILIES: dict[str, Family] = {
    "layoutlm": Family(
        "LayoutLM",
        "layoutlm",
        {"mlm": LayoutLMForMaskedLM, "token-classification": LayoutLMForTokenClassification},
        _thousandths,
    ),
    "bros": Family(
        "BROS",
        "bros",
        {"mlm": BrosForMaskedLM, "token-classification": BrosForTokenClassification},
        _shares,
    ),
    "bert": Family("BERT", "bert", {"mlm": BertForMaskedLM, "token-classification": BertForTokenClassification}, None),
}
"""Families by the `model_type` of their configuration."""
