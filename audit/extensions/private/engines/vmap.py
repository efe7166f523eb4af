"""Gradients of single samples by torch.func: the model as a function, vectorised over the samples of a batch."""

from __future__ import annotations

import torch
from torch.func import functional_call, grad, vmap

from audit.extensions.private.engines.clipping import Gradients
from audit.extensions.private.engines.grouped import PerSampleEngine
from audit.extensions.private.interface import Batch, Learner, Parameters


class VmapEngine(PerSampleEngine):
    """Takes models whose shapes and branches do not depend on values; it computes each sample as if it were alone."""

    name = "vmap"

    def __init__(self, learner: Learner, parameters: Parameters, rows: int = 8) -> None:
        super().__init__(learner, parameters, rows)
        self._losses = _Losses(self.learner)

    def sample_gradients(self, batch: Batch, n_samples: int) -> Gradients:
        """See `PerSampleEngine.sample_gradients`."""
        values = {f"model.{name}": parameter.detach() for name, parameter in self.parameters.items()}

        def loss(values: dict[str, torch.Tensor], sample: Batch) -> torch.Tensor:
            alone = {name: value[None] for name, value in sample.items()}
            losses: torch.Tensor = functional_call(self._losses, values, (alone,))
            return losses[0]

        # What is outside of `grad` needs no graph of its own.
        with torch.no_grad():
            gradients = vmap(grad(loss), in_dims=(None, 0))(values, batch)
        return {name.removeprefix("model."): gradient for name, gradient in gradients.items()}


class _Losses(torch.nn.Module):
    """The learner's losses as a module, whose parameters can be replaced for a call."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.model = learner.model
        # No submodule: it holds the same model.
        self.compute = learner.losses

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.compute(batch)
