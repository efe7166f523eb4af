"""Tiny sentence embedders (random weights), made from a seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tiny

KINDS = ("bert", "distilbert", "mpnet", "roberta", "xlm-roberta")
"""As `model_type` in a configuration."""
MODULES = tuple(
    {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for index, (kind, path) in enumerate([("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")])
)
MEAN = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
CLS = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def encoder(kind: str = "bert", seed: int = 0) -> Any:
    """An encoder of two layers of 32 units, 128 positions."""
    import torch
    from transformers import AutoConfig, AutoModel

    of_bpe = kind in ("roberta", "xlm-roberta")
    tokenizer = tiny.bpe_tokenizer() if of_bpe else tiny.tokenizer()
    offset = 0 if kind in ("bert", "distilbert") else 2
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        **({"hidden_dim": 48} if kind == "distilbert" else {}),
        max_position_embeddings=tiny.POSITIONS + offset,
        pad_token_id=1 if offset else 0,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModel.from_config(config)


def checkpoint(folder: Path, kind: str = "bert", pooling: Any = None, modules: Any = None, seed: int = 0) -> Path:
    """Save an encoder with its tokenizer, and what sentence-transformers would write; gives the folder back."""
    encoder(kind, seed).save_pretrained(folder)
    (tiny.bpe_tokenizer() if kind in ("roberta", "xlm-roberta") else tiny.tokenizer()).save_pretrained(folder)
    if modules is not None:
        (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    return folder
