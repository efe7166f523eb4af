"""A head as the model without its encoder: the model's own forward pass over hidden states that were given.

Heads differ in their parts (a dense layer before the classifier, a pooler, a mean over the page). None of them is known
here: while the model runs, its encoder answers with the given states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from audit.targets.batching import padded_rows


def own_scores(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Scores (n_rows, n_outputs) of gathered hidden states (n_rows, n_hidden), of a head that scores each alone."""
    ids = torch.zeros(1, len(rows), dtype=torch.int64, device=rows.device)
    with _encoded(model, rows[None]):
        scores: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return scores[0]


def own_token_scores(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Scores (n_pages, n_tokens, n_outputs) of whole pages' hidden states, of a head that scores each token alone."""
    return own_scores(model, hidden.flatten(0, 1)).reshape(*hidden.shape[:2], -1)


def own_page_scores(model: Any, hidden: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Scores (n_pages, n_outputs) of a head that reads whole pages.

    Args:
        model: the model.
        hidden: (n_pages, n_padded_tokens, n_hidden).
        lengths: tokens of each page, padding left out.
    """
    n_pages = len(hidden)
    # The head is given a full block of pages, see `audit.targets.batching`.
    filled = nn.functional.pad(hidden, (0, 0, 0, 0, 0, padded_rows(n_pages) - n_pages))
    n_own = torch.tensor([*lengths, *[1] * (len(filled) - n_pages)], device=hidden.device)
    mask = (torch.arange(hidden.shape[1], device=hidden.device) < n_own[:, None]).long()
    with _encoded(model, filled):
        scores: torch.Tensor = model(input_ids=torch.zeros_like(mask), attention_mask=mask).logits
    return scores[:n_pages]


def scores_alone(model: Any) -> bool:
    """True where a linear layer called `classifier` is all that the model has beside its encoder."""
    own = [name for name, part in model.named_children() if any(True for _ in part.parameters())]
    return sorted(own) == sorted({model.base_model_prefix, "classifier"})


class _Encoded(BaseModelOutputWithPooling):  # type: ignore[misc]  # transformers is untyped here
    """What an encoder gives; None for all that families add to it and no head reads (Longformer's attention)."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


@contextmanager
def _encoded(model: Any, hidden: torch.Tensor) -> Iterator[None]:
    """Within, the encoder answers with these last hidden states, without running."""
    encoder = model.base_model
    output = _Encoded(last_hidden_state=hidden, pooler_output=_pooled(encoder, hidden))
    with answering(encoder, output):
        yield


@contextmanager
def answering(module: nn.Module, output: Any) -> Iterator[None]:
    """Within, the module gives this output, without running."""
    module.forward = lambda *_, **__: output
    try:
        yield
    finally:
        del module.forward  # the class has the true one


def _pooled(encoder: Any, hidden: torch.Tensor) -> torch.Tensor | None:
    """What the encoder's pooler makes of each page; None where the encoder has none."""
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    activation = getattr(encoder, "pooler_activation", None)
    # ALBERT's pooler is a linear layer alone.
    pooled: torch.Tensor = pooler(hidden) if activation is None else activation(pooler(hidden[:, 0]))
    return pooled
