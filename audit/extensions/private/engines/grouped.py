"""Shared parts of engines: units in groups, a group's gradients at a time, and a model that stays as it was."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from audit.extensions.private.engines.clipping import Gradients, add_clipped, zeros_like
from audit.extensions.private.interface import Batch, ClippedSum, DrawnUnit, Engine, Learner, Parameters

SAMPLE_GRADIENT_VALUES = {"cpu": 2**24, "mps": 2**26, "cuda": 2**28}
"""Numbers that the gradients of single samples may take together, by kind of device (ours): 1 GiB on a GPU. On a CPU 64
MiB: where they are more, it spends longer on writing them than batches save (benchmarks/dp_engines.json)."""


class GroupedEngine(Engine):
    """An engine that never keeps the gradients of more than one group of units."""

    def unit_gradients(self, units: Sequence[DrawnUnit]) -> Gradients:
        """See `Engine.unit_gradients`."""
        gradients = {
            name: torch.zeros((len(units), *parameter.shape), dtype=parameter.dtype, device=parameter.device)
            for name, parameter in self.parameters.items()
        }
        with self.differentiating():
            for members in self.groups(units):
                for name, values in self.group_gradients([units[index] for index in members]).items():
                    gradients[name][members] = values
        return gradients

    def clipped_sum(self, units: Sequence[DrawnUnit], max_norm: float) -> ClippedSum:
        """See `Contributions.clipped_sum`."""
        total, norms = zeros_like(self.parameters), np.zeros(len(units))
        with self.differentiating():
            for members in self.groups(units):
                gradients = self.group_gradients([units[index] for index in members])
                norms[members] = add_clipped(total, gradients, max_norm)
        return ClippedSum(total, norms)

    @abstractmethod
    def groups(self, units: Sequence[DrawnUnit]) -> Iterator[list[int]]:
        """Indices of the units whose gradients are computed together; every unit is in one group."""

    @abstractmethod
    def group_gradients(self, units: Sequence[DrawnUnit]) -> Gradients:
        """The gradients of the units of one group; called while `differentiating`."""

    @contextmanager
    def differentiating(self) -> Iterator[None]:
        """Within, only what is trained requires gradients; afterwards the model is as it was before."""
        trained = {id(parameter) for parameter in self.parameters.values()}
        before = [(parameter, parameter.requires_grad) for parameter in self.learner.model.parameters()]
        try:
            for parameter, _ in before:
                parameter.requires_grad_(id(parameter) in trained)
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            for parameter, required in before:
                parameter.requires_grad_(required)

    def batches(self, samples: Sequence[Any]) -> Iterator[list[int]]:
        """See `batches_of`."""
        return batches_of(self.learner, samples, self.rows)


class PerSampleEngine(GroupedEngine):
    """An engine that computes the gradients of single samples, and averages them into units.

    Units of few samples share a batch; their gradients together take at most `SAMPLE_GRADIENT_VALUES` numbers.
    """

    def __init__(self, learner: Learner, parameters: Parameters, rows: int = 8) -> None:
        super().__init__(learner, parameters, rows)
        self.rows = min(self.rows, samples_at_a_time(self.parameters, self.learner.device))

    @contextmanager
    def differentiating(self) -> Iterator[None]:
        """See `GroupedEngine.differentiating`; quiet about what is slower than it might be."""
        with super().differentiating(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop|Full backward hook is firing")
            yield

    def groups(self, units: Sequence[DrawnUnit]) -> Iterator[list[int]]:
        """See `GroupedEngine.groups`: units that begin alike stand together, so that their batches are full."""
        group: list[int] = []
        held = 0
        for members in _by_key([self.learner.alike(unit.samples[0]) for unit in units]):
            for index in members:
                own = len(units[index].samples)
                if group and held + own > self.rows:
                    yield group
                    group, held = [], 0
                group.append(index)
                held += own
        if group:
            yield group

    def group_gradients(self, units: Sequence[DrawnUnit]) -> Gradients:
        """See `GroupedEngine.group_gradients`."""
        samples = [sample for unit in units for sample in unit.samples]
        weights = _weights(units)
        sums: Gradients = {}
        for chosen in self.batches(samples):
            shares = weights[:, chosen]
            batch = self.learner.collate([samples[index] for index in chosen])
            for name, values in self.sample_gradients(batch, len(chosen)).items():
                own = torch.tensordot(shares.to(values.device, values.dtype), values, dims=1)
                sums[name] = sums[name] + own if name in sums else own
        return sums

    @abstractmethod
    def sample_gradients(self, batch: Batch, n_samples: int) -> Gradients:
        """The gradient of each sample's loss, by parameter: (n_samples, *parameter.shape)."""


def batches_of(learner: Learner, samples: Sequence[Any], rows: int) -> Iterator[list[int]]:
    """Indices of samples that share a batch: alike, and at most `rows`."""
    for members in _by_key([learner.alike(sample) for sample in samples]):
        for start in range(0, len(members), rows):
            yield members[start : start + rows]


def samples_at_a_time(parameters: Parameters, device: str) -> int:
    """The number of samples whose gradients fit into `SAMPLE_GRADIENT_VALUES` together; at least 1."""
    size = sum(parameter.numel() for parameter in parameters.values())
    return max(1, SAMPLE_GRADIENT_VALUES[device] // max(1, size))


def _weights(units: Sequence[DrawnUnit]) -> torch.Tensor:
    """The weight of each sample of all units in each unit: (n_units, n_samples)."""
    weights = torch.zeros(len(units), sum(len(unit.samples) for unit in units))
    start = 0
    for row, unit in enumerate(units):
        end = start + len(unit.samples)
        weights[row, start:end] = torch.tensor(unit.weights)
        start = end
    return weights


def _by_key(keys: Sequence[Hashable]) -> list[list[int]]:
    """The indices of equal keys together, in the order in which the keys first come."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        places[key].append(index)
    return [*places.values()]
