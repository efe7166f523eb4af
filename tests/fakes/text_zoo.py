"""Tiny checkpoints (random weights) of text-only models, decoders and encoder-decoders; made from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from answering_checkpoints import CHARACTERS, ENDS, saved, seeded
from text_answering_checkpoints import t5_tokenizer

LONGEST = 256
MARKS = ("<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = (
    "{% for turn in messages %}<|{{ turn.role }}|>{{ turn.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PLAIN_PROMPT = "{text}\nQuestion: {question}\nAnswer:"
DECODERS = ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2", "gpt2", "opt", "bloom", "gpt_neox")
ENCODER_DECODERS = ("t5", "mt5", "bart", "led", "pegasus", "mbart")
ASKED_IN_TURNS = ("qwen2", "qwen3", "gemma2")
"""Those whose tokenizer has a chat template."""
SIDES_LAYERS = 1
"""Layers on each side of an encoder-decoder."""
NAMES = (*DECODERS, *ENCODER_DECODERS)


def prompt_of(name: str) -> str | None:
    """The manifest's prompt that a model needs; None: it says itself how it is asked."""
    return PLAIN_PROMPT if name in DECODERS and name not in ASKED_IN_TURNS else None


def byte_tokenizer(*, template: bool = False, around: bool = False) -> Any:
    """A byte-level tokenizer as GPT-2's or BART's: n characters are n tokens.

    Args:
        template: with the marks of turns and a chat template.
        around: a text begins with <s> and ends with </s>.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if around:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    if template:
        made.add_tokens(list(MARKS), special_tokens=True)
        made.eos_token = "<|end|>"
        made.chat_template = TEMPLATE
    return made


def _decoder(name: str, words: Any) -> Any:
    """A tiny configuration of a decoder."""
    from transformers import AutoConfig

    ids = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"max_position_embeddings": LONGEST}
    if name in ("gpt2", "bloom"):
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LONGEST}
        sizes = sizes if name == "gpt2" else {"hidden_size": 16, "n_layer": 2, "n_head": 2}
    elif name == "opt":
        sizes |= {"ffn_dim": 32, "word_embed_proj_dim": 16}
    else:
        sizes |= {"intermediate_size": 32}
    if name in ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2"):
        sizes |= {"num_key_value_heads": 1}
    if name in ("qwen3", "gemma2"):
        sizes |= {"head_dim": 8}
    return AutoConfig.for_model(name, vocab_size=len(words), **sizes, **ids)


def _encoder_decoder(name: str, words: Any) -> Any:
    """A tiny configuration of an encoder-decoder."""
    from transformers import AutoConfig

    if name in ("t5", "mt5"):
        sizes = {
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": SIDES_LAYERS,
            "num_heads": 2,
            "n_positions": LONGEST,
        }
        return AutoConfig.for_model(name, vocab_size=len(words), decoder_start_token_id=words.pad_token_id, **sizes)
    sides = {f"{side}_{part}": value for side in ("encoder", "decoder") for part, value in _SIDE.items()}
    sides |= {f"{side}_layers": SIDES_LAYERS for side in ("encoder", "decoder")}
    lengths = {"max_position_embeddings": LONGEST}
    if name == "led":
        lengths = {"max_encoder_position_embeddings": LONGEST, "max_decoder_position_embeddings": LONGEST}
        sides["attention_window"] = 16
    return AutoConfig.for_model(
        name,
        vocab_size=len(words),
        d_model=16,
        bos_token_id=words.bos_token_id,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        decoder_start_token_id=words.pad_token_id if name == "pegasus" else words.eos_token_id,
        forced_eos_token_id=None,
        **sides,
        **lengths,
    )


_SIDE = {"attention_heads": 2, "ffn_dim": 32}


def write_text_model(folder: Path, name: str, seed: int = 1, *, ends: str = ENDS) -> Path:
    """Write a tiny checkpoint of one of `NAMES` and give its folder back."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    if name in DECODERS:
        words = byte_tokenizer(template=name in ASKED_IN_TURNS)
        config, mapping = _decoder(name, words), AutoModelForCausalLM._model_mapping
    else:
        words = t5_tokenizer() if name in ("t5", "mt5") else byte_tokenizer(around=name != "pegasus")
        config, mapping = _encoder_decoder(name, words), AutoModelForSeq2SeqLM._model_mapping
    made = seeded(mapping[type(config)], config, seed)
    return saved(folder, made, words, ends="".join(character for character in ends if character in CHARACTERS))
