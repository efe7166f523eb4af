"""The masked-language-model head that transformers lacks for BROS."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn
from transformers import BrosConfig, BrosModel
from transformers.modeling_outputs import MaskedLMOutput
from transformers.models.bert.modeling_bert import BertOnlyMLMHead
from transformers.models.bros.modeling_bros import BrosPreTrainedModel


class BrosForMaskedLM(BrosPreTrainedModel):  # type: ignore[misc]
    """BROS with BERT's masked-language-model head, its decoder tied to the word embeddings (Hong et al. 2022)."""

    _tied_weights_keys: ClassVar[dict[str, str]] = {
        "cls.predictions.decoder.weight": "bros.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BrosConfig) -> None:
        # Unlike BERT's, BROS's configuration does not say so, and without it transformers ties nothing.
        if not hasattr(config, "tie_word_embeddings"):
            config.tie_word_embeddings = True
        super().__init__(config)
        self.bros = BrosModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The decoder whose weight is tied to the word embeddings."""
        decoder: nn.Module = self.cls.predictions.decoder
        return decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder."""
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Logits over the vocabulary.

        Args:
            input_ids: (n_pages, n_tokens).
            bbox: (n_pages, n_tokens, 4), shares of the page in [0, 1].
            attention_mask: (n_pages, n_tokens), 1 for tokens.
            labels: (n_pages, n_tokens), -100 where the loss does not read; gives the mean cross-entropy.
            **kwargs: passed on to the encoder.
        """
        hidden = self.bros(input_ids, bbox=bbox, attention_mask=attention_mask, **kwargs).last_hidden_state
        logits = self.cls(hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)
