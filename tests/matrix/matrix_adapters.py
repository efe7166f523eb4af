"""Tiny adapters over tiny models, each with its base beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adapters
import encoder_zoo
import text_zoo
import vlm_zoo


def tagger(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA with its head over a BERT that predicts masked tokens."""
    from transformers import BertForTokenClassification

    base = encoder_zoo.write_encoder(_beside(folder), "bert", labels=labels, seed=seed)
    _adapt(BertForTokenClassification.from_pretrained(base), folder, "TOKEN_CLS", ["query", "value"])


def decoder(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA over a language model."""
    from transformers import AutoModelForCausalLM

    base = text_zoo.write_text_model(_beside(folder), "qwen2", seed)
    _adapt(AutoModelForCausalLM.from_pretrained(base), folder, "CAUSAL_LM", ["q_proj", "v_proj"])


def llava(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA over a model that reads images and text."""
    from transformers import AutoModelForImageTextToText

    base = vlm_zoo.write_vlm(_beside(folder), "llava", seed)
    _adapt(AutoModelForImageTextToText.from_pretrained(base), folder, None, ["q_proj", "v_proj"])


def _beside(folder: Path) -> Path:
    return folder.parent / f"{folder.name}-base"


def _adapt(base: Any, folder: Path, kind: str | None, targets: Sequence[str]) -> None:
    import peft

    adapters.adapted(base, folder, peft.LoraConfig(r=4, target_modules=list(targets), task_type=kind))
