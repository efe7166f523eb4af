"""Configuration of VT5.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks settings against them.
"""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, BeitConfig, T5Config


@strict
class VT5Config(T5Config):  # type: ignore[misc]
    """T5's configuration, and what VT5 adds to it.

    Attributes:
        max_2d_position_embeddings: bins of each coordinate's lookup table. Boxes are whole thousandths of the page, 0
            to 1000; 1024 bins as in LayoutLM (Xu et al. 2020) and in the authors' code.
        max_input_tokens: the longest text part of the input, its end token included; 512 in the authors' configuration.
        visual: of the picture's encoder, BEiT's architecture, which DiT's weights have; None: text and layout only.
        decoder_start_token_id: what the decoder starts from; T5 starts from its padding token.
    """

    model_type = "docaudit-vt5"
    max_2d_position_embeddings: int = 1024
    max_input_tokens: int = 512
    visual: dict[str, Any] | BeitConfig | None = None
    decoder_start_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        """Make the picture encoder's configuration of what a config.json holds."""
        if isinstance(self.visual, dict):
            self.visual = BeitConfig(**self.visual)
        super().__post_init__(**kwargs)

    @property
    def n_visual(self) -> int:
        """Number of visual tokens of a page: one for the whole picture, one for each patch; 0 without a picture."""
        if not isinstance(self.visual, BeitConfig):
            return 0
        sides = [
            (value, value) if isinstance(value, int) else value
            for value in (self.visual.image_size, self.visual.patch_size)
        ]
        (height, width), (patch_height, patch_width) = sides
        return 1 + (height // patch_height) * (width // patch_width)


# So that AutoTokenizer and AutoImageProcessor, too, know a checkpoint of this type.
AutoConfig.register(VT5Config.model_type, VT5Config)
