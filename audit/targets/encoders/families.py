"""The families of encoder checkpoints: their classes, and the form in which each takes boxes.

transformers' own tables say which class a checkpoint's `model_type` and head are; `FAMILIES` holds what is special.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import (
    BertForMaskedLM,
    BertForTokenClassification,
    BrosForTokenClassification,
    BrosSpadeEEForTokenClassification,
    BrosSpadeELForTokenClassification,
    LayoutLMForMaskedLM,
    LayoutLMForTokenClassification,
    LayoutLMv3ForTokenClassification,
    LiltForTokenClassification,
    RobertaForMaskedLM,
    RobertaForTokenClassification,
    XLMRobertaForMaskedLM,
    XLMRobertaForTokenClassification,
)
from transformers.models.auto import modeling_auto

from audit import plugins
from audit.arrays import Floats, Ints
from audit.targets.encoders.bros_mlm import BrosForMaskedLM
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.image_branch import (
    BrosImageForMaskedLM,
    BrosImageForTokenClassification,
    BrosImageSpadeForExtraction,
    BrosImageSpadeForLinking,
    LayoutLMImageForMaskedLM,
    LayoutLMImageForTokenClassification,
    LayoutLMImageSpadeForExtraction,
    LayoutLMImageSpadeForLinking,
)
from audit.targets.encoders.page_images import ImageInput
from audit.targets.encoders.spade import LayoutLMSpadeForExtraction, LayoutLMSpadeForLinking

LAYOUTLM_SCALE = 1000
"""LayoutLM's boxes are whole numbers from 0 to 1000 (Xu et al. 2020, section 2.2)."""


UNBOUNDED = 512
"""Tokens of a page for models whose configuration sets no limit (ours; what BERT reads)."""


def _blind(config: Any) -> ImageInput | None:
    return None


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
            nothing else; None: the model's own forward pass scores tokens (`own_head.own_scores`).
        alone: whether pages go through the model one by one, because those beside one would change its last bits.
        counts_from_padding: whether positions are numbered from the one after the padding token's id, as in RoBERTa.
    """

    name: str
    encoder: str
    heads: dict[HeadName, type[Any]]
    boxes: Callable[[Floats], NDArray[Any]] | None
    sight_of: Callable[[Any], ImageInput | None] = _blind
    vocabulary_head: str | None = "cls"
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


def _thousandths(boxes: Floats) -> Ints:
    # The small term keeps 0.7 / 100 * 1000 from becoming 6.
    return np.floor(boxes * LAYOUTLM_SCALE + 1e-6).astype(np.int64)


def _shares(boxes: Floats) -> NDArray[np.float32]:
    return boxes.astype(np.float32)


def _image_branch(config: Any) -> ImageInput | None:
    return ImageInput((config.image_size, config.image_size), "visual_embeds")


def _image_patches(config: Any) -> ImageInput | None:
    """LayoutLMv3 reads the patches of the picture, and a [CLS] of theirs, as tokens after the text's."""
    if not config.visual_embed:
        return None
    side = config.input_size // config.patch_size
    return ImageInput((config.input_size, config.input_size), "pixel_values", n_appended=side * side + 1)


FAMILIES: dict[str, Family] = {
    "layoutlm": Family(
        "LayoutLM",
        "layoutlm",
        {
            "mlm": LayoutLMForMaskedLM,
            "token-classification": LayoutLMForTokenClassification,
            "spade-extraction": LayoutLMSpadeForExtraction,
            "spade-linking": LayoutLMSpadeForLinking,
        },
        _thousandths,
    ),
    "bros": Family(
        "BROS",
        "bros",
        {
            "mlm": BrosForMaskedLM,
            "token-classification": BrosForTokenClassification,
            "spade-extraction": BrosSpadeEEForTokenClassification,
            "spade-linking": BrosSpadeELForTokenClassification,
        },
        _shares,
    ),
    "docaudit-layoutlm-image": Family(
        "LayoutLM with images",
        "layoutlm",
        {
            "mlm": LayoutLMImageForMaskedLM,
            "token-classification": LayoutLMImageForTokenClassification,
            "spade-extraction": LayoutLMImageSpadeForExtraction,
            "spade-linking": LayoutLMImageSpadeForLinking,
        },
        _thousandths,
        _image_branch,
    ),
    "docaudit-bros-image": Family(
        "BROS with images",
        "bros",
        {
            "mlm": BrosImageForMaskedLM,
            "token-classification": BrosImageForTokenClassification,
            "spade-extraction": BrosImageSpadeForExtraction,
            "spade-linking": BrosImageSpadeForLinking,
        },
        _shares,
        _image_branch,
    ),
    "layoutlmv3": Family(
        "LayoutLMv3",
        "layoutlmv3",
        {"token-classification": LayoutLMv3ForTokenClassification},
        _thousandths,
        _image_patches,
        counts_from_padding=True,
    ),
    "lilt": Family(
        "LiLT", "lilt", {"token-classification": LiltForTokenClassification}, _thousandths, counts_from_padding=True
    ),
    "roberta": Family(
        "RoBERTa",
        "roberta",
        {"mlm": RobertaForMaskedLM, "token-classification": RobertaForTokenClassification},
        None,
        vocabulary_head="lm_head",
        counts_from_padding=True,
    ),
    "xlm-roberta": Family(
        "XLM-RoBERTa",
        "roberta",
        {"mlm": XLMRobertaForMaskedLM, "token-classification": XLMRobertaForTokenClassification},
        None,
        vocabulary_head="lm_head",
        counts_from_padding=True,
    ),
    "bert": Family("BERT", "bert", {"mlm": BertForMaskedLM, "token-classification": BertForTokenClassification}, None),
}
"""What is special of a family, by the `model_type` of its configuration; the heads that it does not name are
transformers' own."""
_CLASSES: dict[HeadName, dict[str, Any]] = {
    "mlm": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "token-classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "document-classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
}
_WRITTEN = {
    "albert": "ALBERT",
    "camembert": "CamemBERT",
    "deberta": "DeBERTa",
    "deberta-v2": "DeBERTa-v2",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "longformer": "Longformer",
    "modernbert": "ModernBERT",
    "mpnet": "MPNet",
}
"""Names as people write them, where transformers' classes are spelled in another way."""
_ALONE = {"longformer"}
"""Its global attention sums in an order that follows the number of pages."""
_READS_PADDING = "it reads the padding behind a page, so that answers would follow the padding"
LEFT_OUT = {
    **dict.fromkeys(("bart", "mbart", "mvp"), "it writes text"),
    **dict.fromkeys(("esm", "esmc"), "it reads proteins"),
    **dict.fromkeys(("modernvbert", "neomme", "ultravbert"), "it reads pictures and text together"),
    **dict.fromkeys(("convbert", "fnet", "mobilebert", "nystromformer", "yoso"), _READS_PADDING),
    "big_bird": "its attention to a page follows the pages before",
    "funnel": "it shortens pages on the way",
    "ibert": "it computes with whole numbers",
    "mra": "its attention is computed by code for one kind of GPU",
    "perceiver": "it reads bytes",
    "reformer": "it reads text of one length",
    "squeezebert": "it has no dense layers",
    "tapas": "it reads tables",
    "xmod": "it must be told the language of each page",
}
"""Masked language models of transformers that are no family, and why."""


@lru_cache(maxsize=256)
def family_of(kind: str) -> Family | None:
    """The family of encoders with this `model_type`; None where it is none that reads the words of a page.

    That are the families of `FAMILIES`, those of extensions, and all that transformers has a masked language model of
    but for `LEFT_OUT`.
    """
    special = _special().get(kind)
    classes = {head: names[kind] for head, names in _CLASSES.items() if kind in names}
    if special is None and ("mlm" not in classes or kind in LEFT_OUT):
        return None
    heads: dict[HeadName, type[Any]] = {head: getattr(transformers, name) for head, name in classes.items()}
    if special is not None:
        return replace(special, heads={**heads, **special.heads})
    model_class = heads["mlm"]
    return Family(
        _WRITTEN.get(kind, model_class.__name__.removesuffix("ForMaskedLM").removesuffix("WithLMHeadModel")),
        model_class.base_model_prefix,
        heads,
        None,
        vocabulary_head=None,
        counts_from_padding=_counts_from_padding(model_class),
        alone=kind in _ALONE,
    )


def known_families() -> dict[str, Family]:
    """The families that people use, by `model_type`: those of `FAMILIES`, and some of transformers' many others."""
    return {kind: family for kind in (*_special(), *_WRITTEN) if (family := family_of(kind)) is not None}


def _special() -> dict[str, Family]:
    """Return `FAMILIES` and the families of encoders that extensions add."""
    added = plugins.load("docaudit.targets")
    return {**FAMILIES, **{kind: family for kind, family in added.items() if isinstance(family, Family)}}


def _counts_from_padding(model_class: type[Any]) -> bool:
    """True where the model numbers positions as RoBERTa does, with the function that transformers has for that."""
    module = sys.modules[model_class.__module__]
    return any(hasattr(one, "create_position_ids_from_input_ids") for one in (module, *vars(module).values()))
