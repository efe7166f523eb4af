"""A sentence about all that can be audited, for a checkpoint of another kind."""

from __future__ import annotations

from typing import get_args

from audit.targets.encoders.families import LEFT_OUT, known_families
from audit.targets.encoders.heads import HEADS, HeadName

_VISUAL_BACKBONE = {"layoutlmv2": "LayoutLMv2 and LayoutXLM"}
_PICTURES_ALONE = {"beit": "BEiT or DiT", "vit": "ViT", "swin": "Swin", "convnext": "ConvNeXT"}


def unknown_hint(kind: str) -> str:
    """What to do about a checkpoint of a `model_type` that docaudit does not know."""
    if kind in _VISUAL_BACKBONE:
        return (
            f"{_VISUAL_BACKBONE[kind]} see pages through detectron2, which is on no package index: "
            "audit a LayoutLMv3 or a LiLT that was fine-tuned on the same documents"
        )
    if kind in _PICTURES_ALONE:
        return (
            f"a {_PICTURES_ALONE[kind]} classifies pictures alone; classifiers of pages must read words to be audited"
        )
    left_out = f"{kind} cannot be audited: {LEFT_OUT[kind]}; " if kind in LEFT_OUT else ""
    return f"{left_out}docaudit knows {known_models()}"


def known_models() -> str:
    """Every kind of model that can be audited, by what it is for."""
    # Both import what loads encoders.
    from audit.targets.answering.loading import KNOWN
    from audit.targets.nlu.loading import FAMILY as NLU

    families = known_families().values()
    parts = [
        f"for {HEADS[head].words}: {', '.join(family.name for family in families if head in family.heads)}"
        for head in get_args(HeadName)
    ]
    parts += [f"that answer questions: {KNOWN}"]
    parts += ["that point at answers: any with an extractive question answering head of transformers"]
    parts += [f"that name intents and slots: {NLU}"]
    return "models " + "; ".join(parts)
