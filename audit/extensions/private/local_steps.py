"""Contributions by local steps (Tito et al. 2024, algorithm 1): what a unit would change by training on its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from audit.errors import TrainingError
from audit.extensions.private.engines.clipping import add_clipped, zeros_like
from audit.extensions.private.engines.grouped import batches_of
from audit.extensions.private.interface import ClippedSum, DrawnUnit, Learner, Parameters

LOCAL_BATCH = 10
"""Samples of a local step: the batch of the authors' kit."""


class LocalSteps:
    """Changes after passes of AdamW over a unit's samples, each from where the round began, with a fresh optimizer.

    Args:
        learner: whose losses are trained on.
        parameters: what is trained; left as it was after every unit.
        passes: over a unit's samples.
        learning_rate: of AdamW.
        rows: samples of one forward pass at most; no result depends on it but in the last bits.
    """

    def __init__(
        self, learner: Learner, parameters: Parameters, passes: int, learning_rate: float, rows: int = 8
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.passes = passes
        self.learning_rate = learning_rate
        self.rows = rows

    def clipped_sum(self, units: Sequence[DrawnUnit], max_norm: float) -> ClippedSum:
        """See `Contributions.clipped_sum`."""
        total = zeros_like(self.parameters)
        norms = np.zeros(len(units))
        for row, unit in enumerate(units):
            change = {name: part[None] for name, part in self._change(unit).items()}
            if not all(bool(torch.isfinite(part).all()) for part in change.values()):
                raise TrainingError(
                    "local steps on a unit end in no finite number: the training broke down",
                    "give a lower --learning-rate, or another --reference pretrained",
                )
            norms[row : row + 1] = add_clipped(total, change, max_norm)
        return ClippedSum(total, norms)

    def _change(self, unit: DrawnUnit) -> dict[str, torch.Tensor]:
        start = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        optimizer = torch.optim.AdamW(list(self.parameters.values()), lr=self.learning_rate)
        try:
            for _ in range(self.passes):
                for first in range(0, len(unit.samples), LOCAL_BATCH):
                    optimizer.zero_grad(set_to_none=True)
                    self._backward(unit, slice(first, first + LOCAL_BATCH))
                    optimizer.step()
            return {name: parameter.detach() - start[name] for name, parameter in self.parameters.items()}
        finally:
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    parameter.copy_(start[name])
                    parameter.grad = None

    def _backward(self, unit: DrawnUnit, part: slice) -> None:
        """Add up the gradients of one local batch: the weighted mean of its samples' losses."""
        samples, weights = unit.samples[part], np.array(unit.weights[part])
        for indices in batches_of(self.learner, samples, self.rows):
            losses = self.learner.losses(self.learner.collate([samples[index] for index in indices]))
            shares = torch.as_tensor(weights[indices] / weights.sum(), dtype=losses.dtype, device=losses.device)
            (losses * shares).sum().backward()  # type: ignore[no-untyped-call]
