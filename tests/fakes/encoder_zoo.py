"""Tiny encoders (random weights) of any family that transformers has, with any head.

A table in encoder_zoo.toml.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tiny

Head = Literal["mlm", "token-classification", "document-classification"]

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
KINDS: dict[str, str] = {kind: one["tokens"] for kind, one in _TABLE.items() if "tokens" in one}
"""The families that people fine-tune, by `model_type`, and what their tokenizers are made of."""
PAIRS: tuple[tuple[str, Head], ...] = tuple(
    (kind, head)
    for kind in KINDS
    for head in ("mlm", "token-classification", "document-classification")
    if (head != "mlm" or kind not in ("layoutlmv3", "lilt"))
    and (kind, head) != ("bros", "document-classification")
)
POINTING = tuple(kind for kind in _TABLE if kind not in ("bros", "deberta"))
"""The families whose models point at answers."""
AFTER_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "layoutlmv3", "lilt")
"""Families that number positions from the one after the padding token's id."""
CLASSES = ("receipt", "letter", "form")
POSITIONS = 128
_SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


def write_encoder(
    folder: Path,
    kind: str,
    head: str = "token-classification",
    *,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    **settings: Any,
) -> Path:
    """Write a checkpoint with its tokenizer; gives the folder back.

    Args:
        folder: made when missing.
        kind: a `model_type`, such as "deberta-v2".
        head: "mlm", "token-classification" or "document-classification".
        labels: names of the outputs; None: `tiny.LABELS`, or `CLASSES` of pages.
        seed: of the weights.
        **settings: take the place of those of the configuration.
    """
    model(kind, head, labels=labels, seed=seed, **settings).save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return folder


def model(
    kind: str, head: str, *, labels: Sequence[str] | None = None, seed: int = 0, **settings: Any
) -> Any:
    """A model of two layers of 32 units and `POSITIONS` positions."""
    from audit.targets.encoders.families import family_of

    family = family_of(kind)
    assert family is not None
    model_class = family.heads[head]  # type: ignore[index]  # any of the heads
    own = {"token-classification": tiny.LABELS, "document-classification": CLASSES}.get(head, ())
    names = own if labels is None else labels
    ids = {label: index for index, label in enumerate(names)}
    own_settings = {
        **(
            {"id2label": {index: label for label, index in ids.items()}, "label2id": ids}
            if names
            else {}
        ),
        "max_position_embeddings": POSITIONS + (2 if kind in AFTER_PADDING else 0),
        **(_SPECIAL if KINDS.get(kind) != "wordpiece" else {"pad_token_id": 0}),
        **_TABLE.get(kind, {}).get("settings", {}),
        **settings,
    }
    return _made(model_class, tokenizer(kind), seed, own_settings)


def _made(model_class: Any, words: Any, seed: int, settings: dict[str, Any]) -> Any:
    import torch

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    given = {
        "vocab_size": len(words),
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.2,
        **sizes,
        **settings,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(model_class.config_class(**given))


def tokenizer(kind: str) -> Any:
    """The tokenizer that the family's checkpoints have: one character is about one token."""
    made_of = KINDS.get(kind, "wordpiece")
    if made_of == "wordpiece":
        return tiny.tokenizer(POSITIONS)
    return (
        tiny.bpe_tokenizer("layoutlmv3" if kind == "layoutlmv3" else "roberta", POSITIONS)
        if (made_of == "bytes")
        else _pieces()
    )


def _pieces() -> Any:
    """Pieces as SentencePiece makes them, a word's first with the mark of a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    characters = [*tiny.CHARACTERS, *".,:;/-'#+&()%$@"]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    scores = [*((token, 0.0) for token in special), ("\u2581", -2.0)]
    scores += [
        *((f"\u2581{one}", -1.0) for one in characters),
        *((one, -3.0) for one in characters),
        ("<mask>", 0.0),
    ]
    inner = Tokenizer(models.Unigram(scores, unk_id=3))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    inner.decoder = decoders.Metaspace(prepend_scheme="always")
    marks = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    marks |= {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=POSITIONS, **marks)


def extractive_model(kind: str, seed: int = 0, **settings: Any) -> Any:
    """A model that points at answers, of the same size, whose answers differ from page to page."""
    import transformers

    from audit.targets.extractive import HEADS

    after_padding = (
        {**_SPECIAL, "max_position_embeddings": POSITIONS + 2} if _points_by_bytes(kind) else {}
    )
    given = {
        "intermediate_size": 48,
        **after_padding,
        **_TABLE[kind].get("pointing", {}),
        **settings,
    }
    return _made(getattr(transformers, HEADS[kind]), pointing_tokenizer(kind), seed, given).eval()


def _points_by_bytes(kind: str) -> bool:
    return kind in AFTER_PADDING and kind != "mpnet"


def pointing_tokenizer(kind: str) -> Any:
    """A tokenizer with one token a character, which frames a question and a page as the family's own does."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    if _points_by_bytes(kind):
        return tiny.bpe_tokenizer("layoutlmv3" if kind == "layoutlmv3" else "roberta")
    inner = tiny.tokenizer().backend_tokenizer
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[
            ("[CLS]", tiny.VOCABULARY.index("[CLS]")),
            ("[SEP]", tiny.VOCABULARY.index("[SEP]")),
        ],
    )
    read = ["input_ids", "token_type_ids", "attention_mask"]
    marks = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=POSITIONS, model_input_names=read, **marks
    )


def write_extractive(folder: Path, kind: str, seed: int = 0, **settings: Any) -> Path:
    """Save a tiny model that points at answers, with its tokenizer and image processor.

    Gives the folder back.
    """
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import (
        LayoutLMv3ImageProcessorPil,
    )

    extractive_model(kind, seed, **settings).save_pretrained(folder)
    pointing_tokenizer(kind).save_pretrained(folder)
    if kind == "layoutlmv3":
        LayoutLMv3ImageProcessorPil(
            size={"height": tiny.PICTURE, "width": tiny.PICTURE}
        ).save_pretrained(folder)
    return folder
