"""Tiny checkpoints (random weights) of text-only models, decoders and encoder-decoders.

Made from a seed.
"""

from pathlib import Path
from typing import Any

from answering_checkpoints import CHARACTERS, ENDS, saved, seeded, settings_of
from text_answering_checkpoints import t5_tokenizer

LONGEST = 256
MARKS = ("<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = (
    "{% for turn in messages %}<|{{ turn.role }}|>{{ turn.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PLAIN_PROMPT = "{text}\nQuestion: {question}\nAnswer:"
DECODERS = (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "phi3",
    "gemma2",
    "gpt2",
    "opt",
    "bloom",
    "gpt_neox",
)
ENCODER_DECODERS = ("t5", "mt5", "bart", "led", "pegasus", "mbart")
ASKED_IN_TURNS = ("qwen2", "qwen3", "gemma2")
"""Those whose tokenizer has a chat template."""
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
    vocabulary = {
        token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])
    }
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if around:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    if template:
        made.add_tokens(list(MARKS), special_tokens=True)
        made.eos_token = "<|end|>"
        made.chat_template = TEMPLATE
    return made


def write_text_model(
    folder: Path, name: str, seed: int = 1, *, ends: str = ENDS, **settings: Any
) -> Path:
    """Write a tiny checkpoint of one of `NAMES`, with these settings in its configuration.

    Give its folder back.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    mapping = (AutoModelForCausalLM if name in DECODERS else AutoModelForSeq2SeqLM)._model_mapping
    if name in DECODERS:
        words = byte_tokenizer(template=name in ASKED_IN_TURNS)
    else:
        words = (
            t5_tokenizer() if name in ("t5", "mt5") else byte_tokenizer(around=name != "pegasus")
        )
    config = AutoConfig.for_model(**{**settings_of(name, words), **settings})
    made = seeded(mapping[type(config)], config, seed)
    return saved(
        folder,
        made,
        words,
        ends="".join(character for character in ends if character in CHARACTERS),
    )
