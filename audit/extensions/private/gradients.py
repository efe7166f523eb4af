"""Contributions of units to a step.

They are gradients (Abadi et al. 2016) or changes by local steps (Tito et al. 2024).

The gradient of a unit is one backward pass for each micro-batch of its samples, which serves every
model. Of 33 kinds under test the per-sample gradients of torch.func serve 11 and those of Opacus'
hooks 17 in all their weights, and on a CPU they take 0.85 to 1.28 times as long
(benchmarks/performance/dp_engines.json, benchmarks/papers/dp_sroie/engines.json).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from audit.errors import TrainingError
from audit.extensions.private.units import DrawnUnit, Learner, Parameters

Tensors = dict[str, torch.Tensor]
"""A tensor for each trained parameter, by its name."""
Contribute = Callable[[DrawnUnit], Tensors]
"""Computes what a unit contributes."""
LOCAL_BATCH = 10
"""Samples of a local step: the batch of Tito et al.'s code."""


def gradient_of(learner: Learner, parameters: Parameters, unit: DrawnUnit, rows: int) -> Tensors:
    """Compute the gradient of a unit's weighted mean loss.

    Args:
        learner: learner whose losses are differentiated.
        parameters: what is trained.
        unit: unit with its samples.
        rows: samples of one forward pass at most; memory depends on it, the gradient only in its
            last bits.
    """
    total = {name: torch.zeros_like(own, requires_grad=False) for name, own in parameters.items()}
    with torch.enable_grad():
        for chosen in _batches(learner, unit.samples, rows):
            losses = learner.losses(learner.collate([unit.samples[index] for index in chosen]))
            weights = torch.tensor(
                [unit.weights[index] for index in chosen], dtype=losses.dtype, device=losses.device
            )
            gradients = torch.autograd.grad(
                (weights * losses).sum(), [*parameters.values()], materialize_grads=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                total[name] += gradient
    return total


def local_change(
    learner: Learner,
    parameters: Parameters,
    unit: DrawnUnit,
    rows: int,
    passes: int,
    learning_rate: float,
) -> Tensors:
    """Return how parameters change in passes of a fresh AdamW over a unit's samples.

    Parameters are left as they were.

    For the other arguments see `gradient_of`.

    Raises:
        TrainingError: a number of the change is not finite.
    """
    start = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=learning_rate)
    try:
        for _ in range(passes):
            for first in range(0, len(unit.samples), LOCAL_BATCH):
                part = slice(first, first + LOCAL_BATCH)
                weights = [weight / sum(unit.weights[part]) for weight in unit.weights[part]]
                batch = DrawnUnit(unit.samples[part], tuple(weights))
                for name, gradient in gradient_of(learner, parameters, batch, rows).items():
                    parameters[name].grad = gradient
                optimizer.step()
        change = {name: parameter.detach() - start[name] for name, parameter in parameters.items()}
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(start[name])
                parameter.grad = None
    return change


def clipped_sum(
    parameters: Parameters, units: Iterator[DrawnUnit], contribute: Contribute, max_norm: float
) -> Tensors:
    """Sum the contributions of units, each clipped to `max_norm`.

    See Abadi et al. 2016, algorithm 1.

    Sums are in double precision where the device has it: every addition in single precision rounds
    all that was added before, and with many units one more moves the sum by more than `max_norm`
    (Casacuberta et al. 2022).

    Args:
        parameters: what is trained.
        units: units that take part; none: the sum is zero.
        contribute: computes a unit's contribution.
        max_norm: largest norm in L2 over all parameters together, above 0; infinite: nothing is
            clipped.

    Raises:
        TrainingError: a contribution is not finite.
    """
    total = {
        name: torch.zeros_like(own, dtype=_sum_dtype(own), requires_grad=False)
        for name, own in parameters.items()
    }
    for unit in units:
        contribution = contribute(unit)
        norm = float(torch.stack([_l2_norm(part) for part in contribution.values()]).norm())
        if not norm < float("inf"):
            raise TrainingError(
                "the training diverged: what a unit contributes is not finite",
                "give a lower learning rate, or another --reference pretrained",
            )
        factor = min(1.0, max_norm / norm) if norm else 1.0
        for name, part in contribution.items():
            total[name] += factor * part.to(total[name].dtype)
    return total


def _l2_norm(tensor: torch.Tensor) -> torch.Tensor:
    """Return the L2 norm of a tensor, in double precision on the CPU."""
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=_sum_dtype(tensor))
    return norm.cpu().double()


def _sum_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype in which contributions are added: double, but not on Metal."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _batches(learner: Learner, samples: Sequence[Any], rows: int) -> Iterator[list[int]]:
    """Yield indices of samples for each batch: alike, and at most `rows`."""
    places: Mapping[Hashable, list[int]] = defaultdict(list)
    for index, sample in enumerate(samples):
        places[learner.alike(sample)].append(index)
    for members in places.values():
        for start in range(0, len(members), rows):
            yield members[start : start + rows]
