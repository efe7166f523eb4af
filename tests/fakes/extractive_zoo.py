"""Tiny checkpoints (random weights) that point at answers, of every family people use; made from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny

PICTURE = 32
WORD_PIECE = ("layoutlm", "bert", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert", "albert", "bart")
"""Families whose tiny checkpoints spell words in word pieces here; all others do in bytes."""
BYTE_PAIRS = ("layoutlmv3", "lilt", "roberta", "xlm-roberta", "camembert", "longformer")
FAMILIES = (*WORD_PIECE, *BYTE_PAIRS)
LAYOUT = ("layoutlm", "layoutlmv3", "lilt")
_AFTER_PADDING: dict[str, Any] = {
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "max_position_embeddings": tiny.POSITIONS + 2,
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "bart": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "pad_token_id": 0,
             "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3, "init_std": 0.2},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "electra": {"embedding_size": 16},
    "mpnet": {"pad_token_id": 0, "max_position_embeddings": tiny.POSITIONS + 1},
    "modernbert": {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3,
                   "global_attn_every_n_layers": 2, "initializer_cutoff_factor": 2.0},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6, "input_size": PICTURE, "patch_size": 16},
    "lilt": {"hidden_size": 48, "num_attention_heads": 4},
    "longformer": {"attention_window": [16, 16], "sep_token_id": 2},
}  # fmt: skip


def extractive_model(family: str, seed: int = 0, **settings: Any) -> Any:
    """A model with random weights: two layers of 32 units, 128 positions, whose answers differ from page to page."""
    import torch
    import transformers

    from audit.targets.extractive.target import HEADS

    model_class = getattr(transformers, HEADS[family])
    own: dict[str, Any] = {
        "vocab_size": len(tokenizer_of(family)),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": tiny.POSITIONS,
        "initializer_range": 0.2,
    }
    own |= _AFTER_PADDING if family in BYTE_PAIRS else {}
    own |= _SETTINGS.get(family, {})
    config = model_class.config_class(**{**own, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config).eval()


def tokenizer_of(family: str) -> Any:
    """A tokenizer with one token a character, which frames a question and a page as the family's own does."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    if family in BYTE_PAIRS:
        return tiny.bpe_tokenizer("layoutlmv3" if family == "layoutlmv3" else "roberta")
    inner = tiny.tokenizer().backend_tokenizer
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tiny.VOCABULARY.index("[CLS]")), ("[SEP]", tiny.VOCABULARY.index("[SEP]"))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=tiny.POSITIONS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def write_extractive(folder: Path, family: str, seed: int = 0, **settings: Any) -> Path:
    """Save a tiny checkpoint of the family, with its tokenizer and image processor; gives the folder back."""
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    extractive_model(family, seed, **settings).save_pretrained(folder)
    tokenizer_of(family).save_pretrained(folder)
    if family == "layoutlmv3":
        LayoutLMv3ImageProcessorPil(size={"height": PICTURE, "width": PICTURE}).save_pretrained(folder)
    return folder
