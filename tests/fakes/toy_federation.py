"""A model that learns the mean of what its providers hold, so that every round's result is known."""

from __future__ import annotations

import numpy as np
import torch

from audit.corpus.documents import Document
from audit.extensions.private.federated import Client
from audit.extensions.private.interface import ClippedSum, DrawnUnit, Unit

SHAPES = {"weight": (3, 4), "bias": (5,)}


def weights():
    return {name: torch.zeros(shape) for name, shape in SHAPES.items()}


class Seeded:
    """Coins and noise from a seed; `n_normal` counts the numbers drawn."""

    secure = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.n_normal = 0

    def coins(self, n, probability):
        return self._rng.random(n) < probability

    def normal(self, shape):
        self.n_normal += int(np.prod(tuple(shape)))
        return torch.from_numpy(self._rng.standard_normal(tuple(shape), dtype=np.float32))


class Pull:
    """A provider pulls the weights towards its own numbers, which its name seeds."""

    def __init__(self, parameters) -> None:
        self.parameters = parameters

    def of(self, unit: DrawnUnit) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng(unit.samples[0])
        own = {name: torch.from_numpy(rng.normal(1, 1, shape).astype("float32")) for name, shape in SHAPES.items()}
        return {name: own[name] - value for name, value in self.parameters.items()}

    def clipped_sum(self, units, max_norm):
        total = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        norms = []
        for unit in units:
            change = self.of(unit)
            norm = torch.sqrt(sum((value.double() ** 2).sum() for value in change.values())).item()
            norms.append(norm)
            for name, value in change.items():
                total[name] += value * min(1.0, max_norm / norm)
        return ClippedSum(total, np.array(norms))


def units(*seeds: int) -> tuple[Unit, ...]:
    return tuple(Unit(f"provider {seed}", (Document(f"d{seed}", "member"),)) for seed in seeds)


def drawn(unit: Unit, round: int) -> DrawnUnit:
    return DrawnUnit((int(unit.name.split()[1]),), (1.0,))


def client(name: str, seeds, parameters) -> Client:
    return Client(name, units(*seeds), Pull(parameters), drawn, parameters, chunk=2)
