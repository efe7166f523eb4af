"""VT5 (Tito et al. 2024, section 4.1 and appendix B), as a `PreTrainedModel`.

Saved and loaded like transformers' own.

The question and the page's words are tokens. A token's embedding is T5's word embedding plus the
embeddings of the four coordinates of its box. The page's picture is cut into patches, which a DiT
encodes (BEiT's architecture, Li et al. 2022), and a linear layer brings its outputs to T5's width.
One sequence goes into T5's encoder,

    question tokens | words' tokens with their boxes | end | visual tokens

and T5's decoder gives the answer. What follows the join is transformers' T5, unchanged, under T5's
own parameter names.

Where the paper is silent or its public code differs (rubenpt91/PFL-DocVQA-Competition,
models/VT5.py):

- One table for both x and one for both y coordinates, summed: appendix B. Tables start small
  (`BOX_STD`).
- The question's tokens have the box of the whole page, (0, 0, 1000, 1000), the end token and
  padding (0, 0, 0, 0); the visual tokens have none, DiT knows its own positions; its [CLS] is one
  of them: all as in the public code.
- Padding stands at the end of the joined sequence. In the public code it stands between text and
  visual tokens, so that T5's relative positions, and with them an answer, depend on the longest
  text in the batch.
- DiT is trained with the rest unless a recipe freezes it
  (`model.encoder.visual.patches.requires_grad_(False)`, the public code's default).

Starting from other weights:

- T5: `VT5ForConditionalGeneration.from_pretrained(T5_FOLDER,
  config=VT5Config(**T5Config.from_pretrained(T5_FOLDER) .to_dict() | {"model_type": "docaudit-vt5",
  "visual": ...}))`; boxes and visual branch start at random.
- DiT: `model.encoder.visual.patches.load_state_dict(BeitModel.from_pretrained(DIT_FOLDER,
  add_pooling_layer=False) .state_dict())`, with `visual` DiT's own configuration.
- Word embeddings of another model, of size `d_model`, with its tokenizer:
  `benchmarks.tools.starts.start_words_from`. The configuration names its padding and end (BERT's
  [PAD] and [SEP], say). BERT's tokenizers part words at punctuation and answer "9. 00" for "9.00":
  give the vocabulary a tokenizer that parts words at spaces only.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks
settings against them.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import (
    AutoConfig,
    BeitConfig,
    BeitModel,
    T5Config,
    T5ForConditionalGeneration,
    initialization,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.t5.modeling_t5 import T5Stack

LARGEST_COORDINATE = 1000
BOX_STD = 0.1
"""Standard deviation of fresh coordinate embeddings, in that of T5's fresh word embeddings: the four together
shift a word by a fifth of its own size, so that words read before boxes were learned still read the
same."""


@strict
class VT5Config(T5Config):  # type: ignore[misc]
    """T5's configuration, and what VT5 adds to it.

    Attributes:
        max_2d_position_embeddings: bins of each coordinate's lookup table. Boxes are whole
            thousandths of the page, 0 to 1000; 1024 bins as in LayoutLM (Xu et al. 2020) and in the
            authors' code.
        max_input_tokens: the longest text part of the input, its end token included; 512 in the
            authors' configuration.
        visual: configuration of the picture's encoder, BEiT's architecture, which DiT's weights
            have; None: text and layout only.
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
        """Return the number of visual tokens of a page: one for the picture and one a patch.

        0 without a picture.
        """
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


class CoordinateEmbedding(nn.Embedding):
    """A learned vector for each value of a coordinate.

    A class of its own because it starts as nothing else does.
    """


class VisualProjection(nn.Linear):
    """From DiT's width to T5's; a class of its own because it starts as nothing else does."""


class BoxEmbeddings(nn.Module):
    """A learned vector for each horizontal and each vertical coordinate (appendix B)."""

    def __init__(self, config: VT5Config) -> None:
        """Build the embeddings of horizontal and vertical coordinates."""
        super().__init__()
        self.horizontal = CoordinateEmbedding(config.max_2d_position_embeddings, config.d_model)
        self.vertical = CoordinateEmbedding(config.max_2d_position_embeddings, config.d_model)

    def forward(self, bbox: torch.Tensor) -> torch.Tensor:
        """Return the sum over a box's coordinates: (n_pages, n_tokens, d_model).

        Args:
            bbox: (n_pages, n_tokens, 4) x0, y0, x1, y1, whole numbers from 0 to 1000; others are
                brought to the ends.
        """
        x0, y0, x1, y1 = bbox.long().clamp(0, LARGEST_COORDINATE).unbind(-1)
        total: torch.Tensor = (
            self.horizontal(x0) + self.vertical(y0) + self.horizontal(x1) + self.vertical(y1)
        )
        return total


class VisualTokens(nn.Module):
    """The page's picture as tokens of T5's width: DiT, then one linear layer."""

    def __init__(self, config: VT5Config) -> None:
        """Build the picture encoder and the projection of its tokens to the model's width."""
        super().__init__()
        patches: Any = config.visual
        self.patches = BeitModel(patches, add_pooling_layer=False)
        self.projection = VisualProjection(patches.hidden_size, config.d_model)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Encode the picture: [CLS] and a token per patch, row by row.

        Shape (n_pages, 1 + n_patches, d_model).

        Args:
            pixel_values: (n_pages, 3, height, width), as DiT's image processor makes them.
        """
        # On a CPU one picture at a time when it counts: attention over an odd number of tokens
        # gives other last bits in another place of a batch, and an answer would depend on the pages
        # beside it (`audit.targets.answering.rows`).
        if self.training or pixel_values.device.type != "cpu":
            return self._tokens(pixel_values)
        made = [self._tokens(pixel_values[:1])]
        for page, before in zip(pixel_values[1:], pixel_values, strict=False):
            # Questions and candidates that share a page often follow each other.
            made.append(made[-1] if torch.equal(page, before) else self._tokens(page[None]))
        return torch.cat(made)

    def _tokens(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the projected tokens of a picture: (n_pages, n_visual, d_model)."""
        tokens: torch.Tensor = self.projection(self.patches(pixel_values).last_hidden_state)
        return tokens


@dataclass
class EncodedPage(BaseModelOutput):  # type: ignore[misc]
    """What the encoder gives.

    `attention_mask`, (n_pages, n_joined), is 1 where the joined sequence has a token.
    """

    attention_mask: torch.Tensor | None = None


class VT5Encoder(T5Stack):  # type: ignore[misc]
    """T5's encoder over text tokens with boxes and visual tokens."""

    config_class = VT5Config

    def __init__(self, config: VT5Config) -> None:
        """Build T5's encoder with embeddings of boxes and, where configured, visual tokens."""
        super().__init__(config)
        self.boxes = BoxEmbeddings(config)
        self.visual = None if config.visual is None else VisualTokens(config)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module's weights, those of boxes and visual tokens included."""
        super()._init_weights(module)
        factor = self.config.initializer_factor
        if isinstance(module, CoordinateEmbedding):
            initialization.normal_(module.weight, std=factor * BOX_STD)
        elif isinstance(module, VisualProjection):
            # As T5 starts its own linear layers: outputs as large as inputs.
            initialization.normal_(module.weight, std=factor * module.in_features**-0.5)

    def joined(
        self,
        words: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return embeddings of words, boxes and picture as one sequence, and its mask.

        Shapes (n_pages, n_joined, d_model) and (n_pages, n_joined).

        Args:
            words: (n_pages, n_tokens, d_model) word embeddings.
            bbox: (n_pages, n_tokens, 4).
            attention_mask: (n_pages, n_tokens), 1 for tokens, 0 for padding.
            pixel_values: (n_pages, 3, height, width); None for a model without visual branch.
        """
        text = words + self.boxes(bbox)
        if self.visual is None:
            return text, attention_mask
        visual = self.visual(pixel_values).to(text.dtype)
        mask = torch.cat([attention_mask, attention_mask.new_ones(visual.shape[:2])], dim=1)
        # T5 knows only distances: a page reads the same whatever its padding when none stands
        # between its tokens.
        order = mask.argsort(dim=1, descending=True, stable=True)
        everything = torch.cat([text, visual], dim=1)
        return everything.gather(1, order[..., None].expand_as(everything)), mask.gather(1, order)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> EncodedPage:
        """Return the encoded sequence of a page's words, boxes and visual tokens.

        Raises:
            ValueError: no boxes, a picture for a model without visual branch, or none for a model
                with one.
        """
        words = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if bbox is None:
            raise ValueError("VT5 reads layout: bbox is missing")
        if (pixel_values is None) != (self.visual is None):
            raise ValueError(
                "pixel_values go with a visual branch: config.visual says whether this model has one"
            )
        if attention_mask is None:
            attention_mask = torch.ones(words.shape[:2], dtype=torch.long, device=words.device)
        embeddings, mask = self.joined(words, bbox, attention_mask, pixel_values)
        encoded = super().forward(inputs_embeds=embeddings, attention_mask=mask, **kwargs)
        return EncodedPage(
            encoded.last_hidden_state, encoded.hidden_states, encoded.attentions, mask
        )


class VT5ForConditionalGeneration(T5ForConditionalGeneration):  # type: ignore[misc]
    """VT5 with T5's language modelling head: answers are generated by transformers' `generate`."""

    config_class = VT5Config
    accepts_loss_kwargs = False
    """The loss is a mean over the batch's own tokens; transformers' Trainer must not assume
    another."""

    def __init__(self, config: VT5Config) -> None:
        """Build T5 with `VT5Encoder` in the place of its encoder."""
        super().__init__(config)
        encoder_config = copy.deepcopy(config)
        encoder_config.is_decoder = False
        encoder_config.use_cache = False
        self.encoder = VT5Encoder(encoder_config)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        encoder_outputs: EncodedPage | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return logits of the answer's tokens, and the loss where there are labels.

        Shape of the logits: (n_pages, n_answer, vocab_size).

        Args:
            input_ids: (n_pages, n_tokens) question, words, end, padding.
            bbox: (n_pages, n_tokens, 4) x0, y0, x1, y1 of each token's word, thousandths of the
                page, 0 to 1000.
            attention_mask: (n_pages, n_tokens), 1 for tokens, 0 for padding.
            pixel_values: (n_pages, 3, height, width); for models with a visual branch.
            labels: (n_pages, n_answer) the answer and its end, -100 where nothing is read. The loss
                is the mean cross-entropy over the tokens read, in nats.
            decoder_input_ids: (n_pages, n_answer); made of `labels` when not given.
            encoder_outputs: what `encoder` gave for the same page, in place of the arguments above
                that describe it.
            inputs_embeds: (n_pages, n_tokens, d_model) word embeddings, in place of `input_ids`.
            **kwargs: passed on to T5.

        Returns:
            transformers' `Seq2SeqLMOutput`.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                bbox=bbox,
                attention_mask=attention_mask,
                pixel_values=pixel_values,
                inputs_embeds=inputs_embeds,
            )
        return super().forward(
            attention_mask=encoder_outputs.attention_mask,
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=encoder_outputs,
            labels=labels,
            **kwargs,
        )
