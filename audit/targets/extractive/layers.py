"""Layers of models that point at answers: the head, and the one before it that is trained on one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from audit.targets.encoders.adaptation import linear_run


def last_layer(model: Any, loss_of: Callable[[], torch.Tensor]) -> torch.nn.Module:
    """The linear layer that runs last before the one that gives beginnings and ends, of those that the loss reads.

    A pooler runs after them, and no answer reads it.

    Args:
        model: none of its parameters asks for a gradient.
        loss_of: runs it; called with gradients on.
    """
    with torch.no_grad(), linear_run(model) as ran:
        loss_of()
    head = head_of(model)
    return next((layer for layer in reversed(ran) if layer is not head and _is_read(layer, loss_of)), head)


def _is_read(layer: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> bool:
    """True where the loss depends on all of the layer's parameters."""
    own = list(layer.parameters())
    for parameter in own:
        parameter.requires_grad_(True)
    try:
        with torch.enable_grad():
            loss = loss_of()
        return loss.requires_grad and None not in torch.autograd.grad(loss, own, allow_unused=True)
    finally:
        for parameter in own:
            parameter.requires_grad_(False)


def head_of(model: Any) -> torch.nn.Module:
    """The linear layer that gives beginnings and ends: the last one with two outputs."""
    return [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear) and layer.out_features == 2][-1]
