"""Adaptation to one sample: one layer is trained on that sample alone, and restored; and models in half precision.

The white-box features of DocMIA (Nguyen et al., ICLR 2025, "DocMIA: document-level membership inference attacks against
DocVQA models"; methods.md#document-membership): a sample that was trained on needs fewer steps and moves the
parameters less. DocMIA trains one layer; the last linear layer before the scores is the one that all models have, and
what lies under it stays the same from step to step. Scores, losses and training on a sample stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from audit.cards import TargetCard
from audit.stats.distances import similarity
from audit.targets.answering.reader import Inputs
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.forward import DTYPES, Forward, outputs_of
from audit.targets.encoders.heads import Head, answering
from audit.targets.interface import AdaptationRule, Adapted

HALF = (torch.bfloat16, torch.float16)


def adapt(
    parameters: Sequence[nn.Parameter],
    loss_of: Callable[[], torch.Tensor],
    similarity_of: Callable[[], float],
    rule: AdaptationRule,
) -> Adapted:
    """Train `parameters` on one sample and restore them, bit for bit, whatever happens on the way.

    Adam without weight decay. It ends once a step has changed the loss by less than `rule.threshold`, after
    `rule.max_steps`, or when the loss is no longer a number. No gradient is left anywhere.

    Args:
        parameters: of one layer of a model in evaluation mode; changed in place while this runs.
        loss_of: the sample's training loss with the parameters as they are; differentiable, called with gradients on
            and outside inference mode.
        similarity_of: how right the model's answer is with the parameters as they are, in [0, 1].
        rule: when to stop, and how large the steps are.
    """
    kept = [(parameter, parameter.detach().clone(), parameter.requires_grad) for parameter in parameters]
    try:
        with torch.inference_mode(False), torch.enable_grad():
            for parameter in parameters:
                parameter.requires_grad_(True)
            before = similarity_of()
            optimizer = torch.optim.Adam(parameters, lr=rule.learning_rate)
            loss = loss_of()
            losses = [float(loss.detach())]
            while len(losses) <= rule.max_steps and np.isfinite(losses[-1]):
                for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                    parameter.grad = gradient
                optimizer.step()
                loss = loss_of()
                losses.append(float(loss.detach()))
                if abs(losses[-1] - losses[-2]) < rule.threshold:
                    break
            moved = [(parameter.detach() - start).double().square().sum() for parameter, start, _ in kept]
            return Adapted(float(torch.stack(moved).sum().sqrt()), np.array(losses), (before, similarity_of()))
    finally:
        with torch.inference_mode(False), torch.no_grad():
            for parameter, start, required in kept:
                parameter.copy_(start)
                parameter.grad = None
                parameter.requires_grad_(required)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Within, no parameter of the model asks for a gradient unless it is told to."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


@contextmanager
def linear_run(model: nn.Module, head: nn.Module | None = None) -> Iterator[list[nn.Module]]:
    """Within, collect the linear layers but `head` in the order in which they run; poolers say nothing of answers."""
    seen: list[nn.Module] = []
    layers = [
        part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear | Conv1D) and part is not head and "pooler" not in name.split(".")
    ]
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(layer.register_forward_hook(lambda ran, *_: seen.append(ran)))
        yield seen


def last_linear(model: nn.Module, output_of: Callable[[], torch.Tensor], head: nn.Module | None = None) -> nn.Module:
    """Find the linear layer that runs last before the head, of those that the output depends on.

    Args:
        model: none of its parameters asks for a gradient.
        output_of: runs it; gives one number.
        head: gives the scores.
    """
    with torch.no_grad(), linear_run(model, head) as ran:
        output_of()
    return next(layer for layer in reversed(ran) if _is_read(layer, output_of))


def _is_read(layer: nn.Module, output_of: Callable[[], torch.Tensor]) -> bool:
    own = list(layer.parameters())
    for parameter in own:
        parameter.requires_grad_(True)
    try:
        with torch.enable_grad():
            output = output_of()
        return output.requires_grad and None not in torch.autograd.grad(output, own, allow_unused=True)
    finally:
        for parameter in own:
            parameter.requires_grad_(False)


def share_right(head: Head, model: nn.Module, hidden: torch.Tensor, page: Encoding) -> float:
    """Compute the share of what the training loss of `page` reads that the model has right, in [0, 1].

    Args:
        head: the model's.
        model: the model.
        hidden: its last hidden states of this page, (1, n_padded_tokens, n_hidden).
        page: with its labels and links; something is read.
    """
    right: list[np.ndarray] = []
    with torch.no_grad():
        if head.tags is not None and page.labels is not None:
            best = head.tags(model, hidden)[0, : len(page.ids)].argmax(-1).cpu().numpy()
            right.append((best == page.labels)[page.labels != NOT_READ])
        if head.links is not None and page.links is not None:
            links = head.links(model, hidden, [page])[0]
            right.append((links == page.links)[page.links != NOT_READ])
        if head.classes is not None and page.page_class is not None:
            right.append(np.array([int(head.classes(model, hidden, [page])[0].argmax()) == page.page_class]))
    return float(np.concatenate(right).mean())


@contextmanager
def adapted_layer(model: Any, encoder_name: str, forward: Forward, page: Encoding) -> Iterator[list[nn.Parameter]]:
    """Give the parameters of an encoder's last dense layer; within, `forward.exact` runs its last layer alone.

    Args:
        model: in evaluation mode.
        encoder_name: the attribute of the model that holds its encoder.
        forward: runs it.
        page: the sample.
    """
    encoder = getattr(model, encoder_name)
    count = int(encoder.config.num_hidden_layers)
    lists = [part for part in encoder.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    layers = [*lists[0]] if len(lists) == 1 else []
    with frozen(model), torch.inference_mode(False), ExitStack() as stack:
        with torch.no_grad(), ExitStack() as watched:
            outputs = [watched.enter_context(outputs_of(layer)) for layer in layers]
            forward.exact(page)
        # Layers below the last one give what they gave: only the last one runs again.
        for layer, output in zip(layers[:-1], outputs, strict=False):
            stack.enter_context(answering(layer, output[-1]))
        yield list(last_linear(encoder, lambda: forward.exact(page).sum()).parameters())


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

    head = head_of()
    with (
        head.register_forward_pre_hook(begin),
        head.register_forward_hook(lambda *_: exact.close(), always_call=True),
        torch.autocast(card.device, DTYPES[card.dtype]),
    ):
        yield


def has_half_weights(model: nn.Module) -> bool:
    """Test whether some weights are in half precision."""
    return any(weights.dtype in HALF for weights in model.parameters())


@contextmanager
def in_float32(layer: nn.Module) -> Iterator[list[nn.Parameter]]:
    """Within, the layer's parameters, which it gives, are in float32: small steps vanish in the rounding of others."""
    kept = [
        (part, name, weights)
        for part in layer.modules()
        for name, weights in part._parameters.items()
        if weights is not None and weights.dtype in HALF
    ]
    for part, name, weights in kept:
        part._parameters[name] = nn.Parameter(weights.detach().float(), weights.requires_grad)
    try:
        yield list(layer.parameters())
    finally:
        for part, name, weights in kept:
            part._parameters[name] = weights


def adapt_to_answer(
    model: Any,
    inputs: Inputs,
    answered: Callable[[], str],
    answer: str,
    rule: AdaptationRule,
    computing: Callable[[], AbstractContextManager[None]],
) -> Adapted:
    """Train the last linear layer before the scores of tokens on one answer, and put it back as it was.

    Args:
        model: in evaluation mode.
        inputs: the sample as `Reader.taught` gives it, one row, on the model's device.
        answered: gives the model's greedy answer.
        answer: the true one.
        rule: when to stop.
        computing: within it a model with weights in half precision computes; the layer is trained in float32.
    """
    within = computing if has_half_weights(model) else nullcontext
    encoder = model.get_encoder() if model.config.is_encoder_decoder else None
    with torch.inference_mode(False), frozen(model):
        # Made under inference mode they could not be differentiated through.
        own = {name: value.clone() for name, value in inputs.items()}
        watched: AbstractContextManager[list[Any]] = nullcontext([]) if encoder is None else outputs_of(encoder)
        with torch.no_grad(), linear_run(model, model.get_output_embeddings()) as linear, watched as encoded, within():
            model(**own)

        def loss() -> torch.Tensor:
            # The encoder gives what it gave before, without running.
            given: AbstractContextManager[None] = nullcontext() if encoder is None else answering(encoder, encoded[-1])
            with given, within():
                value: torch.Tensor = model(**own).loss
            return value

        with in_float32(linear[-1]) as trained:
            return adapt(trained, loss, lambda: similarity(answered(), answer), rule)
