"""Configurations of the models with an image branch.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks settings against them.
"""

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, BrosConfig, LayoutLMConfig


@strict
class LayoutLMImageConfig(LayoutLMConfig):  # type: ignore[misc]
    """LayoutLM's configuration; the side of the square picture in pixels; the channels after each halving of it."""

    model_type = "docaudit-layoutlm-image"
    image_size: int = 256
    image_channels: list[int] | tuple[int, ...] = (32, 64, 128)


@strict
class BrosImageConfig(BrosConfig):  # type: ignore[misc]
    """BROS's configuration; the side of the square picture in pixels; the channels after each halving of it."""

    model_type = "docaudit-bros-image"
    image_size: int = 256
    image_channels: list[int] | tuple[int, ...] = (32, 64, 128)


for _config in (LayoutLMImageConfig, BrosImageConfig):
    # So that AutoTokenizer, too, knows a checkpoint of this type.
    AutoConfig.register(_config.model_type, _config)
