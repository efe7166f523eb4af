"""The last layer of an encoder, computed for the tokens that are read and for no others.

Nothing follows it that looks at another token, so that what is read comes out the same bit for bit. Of the layer's
matrix products, those that make keys and values are all that is left to do for the whole page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.layoutlm.modeling_layoutlm import LayoutLMLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaLayer

BUILT_LIKE_BERT = (BertLayer, LayoutLMLayer, RobertaLayer, XLMRobertaLayer)
"""Layers whose parts, and their order, are those of BERT's."""


def last_layer(encoder: nn.Module) -> Any:
    """Find the last layer of an encoder whose layers are built like BERT's.

    None where they are not, where attention is computed in another way, and where accelerate has replaced a part's
    method in order to bring its weights from elsewhere.
    """
    layers = getattr(getattr(encoder, "encoder", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or type(layers[-1]) not in BUILT_LIKE_BERT:
        return None
    if encoder.config._attn_implementation != "sdpa":  # type: ignore[union-attr]  # transformers' configuration
        return None
    return None if any("forward" in vars(part) for part in layers[-1].modules()) else layers[-1]


@contextmanager
def reading(layer: Any, positions: torch.Tensor) -> Iterator[None]:
    """Within, the layer gives the states of these tokens alone, (n_pages, n_read, n_hidden).

    Args:
        layer: as `last_layer` gives it.
        positions: (n_pages, n_read) of the tokens; no more than a page's padded tokens.
    """
    pages = torch.arange(len(positions), device=positions.device)[:, None]

    def read(hidden: torch.Tensor, attention_mask: torch.Tensor | None = None, *_: Any, **__: Any) -> torch.Tensor:
        rows = hidden[pages, positions]
        attended = layer.attention.output(_attend(layer.attention.self, rows, hidden, attention_mask), rows)
        states: torch.Tensor = layer.output(layer.intermediate(attended), attended)
        return states

    layer.forward = read
    try:
        yield
    finally:
        del layer.forward  # the class has the true one


def _attend(attention: Any, rows: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """What `rows`, (n_pages, n_read, n_hidden), take from all tokens of their pages; of the shape of `rows`."""

    def heads(states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:2], attention.num_attention_heads, -1).transpose(1, 2)

    queries, keys, values = heads(attention.query(rows)), heads(attention.key(hidden)), heads(attention.value(hidden))
    # Every token of a page sees the same ones: the mask's first rows are those of any others.
    seen = None if mask is None else mask[:, :, : rows.shape[1]]
    context, _ = sdpa_attention_forward(
        attention, queries, keys, values, seen, dropout=0.0, scaling=attention.scaling, is_causal=False
    )
    taken: torch.Tensor = context.flatten(2)
    return taken
