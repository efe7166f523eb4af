"""Fine-tuning a model that answers questions on one of them: DocMIA's features (methods.md#document-membership)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from audit.stats.distances import similarity
from audit.targets.answering.half import has_half_weights, in_float32
from audit.targets.answering.reader import Inputs
from audit.targets.checkpoint.placing import is_spread
from audit.targets.encoders.adaptation import adapt, frozen
from audit.targets.interface import Adaptation, AdaptationRule, Adapted, Answer, AnswerLoss, Query


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
