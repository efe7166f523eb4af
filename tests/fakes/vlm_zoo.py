"""Tiny image-text-to-text models (random weights), a line a family; made from a seed, without torchvision.

Processors are written as the Hub has them, so that nothing that makes them need be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answering_checkpoints import ENDS, saved, seeded, tokenizer

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{% for part in turn.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Qwen's and InternVL's, with a system turn of its own where none is given."""
SPOKEN = (
    "{% for turn in messages %}{{ {'user': 'USER', 'assistant': 'ASSISTANT', 'system': 'SYSTEM'}[turn.role] }}:"
    "{% for part in turn.content %}{% if part.type == 'image' %} <image>\n{% else %} {{ part.text }}{% endif %}"
    "{% endfor %}{% if turn.role == 'assistant' %}</s>{% else %} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""LLaVA's, as Vicuna has it."""
UTTERANCES = (
    "<|im_start|>{% for turn in messages %}{{ turn.role | capitalize }}:"
    "{% for part in turn.content %}{% if part.type == 'image' %}<image>{% else %} {{ part.text }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""Idefics's and SmolVLM's."""
GEMMA = (
    "{{ bos_token }}{% for turn in messages %}<start_of_turn>{{ 'model' if turn.role == 'assistant' else turn.role }}\n"
    "{% for part in turn.content %}{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text | trim }}"
    "{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for turn in messages %}{% if turn.role == 'system' %}[SYSTEM_PROMPT]{{ turn.content[0].text }}"
    "[/SYSTEM_PROMPT]{% elif turn.role == 'user' %}[INST]{% for part in turn.content %}{% if part.type == 'image' %}"
    "[IMG]{% else %}{{ part.text }}{% endif %}{% endfor %}[/INST]{% else %}{{ turn.content[0].text }}{{ eos_token }}"
    "{% endif %}{% endfor %}"
)
LLAMA = (
    "{{ bos_token }}{% for turn in messages %}<|start_header_id|>{{ turn.role }}<|end_header_id|>\n\n"
    "{% for part in turn.content %}{% if part.type == 'image' %}<|image|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
Settings = dict[str, Any]


@dataclass(frozen=True)
class Zoo:
    """A family of image-text-to-text models.

    Attributes:
        config: the settings of a tiny configuration, from the tokenizer.
        processor: the name of its processor's class.
        images: the settings of its image processor, its type among them.
        more: settings of the processor itself.
        template: its chat template; None: it has none.
        marks: special tokens of its vocabulary.
        named: those that its processor asks the tokenizer for, by name.
        end: the token that ends a turn.
        video: the type of its video processor, where its processor has one; such a one needs torchvision.
        torchvision: its processor needs torchvision, whether by a video processor or not.
        prompt: what it is asked with, where it has no chat template.
        large: its processor makes large pictures, whatever its settings say: one row of a batch is enough.
    """

    config: Callable[[Any], Settings]
    processor: str
    images: Settings
    more: Settings = field(default_factory=dict)
    template: str | None = None
    marks: tuple[str, ...] = ()
    named: dict[str, str] = field(default_factory=dict)
    end: str = "</s>"
    video: str | None = None
    torchvision: bool = False
    prompt: str | None = None
    large: bool = False

    @property
    def needs_torchvision(self) -> bool:
        return self.torchvision or self.video is not None


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


def _mrope(words: Any, kind: str, **more: Any) -> Settings:
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    return text(words, kind, rope_parameters=rope, **more)


def _of(words: Any, **marks: str) -> dict[str, int]:
    return {name: words.convert_tokens_to_ids(mark) for name, mark in marks.items()}


_QWEN_MARKS = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_QWEN_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}


def _qwen(text_type: str, see: Settings, processor: str, videos: str) -> Zoo:
    patches = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    return Zoo(
        lambda words: {"text_config": _mrope(words, text_type), "vision_config": see, **_of(words, **_QWEN_IDS)},
        processor,
        {
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": 8 * 8 * 2, "longest_edge": 8 * 8 * 6},
            **patches,
        },
        template=CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
        marks=_QWEN_MARKS,
        end="<|im_end|>",
        video=videos,
    )


_QWEN2 = {
    "depth": 1,
    "embed_dim": 16,
    "hidden_size": 16,
    "num_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_QWEN25 = {
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
_QWEN3 = {
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
_IDEFICS_MARKS = ("<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>")
_TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))


def _idefics3(kind: str, processor: str, images: str, video: str | None = None) -> Zoo:
    see = vision("idefics3_vision" if kind == "idefics3" else "smolvlm_vision", size=16, patch=4)
    return Zoo(
        lambda words: {
            "text_config": text(words, "llama"),
            "vision_config": see,
            "scale_factor": 2,
            "image_token_id": words.convert_tokens_to_ids("<image>"),
            "pad_token_id": words.pad_token_id,
        },
        processor,
        {
            "image_processor_type": images,
            "size": {"longest_edge": 32},
            "max_image_size": {"longest_edge": 16},
            "do_image_splitting": True,
        },
        {"image_seq_len": 4},
        UTTERANCES,
        (*_IDEFICS_MARKS, *_TILES),
        {} if video is None else _SMOLVLM_NAMED,
        end="<end_of_utterance>",
        video=video,
    )


_SMOLVLM_NAMED = {
    "fake_image_token": "<fake_token_around_image>",
    "image_token": "<image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}
_TILED = {"size": {"height": 16, "width": 16}, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]}
_SIGLIP = {"image_processor_type": "SiglipImageProcessor", "size": {"height": 16, "width": 16}}


def _llava(kind: str, see: Settings, images: Settings, more: Settings, **settings: Any) -> Zoo:
    class_name = {"llava": "Llava", "llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision"}[kind]
    onevision = kind == "llava_onevision"
    return Zoo(
        lambda words: {
            "text_config": text(words, "qwen2" if onevision else "llama"),
            "vision_config": see,
            "image_token_index": words.convert_tokens_to_ids("<image>"),
            **({"video_token_index": words.convert_tokens_to_ids("<video>")} if onevision else {}),
            "vision_feature_layer": -1,
            **settings,
        },
        f"{class_name}Processor",
        images,
        more,
        CHATML.replace("IMAGE", "<image>\n") if onevision else SPOKEN,
        ("<image>", "<video>", "<|im_start|>", "<|im_end|>") if onevision else ("<image>",),
        end="<|im_end|>" if onevision else "</s>",
        video="LlavaOnevisionVideoProcessor" if onevision else None,
    )


def _pixtral(words: Any) -> Settings:
    return {
        "text_config": text(words, "mistral"),
        "vision_config": vision("pixtral", size=32, patch=4, head_dim=8),
        "image_token_index": words.convert_tokens_to_ids("[IMG]"),
        "spatial_merge_size": 2,
    }


def _mllama(words: Any) -> Settings:
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


def _florence2(words: Any) -> Settings:
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


def _got(words: Any) -> Settings:
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


def _blip2(language: Callable[[Any], Settings]) -> Callable[[Any], Settings]:
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


def _opt(words: Any) -> Settings:
    own = text(words, "opt", ffn_dim=24, word_embed_proj_dim=16, max_position_embeddings=512)
    return {key: value for key, value in own.items() if key not in ("head_dim", "num_key_value_heads")}


def _t5(words: Any) -> Settings:
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


def _kosmos(words: Any) -> Settings:
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


_BLIP_IMAGES = {"image_processor_type": "BlipImageProcessor", "size": {"height": 16, "width": 16}}
_GEMMA_MARKS = ("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>")
_BLIP_PROMPT = "Question: {question} Answer:"
ZOO: dict[str, Zoo] = {
    "qwen2_vl": _qwen("qwen2_vl_text", _QWEN2, "Qwen2VLProcessor", "Qwen2VLVideoProcessor"),
    "qwen2_5_vl": _qwen("qwen2_5_vl_text", _QWEN25, "Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor"),
    "qwen3_vl": _qwen("qwen3_vl_text", _QWEN3, "Qwen3VLProcessor", "Qwen3VLVideoProcessor"),
    "idefics2": Zoo(
        lambda words: {
            "text_config": text(words, "mistral"),
            "vision_config": vision("idefics2_vision", size=32, patch=8),
            "perceiver_config": {
                "hidden_size": 16,
                "resampler_n_latents": 4,
                "resampler_depth": 1,
                "resampler_n_heads": 2,
                "resampler_head_dim": 8,
                "num_key_value_heads": 2,
            },
            "image_token_id": words.convert_tokens_to_ids("<image>"),
        },
        "Idefics2Processor",
        {
            "image_processor_type": "Idefics2ImageProcessor",
            "size": {"shortest_edge": 16, "longest_edge": 32},
            "do_image_splitting": False,
        },
        {"image_seq_len": 4},
        UTTERANCES,
        _IDEFICS_MARKS,
        end="<end_of_utterance>",
    ),
    "idefics3": _idefics3("idefics3", "Idefics3Processor", "Idefics3ImageProcessor"),
    "smolvlm": _idefics3("smolvlm", "SmolVLMProcessor", "SmolVLMImageProcessor", "SmolVLMVideoProcessor"),
    "internvl": Zoo(
        lambda words: {
            "text_config": text(words, "qwen2"),
            "vision_config": vision("internvl_vision", size=[16, 16], patch=[4, 4]),
            "image_token_id": words.convert_tokens_to_ids("<IMG_CONTEXT>"),
            "image_seq_length": 4,
        },
        "InternVLProcessor",
        {
            "image_processor_type": "GotOcr2ImageProcessor",
            "size": {"height": 16, "width": 16},
            "crop_to_patches": True,
            "min_patches": 1,
            "max_patches": 4,
        },
        {"image_seq_length": 4},
        CHATML.replace("IMAGE", "<IMG_CONTEXT>\n"),
        ("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        end="<|im_end|>",
        video="InternVLVideoProcessor",
    ),
    "llava": _llava(
        "llava",
        vision("clip_vision_model", projection_dim=16),
        {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": 16},
            "crop_size": {"height": 16, "width": 16},
        },
        {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    ),
    "llava_next": _llava(
        "llava_next",
        vision("clip_vision_model", projection_dim=16),
        {
            "image_processor_type": "LlavaNextImageProcessor",
            "crop_size": {"height": 16, "width": 16},
            **_TILED,
            "size": {"shortest_edge": 16},
        },
        {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
        image_grid_pinpoints=_TILED["image_grid_pinpoints"],
    ),
    "llava_onevision": _llava(
        "llava_onevision",
        vision("siglip_vision_model"),
        {"image_processor_type": "LlavaOnevisionImageProcessor", **_TILED},
        {"num_image_tokens": 4, "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_9"},
        image_grid_pinpoints=_TILED["image_grid_pinpoints"],
    ),
    "paligemma": Zoo(
        lambda words: {
            "text_config": text(words, "gemma", use_bidirectional_attention=True),
            "vision_config": vision("siglip_vision_model", projection_dim=16, vision_use_head=False),
            "image_token_index": words.convert_tokens_to_ids("<image>"),
            "projection_dim": 16,
            "hidden_size": 16,
        },
        "PaliGemmaProcessor",
        {**_SIGLIP, "image_seq_length": 4},
        marks=("<image>",),
        prompt="<image>answer en {question}",
    ),
    "gemma3": Zoo(
        lambda words: {
            "text_config": text(words, "gemma3_text", num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"]),
            "vision_config": vision("siglip_vision_model", vision_use_head=False),
            "mm_tokens_per_image": 4,
            **_of(
                words,
                boi_token_index="<start_of_image>",
                eoi_token_index="<end_of_image>",
                image_token_index="<image_soft_token>",
            ),
        },
        "Gemma3Processor",
        {**_SIGLIP, "image_processor_type": "Gemma3ImageProcessor"},
        {"image_seq_length": 4},
        GEMMA,
        _GEMMA_MARKS,
        {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"},
        end="<end_of_turn>",
    ),
    "florence2": Zoo(
        _florence2,
        "Florence2Processor",
        {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"height": 16, "width": 16},
            "crop_size": {"height": 16, "width": 16},
            "image_seq_length": 5,
        },
        marks=("<image>",),
        named={"image_token": "<image>"},
        prompt="<DocVQA>{question}",
    ),
    "got_ocr2": Zoo(
        _got,
        "GotOcr2Processor",
        {"image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 128, "width": 128}},
        marks=("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>"),
        end="<|im_end|>",
        prompt="<|im_start|>user\n<img><imgpad></img>\n{question}<|im_end|><|im_start|>assistant\n",
        large=True,
    ),
    "mistral3": Zoo(
        _pixtral,
        "PixtralProcessor",
        {
            "image_processor_type": "PixtralImageProcessor",
            "size": {"longest_edge": 32},
            "patch_size": {"height": 8, "width": 8},
        },
        {"patch_size": 4, "spatial_merge_size": 2},
        MISTRAL,
        ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"),
        torchvision=True,
    ),
    "mllama": Zoo(
        _mllama,
        "MllamaProcessor",
        {
            "image_processor_type": "MllamaImageProcessor",
            "size": {"height": 16, "width": 16},
            "max_image_tiles": 4,
        },
        template=LLAMA,
        marks=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"),
        end="<|eot_id|>",
    ),
    "blip-2": Zoo(
        _blip2(_opt),
        "Blip2Processor",
        _BLIP_IMAGES,
        {"num_query_tokens": 4},
        marks=("<image>",),
        prompt=_BLIP_PROMPT,
    ),
    "blip-2-t5": Zoo(
        _blip2(_t5),
        "Blip2Processor",
        _BLIP_IMAGES,
        {"num_query_tokens": 4},
        marks=("<image>",),
        prompt=_BLIP_PROMPT,
    ),
    "kosmos-2.5": Zoo(
        _kosmos,
        "Kosmos2_5Processor",
        {
            "image_processor_type": "Kosmos2_5ImageProcessor",
            "max_patches": 4096,
            "patch_size": {"height": 2, "width": 2},
        },
        {"num_image_tokens": 4},
        marks=("<image>", "</image>", "<md>"),
        named={"boi_token": "<image>", "eoi_token": "</image>", "image_token": "<s>"},
        prompt="<md>USER: {question} ASSISTANT:",
        large=True,
    ),
}
"""By the `model_type` of the configuration; "blip-2-t5" is one of those that answer with an encoder and a decoder."""


def write_vlm(folder: Path, family: str, seed: int = 0, *, template: str | None = None, ends: str = ENDS) -> Path:
    """Writes a tiny checkpoint of a family: random weights, a tokenizer of characters, its processor's settings.

    Args:
        folder: made here.
        family: a key of `ZOO`.
        seed: of the weights.
        template: a chat template in place of the family's own.
        ends: characters that end an answer beside the end token.
    """
    import transformers

    zoo = ZOO[family]
    words = tokenizer(zoo.marks, end=zoo.end)
    if zoo.named:
        words._set_model_specific_special_tokens(zoo.named)
    config = transformers.CONFIG_MAPPING[family.removesuffix("-t5")](**zoo.config(words))
    model = seeded(transformers.AutoModelForImageTextToText.from_config, config, seed)
    for name, gate in model.named_parameters():
        if "attn_gate" in name or "mlp_gate" in name:
            gate.data.fill_(1.0)  # Mllama's are shut when they are fresh: it would not see the page
    saved(folder, model, words, ends=ends)
    settings = {"processor_class": zoo.processor, **zoo.images}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": zoo.processor, **zoo.more}))
    if zoo.video is not None:
        videos = {"processor_class": zoo.processor, "video_processor_type": zoo.video}
        (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))
    if template or zoo.template:
        (folder / "chat_template.jinja").write_text(template or str(zoo.template))
    return folder
