"""Computing in half precision where it does no harm: scores, losses and training on a page stay in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from audit.cards import TargetCard
from audit.targets.encoders.forward import DTYPES

HALF = (torch.bfloat16, torch.float16)


@contextmanager
def computing(card: TargetCard, head_of: Callable[[], Any]) -> Iterator[None]:
    """Within, a model computes in its card's dtype, but its head in float32; not to be nested.

    Args:
        card: the model's.
        head_of: gives the layer of scores.
    """
    if card.dtype == "float32":
        yield
        return
    exact = ExitStack()

    def begin(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        exact.enter_context(torch.autocast(card.device, enabled=False))
        return tuple(value.float() for value in inputs)

    def end(*_: Any) -> None:
        exact.close()

    head = head_of()
    hooks = [head.register_forward_pre_hook(begin), head.register_forward_hook(end, always_call=True)]
    try:
        with torch.autocast(card.device, DTYPES[card.dtype]):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def has_half_weights(model: torch.nn.Module) -> bool:
    """True where some weights are in half precision."""
    return any(weights.dtype in HALF for weights in model.parameters())


@contextmanager
def in_float32(layer: torch.nn.Module) -> Iterator[list[torch.nn.Parameter]]:
    """Within, the layer's parameters, which it gives, are in float32: small steps vanish in the rounding of others."""
    kept = [
        (part, name, weights)
        for part in layer.modules()
        for name, weights in part._parameters.items()
        if weights is not None and weights.dtype in HALF
    ]
    for part, name, weights in kept:
        part._parameters[name] = torch.nn.Parameter(weights.detach().float(), weights.requires_grad)
    try:
        yield list(layer.parameters())
    finally:
        for part, name, weights in kept:
            part._parameters[name] = weights
