"""Training an answering model on one sample, DocMIA's features (methods.md#document-membership), and half precision.

Scores, losses and training on a page stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from audit.cards import TargetCard
from audit.stats.distances import similarity
from audit.targets.answering.reader import Inputs
from audit.targets.checkpoint.memory import is_spread
from audit.targets.encoders.adaptation import adapt, frozen
from audit.targets.encoders.forward import DTYPES
from audit.targets.interface import Adaptation, AdaptationRule, Adapted, Answer, AnswerLoss, Query

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


def asked_types(model: Any) -> frozenset[type[Query[Any]]]:
    """The queries about answers that a model takes: it is not trained on a page where its weights come and go."""
    return frozenset({Answer, AnswerLoss} if is_spread(model) else {Answer, AnswerLoss, Adaptation})


def adapt_to_answer(
    model: Any,
    inputs: Inputs,
    answered: Callable[[], str],
    answer: str,
    rule: AdaptationRule,
    computing: Callable[[], AbstractContextManager[None]],
) -> Adapted:
    """Train the last linear layer before the scores of tokens on one answer, and put it back as it was.

    DocMIA trains one layer; which one is ours: all models have this one, and what lies under it changes nothing from
    step to step, so that an encoder runs once. In float32.

    Args:
        model: in evaluation mode.
        inputs: the sample as `Reader.taught` gives it, one row, on the model's device.
        answered: gives the model's greedy answer.
        answer: the true one.
        rule: when to stop.
        computing: within it a model with weights in half precision computes; the layer is trained in float32.
    """
    within = computing if has_half_weights(model) else nullcontext
    with torch.inference_mode(False), frozen(model):
        # Made under inference mode they could not be differentiated through.
        own = {name: value.clone() for name, value in inputs.items()}
        encoder = model.get_encoder() if model.config.is_encoder_decoder else None
        with torch.no_grad(), _watched(model, encoder) as seen, within():
            model(**own)

        def loss() -> torch.Tensor:
            with _remembered(encoder, seen.encoded), within():
                value: torch.Tensor = model(**own).loss
            return value

        with in_float32(seen.linear[-1]) as trained:
            return adapt(trained, loss, lambda: similarity(answered(), answer), rule)


class _Seen:
    """What a forward pass went through."""

    def __init__(self) -> None:
        self.linear: list[torch.nn.Module] = []
        self.encoded: Any = None


@contextmanager
def _watched(model: Any, encoder: torch.nn.Module | None) -> Iterator[_Seen]:
    """Within, notes the linear layers in the order in which they run, but the scores of tokens, and what is encoded."""
    seen = _Seen()

    def note(layer: torch.nn.Module, *_: Any) -> None:
        seen.linear.append(layer)

    def keep(_: torch.nn.Module, __: Any, encoded: Any) -> None:
        seen.encoded = encoded

    scores = model.get_output_embeddings()
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear | Conv1D) and layer is not scores]
    handles = [layer.register_forward_hook(note) for layer in layers]
    if encoder is not None:
        handles.append(encoder.register_forward_hook(keep))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _remembered(encoder: torch.nn.Module | None, encoded: Any) -> Iterator[None]:
    """Within, the encoder gives what it gave before, without running."""
    if encoder is None:
        yield
        return
    encoder.forward = lambda *_, **__: encoded
    try:
        yield
    finally:
        del encoder.forward  # the class has the true one
