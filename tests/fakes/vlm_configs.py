"""The settings of tiny image-text-to-text models, by family; what depends on the tokenizer is a function of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Settings = dict[str, Any]


def text(words: Any, kind: str, **more: Any) -> Settings:
    """The settings of a tiny decoder."""
    return {
        "model_type": kind,
        "vocab_size": len(words),
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 1024,
        "bos_token_id": words.bos_token_id,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        **more,
    }


def vision(kind: str, *, size: int = 16, patch: int = 8, **more: Any) -> Settings:
    """The settings of a tiny picture encoder."""
    return {
        "model_type": kind,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": size,
        "patch_size": patch,
        **more,
    }


def mrope(words: Any, kind: str, **more: Any) -> Settings:
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    return text(words, kind, rope_parameters=rope, **more)


def numbers_of(words: Any, **marks: str) -> dict[str, int]:
    return {name: words.convert_tokens_to_ids(mark) for name, mark in marks.items()}


QWEN2 = {
    "depth": 1,
    "embed_dim": 16,
    "hidden_size": 16,
    "num_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN25 = {
    "depth": 2,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 16,
    "fullatt_block_indexes": [1],
    "out_hidden_size": 16,
}
QWEN3 = {
    "depth": 2,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 16,
    "num_position_embeddings": 16,
    "deepstack_visual_indexes": [0],
}


def pixtral(words: Any) -> Settings:
    return {
        "text_config": text(words, "mistral"),
        "vision_config": vision("pixtral", size=32, patch=4, head_dim=8),
        "image_token_index": words.convert_tokens_to_ids("[IMG]"),
        "spatial_merge_size": 2,
    }


def mllama(words: Any) -> Settings:
    see = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_global_layers": 1,
        "attention_heads": 2,
        "intermediate_size": 24,
        "vision_output_dim": 32,
        "image_size": 16,
        "patch_size": 8,
        "max_num_tiles": 4,
        "intermediate_layers_indices": [0],
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [3, 1], [1, 4], [4, 1]],
    }
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    own = text(words, "mllama_text_model", num_hidden_layers=2, cross_attention_layers=[0], rope_parameters=rope)
    # The image's mark has no row among those that the model scores.
    own["vocab_size"] = len(words) - 1
    return {"text_config": own, "vision_config": see, "image_token_index": words.convert_tokens_to_ids("<|image|>")}


def florence2(words: Any) -> Settings:
    own = {
        "model_type": "bart",
        "vocab_size": len(words),
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 512,
        "bos_token_id": words.bos_token_id,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "decoder_start_token_id": words.eos_token_id,
        "forced_eos_token_id": None,
    }
    see = {
        "depths": [1, 1],
        "patch_size": [7, 3],
        "patch_stride": [4, 2],
        "patch_padding": [3, 1],
        "patch_prenorm": [False, True],
        "embed_dim": [8, 16],
        "num_heads": [2, 2],
        "num_groups": [2, 2],
        "window_size": 4,
        "projection_dim": 16,
    }
    return {
        "text_config": own,
        "vision_config": see,
        "image_token_id": words.convert_tokens_to_ids("<image>"),
        "bos_token_id": words.bos_token_id,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "decoder_start_token_id": words.eos_token_id,
    }


def got(words: Any) -> Settings:
    see = {
        "hidden_size": 16,
        "output_channels": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 128,
        "patch_size": 2,
        "mlp_dim": 24,
        "window_size": 8,
        "global_attn_indexes": [],
    }
    # The network behind this picture encoder halves each side twice, and its processor counts on 256 of its vectors.
    return {
        "text_config": text(words, "qwen2"),
        "vision_config": see,
        "image_token_index": words.convert_tokens_to_ids("<imgpad>"),
        "image_seq_length": 256,
    }


def blip2(language: Callable[[Any], Settings]) -> Callable[[Any], Settings]:
    former = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "encoder_hidden_size": 16,
        "vocab_size": 8,
    }
    see = {k: v for k, v in vision("blip_2_vision_model").items() if k != "model_type"}
    return lambda words: {
        "text_config": language(words),
        "vision_config": see,
        "qformer_config": former,
        "num_query_tokens": 4,
        "image_token_index": words.convert_tokens_to_ids("<image>"),
    }


def opt(words: Any) -> Settings:
    own = text(words, "opt", ffn_dim=24, word_embed_proj_dim=16, max_position_embeddings=512)
    return {key: value for key, value in own.items() if key not in ("head_dim", "num_key_value_heads")}


def t5(words: Any) -> Settings:
    return {
        "model_type": "t5",
        "vocab_size": len(words),
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 24,
        "num_layers": 1,
        "num_heads": 2,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "decoder_start_token_id": words.pad_token_id,
    }


def kosmos(words: Any) -> Settings:
    own = {
        "vocab_size": len(words),
        "max_position_embeddings": 512,
        "embed_dim": 16,
        "layers": 1,
        "ffn_dim": 24,
        "attention_heads": 2,
        "bos_token_id": words.bos_token_id,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
    }
    see = {
        "hidden_size": 8,
        "patch_embed_hidden_size": 2 * 2 * 3,
        "intermediate_size": 8,
        "head_dim": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "max_num_patches": 4096,
    }
    return {"text_config": own, "vision_config": see, "latent_query_num": 4}
