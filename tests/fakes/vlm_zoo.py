"""Tiny image-text-to-text models (random weights), a line a family; made from a seed, without torchvision.

Processors are written as the Hub has them, so that nothing that makes them need be installed.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from answering_checkpoints import ENDS, saved, seeded, tokenizer
from vlm_configs import (
    QWEN2,
    QWEN3,
    QWEN25,
    blip2,
    florence2,
    got,
    kosmos,
    mllama,
    numbers_of,
    opt,
    pixtral,
    t5,
    text,
    vision,
)
from vlm_families import IDEFICS_MARKS, SIGLIP, TILED, Zoo, idefics3, llava, qwen
from vlm_templates import CHATML, GEMMA, LLAMA, MISTRAL, UTTERANCES

_BLIP_IMAGES = {"image_processor_type": "BlipImageProcessor", "size": {"height": 16, "width": 16}}
_GEMMA_MARKS = ("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>")
_BLIP_PROMPT = "Question: {question} Answer:"
ZOO: dict[str, Zoo] = {
    "qwen2_vl": qwen("qwen2_vl_text", QWEN2, "Qwen2VLProcessor", "Qwen2VLVideoProcessor"),
    "qwen2_5_vl": qwen("qwen2_5_vl_text", QWEN25, "Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor"),
    "qwen3_vl": qwen("qwen3_vl_text", QWEN3, "Qwen3VLProcessor", "Qwen3VLVideoProcessor"),
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
        IDEFICS_MARKS,
        end="<end_of_utterance>",
    ),
    "idefics3": idefics3("idefics3", "Idefics3Processor", "Idefics3ImageProcessor"),
    "smolvlm": idefics3("smolvlm", "SmolVLMProcessor", "SmolVLMImageProcessor", "SmolVLMVideoProcessor"),
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
    "llava": llava(
        "llava",
        vision("clip_vision_model", projection_dim=16),
        {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": 16},
            "crop_size": {"height": 16, "width": 16},
        },
        {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    ),
    "llava_next": llava(
        "llava_next",
        vision("clip_vision_model", projection_dim=16),
        {
            "image_processor_type": "LlavaNextImageProcessor",
            "crop_size": {"height": 16, "width": 16},
            **TILED,
            "size": {"shortest_edge": 16},
        },
        {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
        image_grid_pinpoints=TILED["image_grid_pinpoints"],
    ),
    "llava_onevision": llava(
        "llava_onevision",
        vision("siglip_vision_model"),
        {"image_processor_type": "LlavaOnevisionImageProcessor", **TILED},
        {"num_image_tokens": 4, "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_9"},
        image_grid_pinpoints=TILED["image_grid_pinpoints"],
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
        {**SIGLIP, "image_seq_length": 4},
        marks=("<image>",),
        prompt="<image>answer en {question}",
    ),
    "gemma3": Zoo(
        lambda words: {
            "text_config": text(
                words, "gemma3_text", num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"]
            ),
            "vision_config": vision("siglip_vision_model", vision_use_head=False),
            "mm_tokens_per_image": 4,
            **numbers_of(
                words,
                boi_token_index="<start_of_image>",
                eoi_token_index="<end_of_image>",
                image_token_index="<image_soft_token>",
            ),
        },
        "Gemma3Processor",
        {**SIGLIP, "image_processor_type": "Gemma3ImageProcessor"},
        {"image_seq_length": 4},
        GEMMA,
        _GEMMA_MARKS,
        {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"},
        end="<end_of_turn>",
    ),
    "florence2": Zoo(
        florence2,
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
        got,
        "GotOcr2Processor",
        {"image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 128, "width": 128}},
        marks=("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>"),
        end="<|im_end|>",
        prompt="<|im_start|>user\n<img><imgpad></img>\n{question}<|im_end|><|im_start|>assistant\n",
        large=True,
    ),
    "mistral3": Zoo(
        pixtral,
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
        mllama,
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
        blip2(opt),
        "Blip2Processor",
        _BLIP_IMAGES,
        {"num_query_tokens": 4},
        marks=("<image>",),
        prompt=_BLIP_PROMPT,
    ),
    "blip-2-t5": Zoo(
        blip2(t5),
        "Blip2Processor",
        _BLIP_IMAGES,
        {"num_query_tokens": 4},
        marks=("<image>",),
        prompt=_BLIP_PROMPT,
    ),
    "kosmos-2.5": Zoo(
        kosmos,
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
        seed=4,
        large=True,
    ),
}
"""By the `model_type` of the configuration; "blip-2-t5" is one of those that answer with an encoder and a decoder."""


def lacking(family: str) -> list[str]:
    """The libraries that a family's processor needs and that are not installed, in the order in which it asks."""
    zoo = ZOO[family]
    needed = ["torchvision"] * zoo.needs_torchvision + ["num2words"] * (family == "smolvlm")
    return [name for name in needed if find_spec(name) is None]


def skip_unless_readable(family: str) -> None:
    """Skips the test where a library that this family's processor needs is not installed."""
    if missing := lacking(family):
        pytest.skip(f"the processor of {family} needs {', '.join(missing)}: pip install 'docaudit[vision]'")


def write_vlm(
    folder: Path, family: str, seed: int | None = None, *, template: str | None = None, ends: str = ENDS
) -> Path:
    """Writes a tiny checkpoint of a family: random weights, a tokenizer of characters, its processor's settings.

    Args:
        folder: made here.
        family: a key of `ZOO`.
        seed: of the weights; None: the family's own.
        template: a chat template in place of the family's own.
        ends: characters that end an answer beside the end token.
    """
    import transformers

    zoo = ZOO[family]
    words = tokenizer(zoo.marks, end=zoo.end)
    if zoo.named:
        words._set_model_specific_special_tokens(zoo.named)
    config = transformers.CONFIG_MAPPING[family.removesuffix("-t5")](**zoo.config(words))
    model = seeded(transformers.AutoModelForImageTextToText.from_config, config, zoo.seed if seed is None else seed)
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
