"""Adaptation to one sample: the model is trained on that sample alone, and restored.

The white-box features of DocMIA (Nguyen et al., ICLR 2025, "DocMIA: document-level membership inference attacks against
DocVQA models"; methods.md#document-membership): a sample that was trained on needs fewer steps and moves the
parameters less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.forward import Forward, outputs_of
from audit.targets.encoders.heads import Head, answering
from audit.targets.interface import AdaptationRule, Adapted


def adapt(
    parameters: Sequence[torch.nn.Parameter],
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
            similarity = similarity_of()
            losses = _trained(parameters, loss_of, rule)
            moved = [(parameter.detach() - before).double().square().sum() for parameter, before, _ in kept]
            distance = float(torch.stack(moved).sum().sqrt())
            return Adapted(distance, np.array(losses), (similarity, similarity_of()))
    finally:
        with torch.inference_mode(False), torch.no_grad():
            for parameter, before, required in kept:
                parameter.copy_(before)
                parameter.grad = None
                parameter.requires_grad_(required)


def _trained(
    parameters: Sequence[torch.nn.Parameter], loss_of: Callable[[], torch.Tensor], rule: AdaptationRule
) -> list[float]:
    """The losses before the first step and after each."""
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
    return losses


@contextmanager
def inputs_of(layer: torch.nn.Module) -> Iterator[list[tuple[torch.Tensor, ...]]]:
    """Within, collects the positional arguments that `layer` is called with."""
    seen: list[tuple[torch.Tensor, ...]] = []

    def keep(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        seen.append(arguments)

    handle = layer.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


@contextmanager
def linear_run(model: torch.nn.Module) -> Iterator[list[torch.nn.Module]]:
    """Within, collects the dense layers in the order in which they run; a pooler's say nothing of hidden states."""
    seen: list[torch.nn.Module] = []

    def note(layer: torch.nn.Module, *_: Any) -> None:
        seen.append(layer)

    layers = [
        part
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Linear) and "pooler" not in name.split(".")
    ]
    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The first row of a tensor that was made in inference mode, as one that can be differentiated; float32."""
    with torch.inference_mode(False):
        return tensor[:1].clone().float()


def share_right(head: Head, model: torch.nn.Module, hidden: torch.Tensor, page: Encoding) -> float:
    """Of all that the training loss of `page` reads, the share that the model has right, in [0, 1].

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
def frozen(model: torch.nn.Module) -> Iterator[None]:
    """Within, no parameter of the model asks for a gradient unless it is told to."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


@dataclass(frozen=True)
class AdaptedLayer:
    """What is trained.

    Attributes:
        parameters: of the dense layer.
        hidden: gives the last hidden states, (1, n_padded_tokens, n_hidden), with the parameters as they are; float32.
    """

    parameters: list[nn.Parameter]
    hidden: Callable[[], torch.Tensor]


@contextmanager
def adapted_layer(model: Any, encoder_name: str, forward: Forward, page: Encoding) -> Iterator[AdaptedLayer]:
    """Find the layer, and run the encoder on the page once; within, its states can be computed again.

    Args:
        model: in evaluation mode.
        encoder_name: the attribute of the model that holds its encoder.
        forward: runs it.
        page: the sample.
    """
    encoder = getattr(model, encoder_name)
    block = _last_block(encoder)
    if block is not None:
        with inputs_of(block) as seen:
            ((_, states),) = forward.hidden([len(page.ids)], [page].__getitem__)
        arguments, n_tokens = [plain(tensor) for tensor in seen[-1]], states.shape[1]
        yield AdaptedLayer(
            list(block.dense.parameters()), lambda: cast("torch.Tensor", block(*arguments))[:, :n_tokens]
        )
        return
    with frozen(model), torch.inference_mode(False), ExitStack() as stack:
        layers = _layers(encoder)
        with torch.no_grad(), linear_run(encoder) as linear, _all_outputs(layers) as outputs:
            forward.exact(page)
        # Layers below the last one give what they gave: only the last one runs again.
        for layer, output in zip(layers[:-1], outputs, strict=False):
            stack.enter_context(answering(layer, output[-1]))
        yield AdaptedLayer(list(linear[-1].parameters()), lambda: forward.exact(page))


def _last_block(encoder: nn.Module) -> Any:
    """The output block of the last layer of an encoder built like BERT; None for others."""
    layers = getattr(getattr(encoder, "encoder", None), "layer", None)
    block = getattr(layers[-1], "output", None) if isinstance(layers, nn.ModuleList) else None
    return block if isinstance(getattr(block, "dense", None), nn.Linear) else None


def _layers(encoder: nn.Module) -> Sequence[nn.Module]:
    """The layers of an encoder, first to last; none where it has no list of as many as its configuration says."""
    count = int(encoder.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]  # transformers' configuration
    lists = [part for part in encoder.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    return [*lists[0]] if len(lists) == 1 else []


@contextmanager
def _all_outputs(layers: Sequence[nn.Module]) -> Iterator[list[list[Any]]]:
    """Within, collects what each of the layers gives."""
    with ExitStack() as stack:
        yield [stack.enter_context(outputs_of(layer)) for layer in layers]
