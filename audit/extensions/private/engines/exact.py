"""The definition of a unit's gradient: one unit at a time, for any architecture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from audit.extensions.private.engines.clipping import Gradients
from audit.extensions.private.engines.grouped import GroupedEngine
from audit.extensions.private.interface import DrawnUnit


class ExactEngine(GroupedEngine):
    """Differentiates the weighted sum of a unit's losses, `rows` samples at a time."""

    name = "exact"

    def groups(self, units: Sequence[DrawnUnit]) -> Iterator[list[int]]:
        """See `GroupedEngine.groups`."""
        return ([index] for index in range(len(units)))

    def group_gradients(self, units: Sequence[DrawnUnit]) -> Gradients:
        """See `GroupedEngine.group_gradients`."""
        (unit,) = units
        total = {name: torch.zeros_like(own, requires_grad=False) for name, own in self.parameters.items()}
        for chosen in self.batches(unit.samples):
            losses = self.learner.losses(self.learner.collate([unit.samples[index] for index in chosen]))
            weights = torch.tensor([unit.weights[index] for index in chosen], dtype=losses.dtype, device=losses.device)
            gradients = torch.autograd.grad(
                (weights * losses).sum(), [*self.parameters.values()], materialize_grads=True
            )
            for name, gradient in zip(self.parameters, gradients, strict=True):
                total[name] += gradient
        return {name: gradient[None] for name, gradient in total.items()}
