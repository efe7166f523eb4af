"""The layer of an encoder that is trained on one sample, and the hidden states that it leads to.

The last dense layer that runs inside the encoder. In encoders built like BERT that is the output block of the last
layer; what lies under it stays as it is and is computed once. In others the last layer is run again at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from audit.targets.encoded_page import Encoding
from audit.targets.encoders.adaptation import frozen, inputs_of, linear_run, plain
from audit.targets.encoders.forward import Forward, outputs_of
from audit.targets.encoders.own_head import answering


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
