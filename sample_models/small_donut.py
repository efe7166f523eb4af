"""An untrained Donut, small enough to learn to read a few words of small pages within minutes on a CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    DonutSwinConfig,
    MBartConfig,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
)
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil
from vocabulary import train_tokenizer

MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>")
SPREAD = 0.1
"""Standard deviation of fresh weights: with the usual 0.02 a model this narrow does not begin to
learn."""


@dataclass(frozen=True)
class Size:
    """How large it is.

    Attributes:
        height, width: of the images that it sees, pixels; multiples of 32.
        n_pieces: learned entries of the vocabulary.
        positions: tokens of the decoder, the question's and the answer's.
        dimension: of the first stage of the encoder; twice as many in the second and in the
            decoder.
    """

    height: int
    width: int
    n_pieces: int
    positions: int
    dimension: int = 24


def write_untrained(folder: Path, size: Size, texts: Iterable[str], seed: int) -> None:
    """A Donut with fresh weights, its vocabulary and its image processor, as a checkpoint.

    Args:
        folder: made when missing.
        size: how large it is.
        texts: what the vocabulary is learnt from: never the audited documents.
        seed: of the weights.
    """
    tokenizer = train_tokenizer(texts, n_pieces=size.n_pieces, max_tokens=size.positions)
    tokenizer.add_tokens(list(MARKS), special_tokens=True)
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    torch.manual_seed(seed)
    encoder = DonutSwinConfig(
        image_size=[size.height, size.width],
        patch_size=4,
        embed_dim=size.dimension,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
        initializer_range=SPREAD,
    )
    images = DonutImageProcessorPil(size={"height": size.height, "width": size.width})
    for part in (untrained(encoder, tokenizer, size.positions), tokenizer, images):
        part.save_pretrained(folder)


def untrained(encoder: DonutSwinConfig, tokenizer: Any, positions: int) -> Any:
    """A model with fresh weights: this encoder, and an MBart decoder of two layers as wide as its last stage.

    Args:
        encoder: of the page.
        tokenizer: that knows `MARKS`.
        positions: tokens of the decoder.
    """
    decoder = MBartConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        decoder_layers=2,
        d_model=encoder.hidden_size,
        decoder_ffn_dim=4 * encoder.hidden_size,
        decoder_attention_heads=4,
        is_decoder=True,
        is_encoder_decoder=False,
        add_cross_attention=True,
        dropout=0.0,
        init_std=SPREAD,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = tokenizer.convert_tokens_to_ids(MARKS[0])
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    return VisionEncoderDecoderModel(config)
