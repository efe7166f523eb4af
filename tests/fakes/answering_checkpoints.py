"""Tiny checkpoints that answer questions (random weights), one function a family.

Made from a seed.
"""

import os
import string
import tomllib
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

CHARACTERS = string.ascii_letters + string.digits + " .,:;/-'#+&()%$@?!_\n"
DONUT_MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>")
SIZE = (64, 48)
"""Height and width in pixels of the images that tiny models see."""
POSITIONS = 128
ENDS = "/(&#%$@;:+)"
"""Characters that end an answer beside the end token, unless a maker is told otherwise; no letters
or digits."""
CHAT_MARKS = ("<image>", "<|user|>", "<|assistant|>", "<|end|>")
CHAT_TEMPLATE = (
    "{% for turn in messages %}<|{{ turn.role }}|>"
    "{% for part in turn.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""One turn after the other, as ChatML has them."""


_ZOO: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("answering_zoo.toml").read_text(encoding="utf-8")
)


def filled(value: Any, words: Any, shared: dict[str, Any]) -> Any:
    """Fill the settings of a table with the ids of this tokenizer, and with the shared settings that they are like."""
    if isinstance(value, dict):
        like = filled(shared[value["like"]], words, shared) if "like" in value else {}
        return {
            **like,
            **{name: filled(own, words, shared) for name, own in value.items() if name != "like"},
        }
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    known = {
        "@none": None,
        "@vocabulary": len(words),
        "@vocabulary-1": len(words) - 1,
        **{f"@{name}": getattr(words, f"{name}_token_id") for name in ("bos", "pad", "eos")},
    }
    return known[value] if value in known else words.convert_tokens_to_ids(value[1:])


def settings_of(name: str, words: Any) -> dict[str, Any]:
    """The settings of a tiny configuration of answering_zoo.toml, its `model_type` among them."""
    settings: dict[str, Any] = filled(_ZOO["models"][name], words, _ZOO["shared"])
    return settings


def tokenizer(marks: tuple[str, ...] = (), end: str = "</s>") -> Any:
    """A tokenizer of characters: n characters are n tokens.

    `marks` are special tokens beside those all have.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = ["<s>", "<pad>", "</s>", "<unk>", *CHARACTERS]
    inner = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    usual = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, clean_up_tokenization_spaces=False, **usual
    )
    made.add_tokens(list(marks), special_tokens=True)
    made.eos_token = end
    return made


def saved(folder: Path, model: Any, words: Any, *parts: Any, ends: str = ENDS) -> Path:
    """Writes a model, its tokenizer and its processor; the characters of `ends` end an answer too.

    A model of random weights hardly ever ends an answer by its end token alone. Other special
    tokens are never said.
    """
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model.generation_config.eos_token_id = [
        words.eos_token_id,
        *(words.convert_tokens_to_ids(c) for c in ends),
    ]
    added = words.get_added_vocab()
    silent = {*words.all_special_ids, *added.values()} - {
        words.eos_token_id,
        added.get("</s_answer>"),
    }
    model.generation_config.suppress_tokens = sorted(silent)
    for part in (model, words, *parts):
        part.save_pretrained(folder)
    return folder


def seeded(model_class: Any, config: Any, seed: int) -> Any:
    """A model with random weights, larger than usual, so that answers differ by more than rounding."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config)
        for name, weights in model.named_parameters():
            if weights.dim() > 1:
                torch.nn.init.normal_(
                    weights, std=1.0 if "embed" in name else 2 * weights[0].numel() ** -0.5
                )
    return model.eval()


def make_donut(
    folder: Path,
    seed: int = 0,
    *,
    size: tuple[int, int] = SIZE,
    positions: int = POSITIONS,
    ends: str = ENDS,
    marks: tuple[str, ...] = DONUT_MARKS,
) -> Path:
    """A Donut: Swin on images of `size` (height, width), and a decoder of `positions` with marks, its task's first."""
    from transformers import AutoConfig, VisionEncoderDecoderModel
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    words = tokenizer(marks)
    own = settings_of("donut", words)
    own["encoder"]["image_size"] = [*size]
    own["decoder"]["max_position_embeddings"] = positions
    config = AutoConfig.for_model(
        **own, decoder_start_token_id=words.convert_tokens_to_ids(marks[0])
    )
    images = DonutImageProcessorPil(size={"height": size[0], "width": size[1]})
    return saved(folder, seeded(VisionEncoderDecoderModel, config, seed), words, images, ends=ends)


def make_vit_decoder(folder: Path, seed: int = 0, *, ends: str = ENDS) -> Path:
    """A vision-encoder-decoder that is no Donut: ViT, and a decoder whose tokenizer has no marks."""
    from transformers import AutoConfig, VisionEncoderDecoderModel
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    words = tokenizer()
    config = AutoConfig.for_model(**settings_of("vit-decoder", words))
    images = ViTImageProcessorPil(size={"height": 32, "width": 32})
    return saved(folder, seeded(VisionEncoderDecoderModel, config, seed), words, images, ends=ends)


def make_pix2struct(
    folder: Path, seed: int = 0, *, max_patches: int = 48, ends: str = ENDS
) -> Path:
    """A Pix2Struct that sees at most `max_patches` patches of 8 x 8 pixels."""
    from transformers import AutoConfig, Pix2StructForConditionalGeneration
    from transformers.models.pix2struct.image_processing_pil_pix2struct import (
        Pix2StructImageProcessorPil,
    )

    words = tokenizer()
    own = settings_of("pix2struct", words)
    own["vision_config"]["seq_len"] = max_patches
    images = Pix2StructImageProcessorPil(
        patch_size={"height": 8, "width": 8}, max_patches=max_patches, is_vqa=True
    )
    model = seeded(Pix2StructForConditionalGeneration, AutoConfig.for_model(**own), seed)
    return saved(folder, model, words, images, ends=ends)


def make_chat(
    folder: Path, seed: int = 0, *, template: str | None = CHAT_TEMPLATE, ends: str = ENDS
) -> Path:
    """A LLaVA: CLIP on images of 32 x 32 pixels, and a Llama that is asked in turns."""
    from transformers import AutoConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    words = tokenizer(CHAT_MARKS, end="<|end|>")
    config = AutoConfig.for_model(**settings_of("chat", words))
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    return saved(
        folder, seeded(LlavaForConditionalGeneration, config, seed), words, processor, ends=ends
    )
