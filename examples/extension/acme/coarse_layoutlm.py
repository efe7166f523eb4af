"""LayoutLM with boxes in hundredths of the page."""

from __future__ import annotations

import numpy as np
from transformers import LayoutLMConfig, LayoutLMForTokenClassification

from audit.arrays import Floats, Ints
from audit.targets.encoders.families import Family


class CoarseLayoutLMConfig(LayoutLMConfig):
    """LayoutLM's configuration."""

    model_type = "coarse-layoutlm"


class CoarseLayoutLMForTokenClassification(LayoutLMForTokenClassification):
    """LayoutLM's tagger."""

    config_class = CoarseLayoutLMConfig


def hundredths(boxes: Floats) -> Ints:
    """Return boxes, shares of the page, in hundredths."""
    return np.floor(boxes * 100 + 1e-6).astype(np.int64)


HEADS = {"token-classification": CoarseLayoutLMForTokenClassification}
FAMILY = Family("LayoutLM with coarse boxes", "layoutlm", HEADS, hundredths)
