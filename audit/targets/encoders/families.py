"""Families of encoders: what their models take, and the class of each head.

transformers' own tables name most; `audit/targets/families.toml` says what they cannot.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.models.auto import modeling_auto

from audit import plugins
from audit.arrays import Floats, Ints
from audit.targets import TABLE
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.page_images import ImageInput

LAYOUTLM_SCALE = 1000
"""LayoutLM's boxes are whole numbers from 0 to 1000 (Xu et al. 2020, section 2.2)."""
UNBOUNDED = 512
"""Tokens of a page for models whose configuration sets no limit (what BERT reads)."""


@dataclass(frozen=True)
class Family:
    """One family of checkpoint.

    Attributes:
        name: as people write it.
        encoder: the attribute of the model that holds its encoder.
        heads: the class for each head.
        boxes: turns shares of the page, (n_pages, n_tokens, 4) in [0, 1], into the model's own input; None: no layout.
        sight_of: how a model of this configuration sees the page's image; None: it sees none.
        vocabulary_head: the attribute of a masked language model that holds its head, which takes hidden states and
            nothing else; None: training runs the whole model.
        alone: whether pages go through the model one by one, because those beside one would change its last bits.
        counts_from_padding: whether positions are numbered from the one after the padding token's id, as in RoBERTa.
    """

    name: str
    encoder: str
    heads: dict[HeadName, type[Any]]
    boxes: Callable[[Floats], NDArray[Any]] | None
    sight_of: Callable[[Any], ImageInput | None] = lambda _: None
    vocabulary_head: str | None = None
    counts_from_padding: bool = False
    alone: bool = False

    def n_positions(self, config: Any) -> int:
        """The number of tokens of a page that have a position; `UNBOUNDED` where the configuration names none."""
        given = getattr(config, "max_position_embeddings", None)
        if not isinstance(given, int) or given < 1:
            return UNBOUNDED
        return given - ((config.pad_token_id or 0) + 1 if self.counts_from_padding else 0)

    def inputs(self, ids: Ints, attention_mask: Ints, boxes: Floats, device: str) -> dict[str, torch.Tensor]:
        """The keyword arguments of the model's (or its encoder's) forward pass, on `device`."""
        inputs: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": attention_mask}
        if self.boxes is not None:
            inputs["bbox"] = self.boxes(boxes)
        return {name: _on(device, torch.from_numpy(value)) for name, value in inputs.items()}


def _on(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on a device; from pinned memory to a GPU, so that the copy runs beside the computation."""
    return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor.to(device)


def thousandths(boxes: Floats) -> Ints:
    """Boxes in whole thousandths of the page, LayoutLM's unit."""
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    return np.floor(boxes * LAYOUTLM_SCALE + 1e-6).astype(np.int64)


def shares(boxes: Floats) -> NDArray[np.float32]:
    """Boxes as shares of the page, BROS's unit."""
    return boxes.astype(np.float32)


def _image_patches(config: Any) -> ImageInput | None:
    """LayoutLMv3 reads the patches of the picture, and a [CLS] of theirs, as tokens after the text's."""
    if not config.visual_embed:
        return None
    side = config.input_size // config.patch_size
    return ImageInput((config.input_size, config.input_size), "pixel_values", n_appended=side * side + 1)


_BOXES: dict[str | None, Callable[[Floats], NDArray[Any]]] = {"thousandths": thousandths, "shares": shares}
_CLASSES: dict[HeadName, dict[str, Any]] = {
    "mlm": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "token-classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "document-classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
}


@lru_cache(maxsize=256)
def family_of(kind: str) -> Family | None:
    """Find the family of encoders with this `model_type`; None where it is none that reads the words of a page.

    Those are the families of the table and of installed extensions, and all that transformers has a masked language
    model of but for those that the table leaves out.
    """
    added = plugins.find("docaudit.targets", kind)
    if isinstance(added, Family):
        return added
    own: dict[str, Any] = TABLE["encoders"].get(kind, {})
    named = {head: f"transformers:{names[kind]}" for head, names in _CLASSES.items() if kind in names}
    if kind in TABLE["left_out"] or ("mlm" not in named and not own):
        return None
    heads: dict[HeadName, type[Any]] = {
        head: resolve_name(name) for head, name in {**named, **own.get("heads", {})}.items()
    }
    model_class = next(iter(heads.values()))
    name = model_class.__name__.removesuffix("ForMaskedLM").removesuffix("WithLMHeadModel")
    return Family(
        own.get("name", name),
        model_class.base_model_prefix,
        heads,
        _BOXES.get(own.get("boxes")),
        _image_patches if own.get("sight") == "patches" else lambda _: None,
        own.get("head"),
        counts_from_padding=counts_from_padding(model_class),
        alone=own.get("alone", False),
    )


def family_named(kind: str) -> Family:
    """Return the family of encoders with this `model_type`.

    Raises:
        KeyError: there is none.
    """
    family = family_of(kind)
    if family is None:
        raise KeyError(kind)
    return family


def counts_from_padding(model_class: type[Any]) -> bool:
    """True where the model numbers positions as RoBERTa does, with the function that transformers has for that."""
    module = sys.modules[model_class.__module__]
    return any(hasattr(one, "create_position_ids_from_input_ids") for one in (module, *vars(module).values()))
