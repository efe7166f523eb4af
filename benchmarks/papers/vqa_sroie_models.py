"""The untrained checkpoints of `vqa_sroie.py`: small, of Donut's and of VT5's shape, at any image resolution."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
from small_donut import MARKS, SPREAD, untrained
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    AutoModel,
    BeitConfig,
    DonutSwinConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

from audit.extensions.papers.vt5 import VT5Config, VT5ForConditionalGeneration
from audit.targets.checkpoint.loading import load_tokenizer
from benchmarks.tools.starts import start_words_from

Shape = Literal["donut", "vt5"]
SEED = 0
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
DIMENSION = 32
"""Of the first of three stages of Donut's encoder; doubled by each next one. The decoder is as wide
as the last."""
POSITIONS = 192
"""Tokens of Donut's decoder; an answer may have half of them."""
MAX_TOKENS = 256
"""Tokens of VT5's text input; a longer page loses its last words."""
EYE = 96
"""Width of VT5's visual branch."""


def make_start(
    shape: Shape, size: tuple[int, int], backbone: Path, texts: Iterable[str], folder: Path
) -> None:
    """Write an untrained checkpoint.

    Args:
        shape: "donut": DonutSwin and an MBart decoder, every weight fresh; "vt5": docaudit's VT5,
            fresh but for the word embeddings, which are the backbone's.
        size: height and width in pixels of the images that it sees.
        backbone: a BERT-like model: its vocabulary and, for "vt5", its word embeddings.
        texts: see `small_tokenizer`.
        folder: where it goes.
    """
    tokenizer, kept = small_tokenizer(backbone, texts)
    torch.manual_seed(SEED)
    height, width = size
    if shape == "donut":
        tokenizer.add_tokens(list(MARKS), special_tokens=True)
        model = _donut(size, tokenizer)
        images: Any = DonutImageProcessorPil(size={"height": height, "width": width})
    else:
        model = _vt5(size, tokenizer)
        words = AutoModel.from_pretrained(backbone, dtype=torch.float32, local_files_only=True)
        start_words_from(model, words.get_input_embeddings().weight.detach()[kept])
        images = BeitImageProcessorPil(
            size={"height": height, "width": width}, do_center_crop=False
        )
    for part in (model, tokenizer, images):
        part.save_pretrained(folder)


def small_tokenizer(
    backbone: Path, texts: Iterable[str]
) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """The backbone's WordPiece vocabulary, cut to what these texts use and to ASCII characters.

    The head over a BERT's 30,522 tokens would take most of the time of models this small. Words are
    parted at spaces only, so that every answer is spelled as it is written, but for case and
    accents.

    Args:
        backbone: holds the tokenizer.
        texts: of documents that are in no split: a vocabulary must not know the audited ones.

    Returns:
        The tokenizer; and for each of its tokens the id that it has in the backbone, in order.
    """
    own = load_tokenizer(backbone)
    ids: dict[str, int] = own.get_vocab()
    whole = _wordpiece(ids)
    used = {
        token for text in texts for token in whole.encode(text, add_special_tokens=False).tokens
    }
    used |= {token for token in ids if token.isascii() and len(token.removeprefix("##")) == 1}
    tokens = [*SPECIAL, *sorted(used - {*SPECIAL}, key=ids.__getitem__)]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_wordpiece({token: place for place, token in enumerate(tokens)}),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        clean_up_tokenization_spaces=False,
    )
    return tokenizer, [ids[token] for token in tokens]


def _wordpiece(vocabulary: dict[str, int]) -> Tokenizer:
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.decoder = decoders.WordPiece(cleanup=False)
    return made


def _donut(size: tuple[int, int], tokenizer: Any) -> Any:
    encoder = DonutSwinConfig(
        image_size=list(size),
        patch_size=4,
        embed_dim=DIMENSION,
        depths=[1, 1, 2],
        num_heads=[2, 4, 4],
        window_size=4,
        drop_path_rate=0.0,
        initializer_range=SPREAD,
    )
    return untrained(encoder, tokenizer, POSITIONS)


def _vt5(size: tuple[int, int], tokenizer: Any) -> VT5ForConditionalGeneration:
    eye = BeitConfig(
        image_size=list(size),
        patch_size=16,
        hidden_size=EYE,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * EYE,
        use_relative_position_bias=True,
        layer_scale_init_value=1.0,
        drop_path_rate=0.0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=SPREAD,
    )
    config = VT5Config(
        vocab_size=len(tokenizer),
        d_model=384,
        d_kv=32,
        num_heads=6,
        d_ff=384,
        num_layers=2,
        dropout_rate=0.0,
        max_input_tokens=MAX_TOKENS,
        visual=eye,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return VT5ForConditionalGeneration(config)
