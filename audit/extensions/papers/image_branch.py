"""LayoutLM and BROS with an image branch, which transformers lacks.

Saved and loaded like its own models.

A small convolutional network makes a feature map of the page, RoIAlign takes the part under each
token's box, and its projection is added to the token's word embedding (Dentan et al. 2024, section
2.1; methods/reconstruction.md). All that follows (positions, boxes, layers, heads) is the
text-and-layout model's own.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks
settings against them.
"""

from typing import Any, ClassVar

import torch
import transformers
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import initialization

from audit.targets.encoders.families import Family, ImageInput, shares, thousandths
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.models import (
    BrosForMaskedLM,
    LayoutLMSpadeForExtraction,
    LayoutLMSpadeForLinking,
)

BINS = 3
"""RoIAlign cuts a box into 3 x 3 bins."""
POINTS = 2
"""Each bin is the mean of 2 x 2 points, regularly placed (He et al. 2017, section 3:
"RoIAlign")."""
GROUPS = 8


@strict
class LayoutLMImageConfig(transformers.LayoutLMConfig):  # type: ignore[misc]
    """LayoutLM's configuration.

    The side of the square picture in pixels; the channels after each halving of it.
    """

    model_type = "docaudit-layoutlm-image"
    image_size: int = 256
    image_channels: list[int] | tuple[int, ...] = (32, 64, 128)


@strict
class BrosImageConfig(transformers.BrosConfig):  # type: ignore[misc]
    """BROS's configuration.

    The side of the square picture in pixels; the channels after each halving of it.
    """

    model_type = "docaudit-bros-image"
    image_size: int = 256
    image_channels: list[int] | tuple[int, ...] = (32, 64, 128)


for _config in (LayoutLMImageConfig, BrosImageConfig):
    # So that AutoTokenizer, too, knows a checkpoint of this type.
    transformers.AutoConfig.register(_config.model_type, _config)


def roi_align(features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return the features under each box, pooled to a grid (RoIAlign, He et al. 2017).

    It is bilinear, and no coordinate is rounded.

    Args:
        features: (n_pages, n_channels, height, width).
        boxes: (n_pages, n_boxes, 4), x0, y0, x1, y1 as shares of the page in [0, 1].

    Returns:
        (n_pages, n_boxes, n_channels * `BINS` * `BINS`), in float32: for each channel its bins, row
        by row.
    """
    n_points = BINS * POINTS
    steps = (torch.arange(n_points, device=boxes.device) + 0.5) / n_points
    x, y = (
        boxes[..., low, None] + (boxes[..., low + 2] - boxes[..., low])[..., None] * steps
        for low in (0, 1)
    )
    shape = (*boxes.shape[:2], n_points, n_points)
    grid = (
        torch.stack([x[..., None, :].expand(shape), y[..., :, None].expand(shape)], dim=-1) * 2 - 1
    )
    # Beyond the centres of the outermost cells the map goes on as it ends.
    sampled = nn.functional.grid_sample(
        features.float(),
        grid.flatten(1, 2).float(),
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
    n_pages, n_channels, n_boxes = *features.shape[:2], boxes.shape[1]
    bins = sampled.reshape(n_pages, n_channels, n_boxes, BINS, POINTS, BINS, POINTS).mean((4, 6))
    return bins.transpose(1, 2).flatten(2)


class ImageProjection(nn.Linear):
    """From what lies under a token to an embedding.

    A class of its own because it starts as nothing else does.
    """


class ImageBranch(nn.Module):
    """From a page's picture to an embedding for each token.

    GroupNorm: a page's result does not depend on others.
    """

    def __init__(self, config: transformers.PreTrainedConfig) -> None:
        """Build the convolutions over the image and the projection to the encoder's width."""
        super().__init__()
        layers: list[nn.Module] = []
        n_before = 3
        for n_channels in config.image_channels:
            convolution = nn.Conv2d(n_before, n_channels, kernel_size=3, stride=2, padding=1)
            layers += [convolution, nn.GroupNorm(GROUPS, n_channels), nn.GELU()]
            n_before = n_channels
        self.features = nn.Sequential(*layers)
        self.projection = ImageProjection(n_before * BINS * BINS, config.hidden_size)

    def forward(self, pixel_values: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        """Embed the part of a picture behind each token: (n_pages, n_tokens, n_hidden).

        Zero for tokens whose box has no area, as [CLS], [SEP], padding.

        Args:
            pixel_values: (n_pages, 3, height, width), in [-1, 1].
            boxes: (n_pages, n_tokens, 4), shares of the page.
        """
        weights = self.projection.weight
        under = roi_align(self.features(pixel_values.to(weights.dtype)), boxes)
        has_area = (boxes[..., 2] > boxes[..., 0]) & (boxes[..., 3] > boxes[..., 1])
        visual: torch.Tensor = self.projection(under.to(weights.dtype))
        return visual * has_area[..., None]


class _ImageEncoder:
    """An encoder whose word embeddings are joined by what the page shows under each token."""

    largest_coordinate: ClassVar[float]

    def __init__(self, config: transformers.PreTrainedConfig, **rest: Any) -> None:
        """Build the text-and-layout encoder, and the image branch beside it."""
        super().__init__(config, **rest)  # type: ignore[call-arg]
        self.visual = ImageBranch(config)
        self.post_init()  # type: ignore[attr-defined]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module's weights; image embeddings start as large as words'."""
        super()._init_weights(module)  # type: ignore[misc]
        if isinstance(module, ImageProjection):
            # As large as fresh word embeddings, so that those of a text-and-layout model still
            # count.
            std = self.config.initializer_range / module.in_features**0.5  # type: ignore[attr-defined]
            initialization.normal_(module.weight, std=std)

    def visual_embeddings(self, pixel_values: torch.Tensor, bbox: torch.Tensor) -> torch.Tensor:
        """Embed pictures as `ImageBranch.forward` does, with `bbox` in the encoder's own units."""
        visual: torch.Tensor = self.visual(
            pixel_values, bbox.to(torch.float32) / self.largest_coordinate
        )
        return visual

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        visual_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the text-and-layout encoder, with `pixel_values` or with `visual_embeds`.

        Args:
            input_ids: (n_pages, n_tokens).
            bbox: (n_pages, n_tokens, 4), in the encoder's own units.
            attention_mask: (n_pages, n_tokens), 1 for tokens.
            inputs_embeds: (n_pages, n_tokens, n_hidden), in place of `input_ids`.
            pixel_values: (n_pages, 3, height, width), in [-1, 1].
            visual_embeds: (n_pages, n_tokens, n_hidden), made by `visual_embeddings`.
            **kwargs: passed on.
        """
        if visual_embeds is None:
            if pixel_values is None or bbox is None:
                raise ValueError(
                    "a model with an image branch needs bbox and pixel_values, or visual_embeds"
                )
            visual_embeds = self.visual_embeddings(pixel_values, bbox)
        words = inputs_embeds
        if words is None:
            words = self.get_input_embeddings()(input_ids)  # type: ignore[attr-defined]
        return super().forward(  # type: ignore[misc]
            inputs_embeds=words + visual_embeds.to(words.dtype),
            bbox=bbox,
            attention_mask=attention_mask,
            **kwargs,
        )


class LayoutLMImageModel(_ImageEncoder, transformers.LayoutLMModel):  # type: ignore[misc]
    """LayoutLM v1 with an image branch; boxes are thousandths of the page."""

    config_class = LayoutLMImageConfig
    largest_coordinate = 1000.0


class BrosImageModel(_ImageEncoder, transformers.BrosModel):  # type: ignore[misc]
    """BROS with an image branch; boxes are shares of the page."""

    config_class = BrosImageConfig
    largest_coordinate = 1.0


class _SeesLayoutLM:
    """Puts the encoder with an image branch into a LayoutLM model; its head and loss stay."""

    config_class = LayoutLMImageConfig

    def __init__(self, config: LayoutLMImageConfig) -> None:
        """Build a LayoutLM model whose encoder sees the page's image."""
        super().__init__(config)  # type: ignore[call-arg]
        self.layoutlm = LayoutLMImageModel(config)
        self.post_init()  # type: ignore[attr-defined]


class _SeesBros:
    """Puts the encoder with an image branch into a BROS model; its head and loss stay."""

    config_class = BrosImageConfig

    def __init__(self, config: BrosImageConfig) -> None:
        """Build a BROS model whose encoder sees the page's image."""
        super().__init__(config)  # type: ignore[call-arg]
        self.bros = BrosImageModel(config, add_pooling_layer=False)
        self.post_init()  # type: ignore[attr-defined]


class LayoutLMImageForMaskedLM(_SeesLayoutLM, transformers.LayoutLMForMaskedLM):  # type: ignore[misc]
    """Bimodal LayoutLM, masked language model."""


class LayoutLMImageForTokenClassification(
    _SeesLayoutLM,
    transformers.LayoutLMForTokenClassification,  # type: ignore[misc]
):
    """Bimodal LayoutLM, token classification."""


class LayoutLMImageSpadeForExtraction(_SeesLayoutLM, LayoutLMSpadeForExtraction):
    """Bimodal LayoutLM, SPADE entity extraction."""


class LayoutLMImageSpadeForLinking(_SeesLayoutLM, LayoutLMSpadeForLinking):
    """Bimodal LayoutLM, SPADE entity linking."""


class BrosImageForMaskedLM(_SeesBros, BrosForMaskedLM):
    """Bimodal BROS, masked language model."""


class BrosImageForTokenClassification(_SeesBros, transformers.BrosForTokenClassification):  # type: ignore[misc]
    """Bimodal BROS, token classification."""


class BrosImageSpadeForExtraction(_SeesBros, transformers.BrosSpadeEEForTokenClassification):  # type: ignore[misc]
    """Bimodal BROS, SPADE entity extraction."""


class BrosImageSpadeForLinking(_SeesBros, transformers.BrosSpadeELForTokenClassification):  # type: ignore[misc]
    """Bimodal BROS, SPADE entity linking."""


def _image_input(config: Any) -> ImageInput:
    """Return the size of images that a model sees, and the name of their input."""
    return ImageInput((config.image_size, config.image_size), "visual_embeds")


_HEADS: tuple[HeadName, ...] = ("mlm", "token-classification", "spade-extraction", "spade-linking")
_LAYOUTLMS = (
    LayoutLMImageForMaskedLM,
    LayoutLMImageForTokenClassification,
    LayoutLMImageSpadeForExtraction,
    LayoutLMImageSpadeForLinking,
)
_BROSES = (
    BrosImageForMaskedLM,
    BrosImageForTokenClassification,
    BrosImageSpadeForExtraction,
    BrosImageSpadeForLinking,
)
LAYOUTLM = Family(
    "LayoutLM with images",
    "layoutlm",
    dict(zip(_HEADS, _LAYOUTLMS, strict=True)),
    thousandths,
    _image_input,
    "cls",
)
BROS = Family(
    "BROS with images", "bros", dict(zip(_HEADS, _BROSES, strict=True)), shares, _image_input, "cls"
)
