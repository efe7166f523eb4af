"""Clipped sums of contributions (Abadi et al. 2016, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from audit.arrays import Floats
from audit.errors import TrainingError
from audit.extensions.private.interface import Parameters

Gradients = dict[str, torch.Tensor]
"""By parameter, the contributions of n units: (n, *parameter.shape)."""


def exact_type(device: torch.device) -> torch.dtype:
    """The type that contributions are added up in: Metal has no double precision."""
    return torch.float32 if device.type == "mps" else torch.float64


def zeros_like(parameters: Parameters) -> dict[str, torch.Tensor]:
    """The sum of no contributions, by parameter, in double precision.

    Every addition to a sum in single precision rounds all that was added before: with many units one more of them moves
    the sum by more than the norm it was cut to (Casacuberta et al. 2022).
    """
    return {
        name: torch.zeros_like(parameter, dtype=exact_type(parameter.device), requires_grad=False)
        for name, parameter in parameters.items()
    }


def norms_of(contributions: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The L2 norm of each contribution over all parameters together: (n,); on the CPU, in double precision."""
    squares = [_norms(values.flatten(1)).cpu().double() ** 2 for values in contributions.values()]
    return torch.stack(squares).sum(dim=0).sqrt()


def add_clipped(total: dict[str, torch.Tensor], contributions: Mapping[str, torch.Tensor], max_norm: float) -> Floats:
    """Add contributions to `total`, each scaled by min(1, max_norm / norm).

    Args:
        total: by parameter, as `zeros_like` begins it; changed in place, and only when every contribution is finite.
        contributions: by parameter, (n, *parameter.shape).
        max_norm: above 0; infinite: nothing is clipped.

    Returns:
        The norms before clipping, (n,).

    Raises:
        TrainingError: a contribution is not finite.
        ValueError: `max_norm` is not above 0.
    """
    if not max_norm > 0:
        raise ValueError(f"contributions clipped to {max_norm}")
    norms = norms_of(contributions)
    if not bool(torch.isfinite(norms).all()):
        raise TrainingError(
            "the training diverged: what a unit contributes is not finite", "a lower learning rate keeps it from that"
        )
    factors = (max_norm / norms).clamp(max=1.0)
    for name, values in contributions.items():
        dtype = exact_type(values.device)
        total[name] += torch.tensordot(factors.to(values.device, dtype), values.to(dtype), dims=1)
    result: Floats = norms.numpy()
    return result


def _norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=exact_type(rows.device))
    return norms
