"""Models that write the text of a picture: Donut, TrOCR and Pix2Struct on lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.strangers_files import LINE, draw_line, line_of
from benchmarks.tools.strangers_models import INK, fit, padded, save, shuffled, tokenizer_of
from benchmarks.tools.strangers_sources import Page

DECODER = {
    "d_model": 48,
    "init_std": 0.1,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
EYE = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
"""Sizes of an encoder of pictures."""


def train_donut(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a Donut that writes the words of a line after its task's mark."""
    from transformers import DonutSwinConfig
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    words = tokenizer_of(vocabulary, writes=True, marks=("<s_line>",))
    width = LINE[0]
    height = 2 * LINE[1]
    encoder = DonutSwinConfig(
        image_size=[height, width],
        patch_size=4,
        embed_dim=24,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
        initializer_range=0.1,
    )
    decoder = {
        **DECODER,
        "model_type": "mbart",
        "encoder_layers": 2,
        "is_encoder_decoder": False,
        "scale_embedding": True,
    }
    images = DonutImageProcessorPil(size={"height": height, "width": width}, **INK)
    start = words.convert_tokens_to_ids("<s_line>")
    model = _encoder_decoder(encoder.to_dict(), decoder, words, start)
    _train_on_lines(folder, model, (words, images), pages)


def train_trocr(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a TrOCR that writes the words of a line."""
    from transformers import TrOCRProcessor, ViTConfig
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    words = tokenizer_of(vocabulary, writes=True)
    encoder = ViTConfig(
        **EYE,
        intermediate_size=96,
        image_size=64,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    decoder = {**DECODER, "model_type": "trocr", "cross_attention_hidden_size": 48}
    images = ViTImageProcessorPil(size={"height": 64, "width": 64}, **INK)
    model = _encoder_decoder(encoder.to_dict(), decoder, words, words.bos_token_id)
    _train_on_lines(folder, model, (words, images), pages)
    TrOCRProcessor(images, words).save_pretrained(folder)


def _encoder_decoder(
    encoder: dict[str, Any], decoder: dict[str, Any], words: Any, start: int
) -> Any:
    """Make an encoder of pictures with a decoder, of random weights."""
    from transformers import VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    marks = {
        "vocab_size": len(words),
        "is_decoder": True,
        "add_cross_attention": True,
        "bos_token_id": words.bos_token_id,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "decoder_start_token_id": start,
    }
    config = VisionEncoderDecoderConfig(encoder=encoder, decoder={**decoder, **marks})
    config.decoder_start_token_id = start
    config.pad_token_id = words.pad_token_id
    config.eos_token_id = words.eos_token_id
    return VisionEncoderDecoderModel(config)


def train_pix2struct(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a Pix2Struct that writes the words of a line."""
    from transformers import Pix2StructConfig, Pix2StructForConditionalGeneration
    from transformers.models.pix2struct.image_processing_pil_pix2struct import (
        Pix2StructImageProcessorPil,
    )

    words = tokenizer_of(vocabulary, writes=True)
    shared = {"hidden_size": 48, "d_kv": 12, "d_ff": 96, "num_heads": 4, "dropout_rate": 0.0}
    writer = {
        "vocab_size": len(words),
        "num_layers": 2,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "decoder_start_token_id": words.pad_token_id,
    }
    eye = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "patch_embed_hidden_size": 3 * 8 * 8,
        "seq_len": 48,
    }
    config = Pix2StructConfig(
        text_config={**shared, **writer}, vision_config={**shared, **eye}, is_vqa=False
    )
    config.decoder_start_token_id = words.pad_token_id
    images = Pix2StructImageProcessorPil(
        patch_size={"height": 8, "width": 8}, max_patches=48, is_vqa=False
    )
    model = Pix2StructForConditionalGeneration(config)
    _train_on_lines(folder, model, (words, images), pages)


def _train_on_lines(
    folder: Path, model: Any, reads: tuple[Any, Any], pages: Sequence[Page]
) -> None:
    """Train a model on the lines of pages until it knows them, and save it.

    Args:
        folder: of the model.
        model: an encoder of pictures with a decoder.
        reads: its tokenizer and its image processor.
        pages: whose first lines it learns.
    """
    import torch

    words, images = reads
    lines = [line_of(page) for page in pages]
    pixels = images([draw_line(line) for line in lines], return_tensors="pt")
    rows = [[*words(line)["input_ids"], words.eos_token_id] for line in lines]

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            places = torch.tensor(batch)
            seen = {name: values[places] for name, values in pixels.items()}
            yield {**seen, "labels": padded([rows[index] for index in batch], -100)}

    fit(model, batches, rate=2e-3, until=0.1, most=100)
    save(folder, model, words, images)
