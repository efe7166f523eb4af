"""The test that a fast engine must pass on this very model: gradients equal to those of the definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from audit.extensions.private.engines.clipping import norms_of
from audit.extensions.private.interface import DrawnUnit, Engine, Parameters
from audit.targets.checkpoint.safety import one_line

UNITS = 8
"""Units that are compared at most (ours)."""
TOLERANCE = 1e-4
"""Of a unit's norm: the largest difference of its gradient in one parameter (ours)."""

_STEP = 0.02
"""The standard deviation of a step away from where parameters start (ours): that of fresh weights in BERT."""


@dataclass(frozen=True)
class Preflight:
    """The outcome of a comparison.

    Attributes:
        ok: the engine may be used.
        error: the largest difference in one parameter of one unit, as a share of the unit's norm; None: the engine
            gave no gradients.
        reason: one line; "" where it may be used.
    """

    ok: bool
    error: float | None
    reason: str = ""


def preflight(engine: Engine, exact: Engine, units: Sequence[DrawnUnit]) -> Preflight:
    """Compare an engine with the definition, parameter by parameter and unit by unit; the model stays as it is.

    Args:
        engine: the fast one. Whatever it raises is a refusal.
        exact: the definition; what it raises is raised.
        units: the first `UNITS` of them are compared, each twice, so that every kind of sample shares a batch. Best of
            unequal lengths and of public documents: the outcome is written down.
    """
    chosen = [*units[:UNITS]] * 2
    if not chosen or engine.rows < 2:
        return Preflight(False, None, "no two samples share a batch, so that there is nothing to compare")
    with _moved(exact.parameters):
        true = exact.unit_gradients(chosen)
        try:
            found = engine.unit_gradients(chosen)
            error = largest_difference(found, true)
        except Exception as problem:  # noqa: BLE001 - an engine may fail in any way on a model that it does not fit
            return Preflight(False, None, f"{type(problem).__name__}: {one_line(problem)}"[:200])
    if error <= TOLERANCE:
        return Preflight(True, error)
    return Preflight(False, error, f"its gradients differ by {error:.2g} of their norm from those of single units")


@contextmanager
def _moved(parameters: Parameters) -> Iterator[None]:
    """Within, the parameters are a little away from where they are: `_STEP` in every coordinate, on average.

    Low-rank adapters start where the gradient of one of their two matrices is zero, so that any engine has it right.
    """
    generator = torch.Generator().manual_seed(0)
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        with torch.no_grad():
            for parameter in parameters.values():
                step = _STEP * torch.randn(parameter.shape, generator=generator)
                parameter.add_(step.to(parameter.device, parameter.dtype))
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(before[name])


def largest_difference(found: Mapping[str, torch.Tensor], true: Mapping[str, torch.Tensor]) -> float:
    """The largest L2 difference of one unit in one parameter, as a share of the unit's norm over all parameters.

    Infinite where a number is not finite, or where a unit's gradient should be zero and is not.

    Args:
        found: by parameter, (n_units, *parameter.shape).
        true: likewise, of the same parameters.

    Raises:
        ValueError: parameters or shapes differ.
    """
    if {name: values.shape for name, values in found.items()} != {name: values.shape for name, values in true.items()}:
        raise ValueError("gradients of other parameters or shapes")
    norms = norms_of(true)
    differences = torch.stack([norms_of({name: found[name] - values}) for name, values in true.items()])
    shares = torch.where(differences == 0, 0.0, differences / norms)
    return float(shares.nan_to_num(nan=torch.inf).max())
