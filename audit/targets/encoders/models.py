"""Heads that transformers lacks.

SPADE (Hwang et al. 2021) on LayoutLM, and a masked language model on BROS.

Attributes and keyword arguments are named as in transformers' BROS, so that one loss and one
training batch serve both. What differs from it follows the original code of BROS (Hong et al. 2022;
methods/reconstruction.md): the relation head projects to 128 numbers, not to the hidden size, and
masks with -1e4.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn
from transformers import BrosConfig, BrosModel, LayoutLMConfig, LayoutLMModel, initialization
from transformers.modeling_outputs import MaskedLMOutput, TokenClassifierOutput
from transformers.models.bert.modeling_bert import BertOnlyMLMHead
from transformers.models.bros.modeling_bros import BrosPreTrainedModel, BrosSpadeOutput
from transformers.models.layoutlm.modeling_layoutlm import LayoutLMPreTrainedModel

SPADE_HIDDEN_SIZE = 128
MASKED = -1e4
Rows = torch.Tensor | None
"""What a model is given of each page, or nothing."""


class RelationExtractor(nn.Module):
    """Scores every token of a page as what each token points to.

    The last one is a learned dummy for "none".

    Args:
        hidden_size: size of the encoder.
        head_size: what queries and keys are projected to.
        dropout: dropout in [0, 1), on the inputs of both projections.
    """

    def __init__(self, hidden_size: int, head_size: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.query = nn.Linear(hidden_size, head_size)
        self.key = nn.Linear(hidden_size, head_size)
        self.dummy_node = nn.Parameter(torch.zeros(1, hidden_size))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return unmasked scores (n_pages, n_tokens, n_tokens + 1) of token pairs.

        Shape of the states: (n_pages, n_tokens, n_hidden).
        """
        dummy = self.dummy_node.expand(len(hidden), 1, -1)
        keys = self.key(self.drop(torch.cat([hidden, dummy], dim=1)))
        scores: torch.Tensor = self.query(self.drop(hidden)) @ keys.transpose(1, 2)
        return scores


def masked_relations(scores: torch.Tensor, readable: torch.Tensor) -> torch.Tensor:
    """Return scores with -1e4 where a token points to itself or to an unreadable token.

    "none" always stays.

    Args:
        scores: (n_pages, n_tokens, n_tokens + 1).
        readable: (n_pages, n_tokens), boolean.
    """
    n_pages, n_tokens = readable.shape
    itself = torch.eye(n_tokens, n_tokens + 1, dtype=torch.bool, device=scores.device)
    unreadable = torch.cat([~readable, readable.new_zeros(n_pages, 1)], dim=1)
    return scores.masked_fill(itself | unreadable[:, None, :], MASKED)


class _LayoutLMSpade(LayoutLMPreTrainedModel):  # type: ignore[misc]
    """What both models share.

    The encoder, the size of the relation head, and how the head starts.
    """

    def __init__(self, config: LayoutLMConfig) -> None:
        """Add LayoutLM's encoder, and a size of the relation heads where none is set."""
        if not hasattr(config, "spade_hidden_size"):
            config.spade_hidden_size = SPADE_HIDDEN_SIZE
        super().__init__(config)
        self.layoutlm = LayoutLMModel(config)

    def _relation_extractor(self) -> RelationExtractor:
        """Return a fresh relation head of the configuration's sizes."""
        config = self.config
        return RelationExtractor(
            config.hidden_size, config.spade_hidden_size, config.hidden_dropout_prob
        )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module's weights, also the dummy node of a relation head."""
        super()._init_weights(module)
        if isinstance(module, RelationExtractor):
            # This one, unlike PyTorch's, leaves a loaded parameter as it is.
            initialization.normal_(module.dummy_node, std=self.config.initializer_range)


class LayoutLMSpadeForExtraction(_LayoutLMSpade):
    """LayoutLM with SPADE entity extraction.

    It gives the class of each word's first token, and each token's predecessor.
    """

    def __init__(self, config: LayoutLMConfig) -> None:
        super().__init__(config)
        self.initial_token_classifier = nn.Sequential(
            nn.Dropout(config.hidden_dropout_prob),
            nn.Linear(config.hidden_size, config.hidden_size),
            nn.Dropout(config.hidden_dropout_prob),
            nn.Linear(config.hidden_size, config.num_labels),
        )
        self.subsequent_token_classifier = self._relation_extractor()
        self.post_init()

    def forward(
        self,
        input_ids: Rows = None,
        bbox: Rows = None,
        attention_mask: Rows = None,
        bbox_first_token_mask: Rows = None,
        initial_token_labels: Rows = None,
        subsequent_token_labels: Rows = None,
        **kwargs: Any,
    ) -> BrosSpadeOutput:
        """Return the logits of classes and predecessors, and their loss.

        Shapes (n_pages, n_tokens, n_labels) and (n_pages, n_tokens, n_tokens + 1).

        Args:
            input_ids: (n_pages, n_tokens).
            bbox: (n_pages, n_tokens, 4), whole thousandths of the page.
            attention_mask: (n_pages, n_tokens), 1 for tokens.
            bbox_first_token_mask: (n_pages, n_tokens), boolean; where given, labels of other tokens
                are not read.
            initial_token_labels: (n_pages, n_tokens), -100 where not read.
            subsequent_token_labels: (n_pages, n_tokens), n_tokens for "none", -100 where not read.
                With both, the loss is the sum of two mean cross-entropies.
            **kwargs: passed on to the encoder.
        """
        hidden = self.layoutlm(
            input_ids, bbox=bbox, attention_mask=attention_mask, **kwargs
        ).last_hidden_state
        attended = _attention_of(attention_mask, hidden)
        initial = self.initial_token_classifier(hidden)
        subsequent = masked_relations(self.subsequent_token_classifier(hidden), attended)
        loss = None
        if initial_token_labels is not None and subsequent_token_labels is not None:
            first = attended if bbox_first_token_mask is None else bbox_first_token_mask.bool()
            loss = _cross_entropy(initial, initial_token_labels, first)
            loss = loss + _cross_entropy(subsequent, subsequent_token_labels, attended)
        return BrosSpadeOutput(
            loss=loss, initial_token_logits=initial, subsequent_token_logits=subsequent
        )


class LayoutLMSpadeForLinking(_LayoutLMSpade):
    """LayoutLM with SPADE entity linking.

    It gives the parent of each entity, between the first tokens of words.
    """

    def __init__(self, config: LayoutLMConfig) -> None:
        super().__init__(config)
        self.entity_linker = self._relation_extractor()
        self.post_init()

    def forward(
        self,
        input_ids: Rows = None,
        bbox: Rows = None,
        attention_mask: Rows = None,
        bbox_first_token_mask: Rows = None,
        labels: Rows = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Return the logits of parents (n_pages, n_tokens, n_tokens + 1).

        Args:
            input_ids: (n_pages, n_tokens).
            bbox: (n_pages, n_tokens, 4), whole thousandths of the page.
            attention_mask: (n_pages, n_tokens), 1 for tokens.
            bbox_first_token_mask: (n_pages, n_tokens), boolean: the tokens that are read and that
                may be parents; every token when not given.
            labels: (n_pages, n_tokens), n_tokens for "none", -100 where not read; gives the mean
                cross-entropy.
            **kwargs: passed on to the encoder.
        """
        hidden = self.layoutlm(
            input_ids, bbox=bbox, attention_mask=attention_mask, **kwargs
        ).last_hidden_state
        first = _attention_of(attention_mask, hidden)
        if bbox_first_token_mask is not None:
            first = first & bbox_first_token_mask.bool()
        logits = masked_relations(self.entity_linker(hidden), first)
        loss = None if labels is None else _cross_entropy(logits, labels, first)
        return TokenClassifierOutput(loss=loss, logits=logits)


def _attention_of(attention_mask: torch.Tensor | None, hidden: torch.Tensor) -> torch.Tensor:
    """Return the attention mask as booleans; without one, all tokens are attended."""
    if attention_mask is None:
        return torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    return attention_mask.bool()


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy at the positions where `read` is true."""
    return nn.functional.cross_entropy(logits[read], labels[read])


class BrosForMaskedLM(BrosPreTrainedModel):  # type: ignore[misc]
    """BROS with BERT's masked-language-model head (Hong et al. 2022).

    Its decoder is tied to the word embeddings.
    """

    _tied_weights_keys: ClassVar[dict[str, str]] = {
        "cls.predictions.decoder.weight": "bros.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BrosConfig) -> None:
        # Unlike BERT's, BROS's configuration does not say so, and without it transformers ties
        # nothing.
        if not hasattr(config, "tie_word_embeddings"):
            config.tie_word_embeddings = True
        super().__init__(config)
        self.bros = BrosModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """Return the decoder whose weight is tied to the word embeddings."""
        decoder: nn.Module = self.cls.predictions.decoder
        return decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder over the vocabulary."""
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias

    def forward(
        self,
        input_ids: Rows = None,
        bbox: Rows = None,
        attention_mask: Rows = None,
        labels: Rows = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Return the logits over the vocabulary, and the loss where there are labels.

        Args:
            input_ids: (n_pages, n_tokens).
            bbox: (n_pages, n_tokens, 4), shares of the page in [0, 1].
            attention_mask: (n_pages, n_tokens), 1 for tokens.
            labels: (n_pages, n_tokens), -100 where the loss does not read; gives the mean
                cross-entropy.
            **kwargs: passed on to the encoder.
        """
        hidden = self.bros(
            input_ids, bbox=bbox, attention_mask=attention_mask, **kwargs
        ).last_hidden_state
        logits = self.cls(hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)
