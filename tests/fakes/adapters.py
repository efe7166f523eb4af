"""Tiny adapters that PEFT itself makes and writes, over tiny checkpoints."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny
import torch

from audit.targets.checkpoint.safety import quiet

TARGETS = ["query", "value"]


def spoilt(model: Any, seed: int = 1, size: float = 0.2) -> Any:
    """The adapter as training might leave it: all that it trains moved at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.requires_grad:
                weights.add_(size * torch.randn(weights.shape, generator=generator))
    return model.eval()


def adapted(base: Any, folder: Path, config: Any, change: Callable[[Any], object] = spoilt) -> Any:
    """Wrap a model with an adapter, change that, and save it in `folder`.

    Gives the wrapped model back.
    """
    import peft

    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = peft.get_peft_model(base, config)
        change(wrapped)
        wrapped.save_pretrained(folder)
    return wrapped.eval()


def tagger(base: Path, folder: Path, **more: Any) -> Any:
    """A LoRA with its head over the masked language model or tagger in `base`, saved in `folder`."""
    import peft
    from transformers import BertForTokenClassification

    given = {"r": 4, "target_modules": TARGETS, "task_type": "TOKEN_CLS", **more}
    with quiet():
        model = BertForTokenClassification.from_pretrained(base, num_labels=len(tiny.LABELS))
    return adapted(model, folder, peft.LoraConfig(**given))
