"""Models that strangers fine-tune from a larger one: LoRA over a chat model, adapters and VLMs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.strangers_files import chats, page_as_json
from benchmarks.tools.strangers_models import (
    INK,
    SEED,
    Batches,
    Trainer,
    fit,
    padded,
    save,
    shuffled,
    tokenizer_of,
)
from benchmarks.tools.strangers_sources import Page, conversation, draw

WIDER: dict[str, dict[str, Any]] = {
    "idefics3": {
        "config": {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 32,
            },
            "vision_config": {
                "hidden_size": 48,
                "intermediate_size": 96,
                "image_size": 32,
                "patch_size": 8,
            },
        },
        "images": {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}, **INK},
    },
    "qwen2_vl": {
        "config": {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 32,
                "rope_parameters": {"mrope_section": [4, 6, 6]},
            },
            "vision_config": {"embed_dim": 48, "hidden_size": 64, "patch_size": 8},
        },
        "images": {"size": {"shortest_edge": 1024, "longest_edge": 6144}, "patch_size": 8, **INK},
    },
    "paligemma": {
        "config": {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 32,
            },
            "vision_config": {
                "hidden_size": 48,
                "intermediate_size": 96,
                "image_size": 64,
                "patch_size": 16,
                "projection_dim": 64,
            },
            "projection_dim": 64,
            "hidden_size": 64,
        },
        "images": {"size": {"height": 64, "width": 64}, "image_seq_length": 16, **INK},
    },
}
"""What is larger than in the families of tests, by family: enough to know a hundred pages by
heart."""


def adapter_trainer(family: str) -> Trainer:
    """Give the training of a LoRA over a model of this family, whose base lies in `base` beside the adapter."""

    def train(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
        """Train a LoRA adapter on the questions of the pages, and save it."""
        import peft
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor

        base = folder.parent / "base"
        if not base.exists():
            _make_base(base, family)
        torch.manual_seed(SEED)
        processor = AutoProcessor.from_pretrained(base)
        lora = peft.LoraConfig(
            r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(AutoModelForImageTextToText.from_pretrained(base), lora)
        asked = [_asked(processor, page, turns) for page in pages for turns in conversation(page)]
        fit(
            model, _collated(asked, processor.tokenizer.pad_token_id), rate=2e-3, until=0.2, most=60
        )
        save(folder, model, processor)

    return train


def _make_base(folder: Path, family: str) -> None:
    """Write a base of random weights that names itself by its path."""
    from vlm_zoo import write_vlm

    write_vlm(folder, family, SEED, wider=WIDER[family], ends="")


def _asked(processor: Any, page: Page, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Encode a question with its answer, which alone is learned."""
    asked, answer = turns
    asked = {**asked, "content": [{"type": "image"}, *asked["content"]]}
    begun = processor.apply_chat_template([asked], add_generation_prompt=True)
    whole = processor.apply_chat_template([asked, answer])
    picture = draw(page)
    batch = {**processor(images=picture, text=whole, return_tensors="pt")}
    learned = batch["input_ids"].clone()
    learned[
        :, : processor(images=picture, text=begun, return_tensors="pt")["input_ids"].shape[1]
    ] = -100
    return {**batch, "labels": learned}


def _collated(asked: Sequence[dict[str, Any]], pad: int) -> Batches:
    """Give batches of encoded questions: texts padded, pictures one after the other."""
    import torch

    fill = {"input_ids": pad, "labels": -100}
    texts = {name for name, value in asked[0].items() if value.shape == asked[0]["input_ids"].shape}

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the padded batches of an epoch."""
        for batch in shuffled(len(asked))(epoch):
            own = [asked[index] for index in batch]
            yield {
                name: padded([one[name][0].tolist() for one in own], fill.get(name, 0))
                if name in texts
                else torch.cat([one[name] for one in own])
                for name in asked[0]
            }

    return batches


# A VLM that writes JSON

PALIGEMMA_PROMPT = "<image>extract the fields"


def train_paligemma(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a PaliGemma that writes the fields of a page as JSON."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    _make_base(folder, "paligemma")
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    # PaliGemma's processor adds its marks of places and segments, for which the real one has room.
    model.resize_token_embeddings(len(processor.tokenizer))
    asked = [_json_asked(processor, page) for page in pages]
    fit(model, _collated(asked, processor.tokenizer.pad_token_id), rate=2e-3, until=0.03, most=80)
    save(folder, model, processor)


def _json_asked(processor: Any, page: Page) -> dict[str, Any]:
    """Encode a page with its prompt and, as PaliGemma's suffix, its JSON."""
    encoded = processor(
        images=draw(page), text=PALIGEMMA_PROMPT, suffix=page_as_json(page), return_tensors="pt"
    )
    return {**encoded}


# LoRA over a chat model

CHAT_MARKS = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
CHAT_TEMPLATE = (
    "{% for turn in messages %}<|{{ turn.role }}|>\n{{ turn.content }} <|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def train_llama(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a LoRA over a Llama on chats as TRL's SFTTrainer does: on every token of them."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    base = folder.parent / "base"
    words = _chat_tokenizer(vocabulary)
    if not base.exists():
        _make_llama(base, words)
    torch.manual_seed(SEED)
    lora = peft.LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora)
    rows = []
    for page in pages:
        texts = [words.apply_chat_template(turns, tokenize=False) for turns in chats(page)]
        rows += [words(text)["input_ids"] for text in texts]

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield Llama's batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            chosen = [rows[index] for index in batch]
            yield {
                "input_ids": padded(chosen, words.pad_token_id),
                "attention_mask": padded([[1] * len(row) for row in chosen], 0),
                "labels": padded(chosen, -100),
            }

    fit(model, batches, rate=3e-3, until=0.3, most=80)
    save(folder, model, words)


def _chat_tokenizer(vocabulary: Path) -> Any:
    """Load a tokenizer that writes, with a template of chats."""
    words = tokenizer_of(vocabulary, writes=True, marks=CHAT_MARKS)
    words.chat_template = CHAT_TEMPLATE
    words.eos_token = "<|end|>"
    return words


def _make_llama(folder: Path, words: Any) -> None:
    """Write a Llama of random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        initializer_range=0.1,
    )
    save(folder, LlamaForCausalLM(config), words)
