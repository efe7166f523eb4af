"""Tiny checkpoints of encoders of any family that transformers has, with any of its heads; random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tiny

Tokens = Literal["wordpiece", "bytes", "pieces"]
Head = Literal["mlm", "token-classification", "document-classification"]

KINDS: dict[str, Tokens] = {
    "bert": "wordpiece",
    "roberta": "bytes",
    "xlm-roberta": "pieces",
    "camembert": "pieces",
    "distilbert": "wordpiece",
    "deberta": "bytes",
    "deberta-v2": "pieces",
    "modernbert": "bytes",
    "albert": "pieces",
    "electra": "wordpiece",
    "mpnet": "wordpiece",
    "longformer": "bytes",
    "layoutlm": "wordpiece",
    "layoutlmv3": "bytes",
    "lilt": "bytes",
    "bros": "wordpiece",
}
"""The families that people fine-tune, by `model_type`, and what their tokenizers are made of."""
PAIRS: tuple[tuple[str, Head], ...] = tuple(
    (kind, head)
    for kind in KINDS
    for head in ("mlm", "token-classification", "document-classification")
    if (head != "mlm" or kind not in ("layoutlmv3", "lilt")) and (kind, head) != ("bros", "document-classification")
)
AFTER_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "layoutlmv3", "lilt")
"""Families that number positions from the one after the padding token's id."""
CLASSES = ("receipt", "letter", "form")
POSITIONS = 128
_SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_SETTINGS: dict[str, dict[str, Any]] = {
    # Embeddings of another size than hidden states, and layers that share their weights.
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "electra": {"embedding_size": 16},
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "position_buckets": 16,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "longformer": {"attention_window": 16, "sep_token_id": 2},
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 16, "cls_token_id": 0, "sep_token_id": 2},
    "lilt": {"hidden_size": 48},
    "bros": {"hidden_size": 64, "num_attention_heads": 4},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4, "input_size": tiny.PICTURE, "visual_embed": False},
}


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


def model(kind: str, head: str, *, labels: Sequence[str] | None = None, seed: int = 0, **settings: Any) -> Any:
    """A model of two layers of 32 units and `POSITIONS` positions."""
    import torch

    from audit.targets.encoders.families import family_of

    family = family_of(kind)
    assert family is not None
    model_class = family.heads[head]  # type: ignore[index]  # any of the heads
    own = {"token-classification": tiny.LABELS, "document-classification": CLASSES}.get(head, ())
    names = own if labels is None else labels
    ids = {label: index for index, label in enumerate(names)}
    given = {
        "vocab_size": len(tokenizer(kind)),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": POSITIONS + (2 if kind in AFTER_PADDING else 0),
        "initializer_range": 0.2,
        **({"id2label": {index: label for label, index in ids.items()}, "label2id": ids} if names else {}),
        **(_SPECIAL if KINDS.get(kind) != "wordpiece" else {"pad_token_id": 0}),
        **_SETTINGS.get(kind, {}),
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
    scores += [*((f"\u2581{one}", -1.0) for one in characters), *((one, -3.0) for one in characters), ("<mask>", 0.0)]
    inner = Tokenizer(models.Unigram(scores, unk_id=3))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    inner.decoder = decoders.Metaspace(prepend_scheme="always")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        mask_token="<mask>",
        model_max_length=POSITIONS,
    )
