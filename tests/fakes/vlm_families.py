"""What a family of image-text-to-text models is made of, and makers for families that are nearly alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vlm_configs import Settings, mrope, numbers_of, text, vision
from vlm_templates import CHATML, SPOKEN, UTTERANCES

QWEN_MARKS = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
IDEFICS_MARKS = ("<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>")
TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))
SMOLVLM_NAMED = {
    "fake_image_token": "<fake_token_around_image>",
    "image_token": "<image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}
TILED = {"size": {"height": 16, "width": 16}, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]}
SIGLIP = {"image_processor_type": "SiglipImageProcessor", "size": {"height": 16, "width": 16}}


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
        seed: of weights that say something.
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
    seed: int = 0
    large: bool = False

    @property
    def needs_torchvision(self) -> bool:
        return self.torchvision or self.video is not None


def qwen(text_type: str, see: Settings, processor: str, videos: str) -> Zoo:
    patches = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    return Zoo(
        lambda words: {"text_config": mrope(words, text_type), "vision_config": see, **numbers_of(words, **QWEN_IDS)},
        processor,
        {
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": 8 * 8 * 2, "longest_edge": 8 * 8 * 6},
            **patches,
        },
        template=CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
        marks=QWEN_MARKS,
        end="<|im_end|>",
        video=videos,
    )


def idefics3(kind: str, processor: str, images: str, video: str | None = None) -> Zoo:
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
        (*IDEFICS_MARKS, *TILES),
        {} if video is None else SMOLVLM_NAMED,
        end="<end_of_utterance>",
        video=video,
    )


def llava(kind: str, see: Settings, images: Settings, more: Settings, **settings: Any) -> Zoo:
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
