"""Training losses of single samples, of shapes that depend on no value (so that torch.func can vectorise them)."""

from __future__ import annotations

import torch

from audit.targets.encoded_page import NOT_READ


def mean_costs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of each sample's labels where they are read: (n_samples,), nats; 0 where none is.

    Args:
        logits: (n_samples, n_tokens, n_classes).
        labels: (n_samples, n_tokens), `NOT_READ` where not read.
    """
    read = labels != NOT_READ
    chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    means: torch.Tensor = -torch.where(read, chosen, 0.0).sum(dim=-1) / read.sum(dim=-1).clamp(min=1)
    return means
