"""The mechanism: a Poisson sample of units, their clipped contributions, Gaussian noise, a constant divisor.

Abadi et al. 2016, algorithm 1, and for local steps Tito et al. 2024, algorithm 1. Nothing here looks at how many units
were drawn, at a loss or at a norm: the noisy sum alone leaves a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch

from audit.engine.interface import Progress
from audit.errors import TrainingError, UsageError
from audit.extensions.private.interface import Contributions, DrawnUnit, Parameters, RandomSource, Unit

Sum = dict[str, torch.Tensor]
Draw = Callable[[Unit, int], DrawnUnit | None]
"""The samples of a unit in a step; they may depend on the unit and the step alone."""


@dataclass(frozen=True)
class MechanismPlan:
    """The numbers of a private training.

    Attributes:
        noise_multiplier: sigma, at least 0.
        max_norm: C, above 0; infinite only without noise.
        sample_rate: q, in (0, 1].
        n_units: N.
        steps: of the server.
        learning_rate: of the optimizer.
        optimizer: of the noisy mean gradient; "add": contributions are changes, and the noisy mean is added.
        chunk: units whose contributions are summed at once; no result depends on it but in the last bits.
    """

    noise_multiplier: float
    max_norm: float
    sample_rate: float
    n_units: int
    steps: int
    learning_rate: float
    optimizer: Literal["adam", "sgd", "add"] = "adam"
    chunk: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.sample_rate <= 1:
            raise UsageError(
                f"{self.expected_units:g} units a step on average, of {self.n_units}: no such probability",
                "give more than 0 and at most all",
            )
        if self.max_norm <= 0 or math.isnan(self.max_norm):
            raise UsageError(f"a largest norm of {self.max_norm:g}: nothing would be learnt", "give a number above 0")
        if self.noise_multiplier and math.isinf(self.max_norm):
            raise UsageError("contributions without a largest norm: no noise would hide them", "give a number")

    @property
    def expected_units(self) -> float:
        """The constant q N, by which every noisy sum is divided."""
        return self.sample_rate * self.n_units

    @property
    def noise(self) -> float:
        """The standard deviation of a sum's noise."""
        return self.noise_multiplier * self.max_norm if self.noise_multiplier else 0.0


class SpentSteps(Protocol):
    """Counts steps where a kill does not undo it; see `ledger.Ledger`."""

    def restore(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None) -> int:
        """Put parameters and optimizer back as they were after the last step kept; gives the steps spent so far."""
        ...

    def spend(self) -> int:
        """Count one more step as spent, on the disk, before it is taken; gives its number."""
        ...

    def keep(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None, *, last: bool) -> None:
        """Keep parameters and optimizer as they are after a step."""
        ...


def run_mechanism(
    parameters: Parameters,
    units: Sequence[Unit],
    draw: Draw,
    contributions: Contributions,
    plan: MechanismPlan,
    random: RandomSource,
    ledger: SpentSteps,
    progress: Progress,
) -> None:
    """Train `parameters` in place.

    Args:
        parameters: what is trained.
        units: N.
        draw: gives the samples of a unit that takes part.
        contributions: sums what they contribute.
        plan: the numbers.
        random: of coins and noise.
        ledger: of spent steps: a training that was killed goes on with what is left.
        progress: told of every step, and of nothing else.

    Raises:
        TrainingError: a contribution or a sum is not finite.
    """

    def noisy_mean(step: int) -> Sum:
        drawn = sample_units(units, plan.sample_rate, random)
        total = sum_contributions(parameters, drawn, partial(_draw_at, draw, step), contributions, plan)
        return add_noise(total, plan.noise, random, plan.expected_units)

    run_steps(parameters, noisy_mean, plan, ledger, progress)


def run_steps(
    parameters: Parameters,
    noisy_mean: Callable[[int], Mapping[str, torch.Tensor]],
    plan: MechanismPlan,
    ledger: SpentSteps,
    progress: Progress,
) -> None:
    """Take the steps that are left, each along a noisy mean that is spent before it is drawn.

    Args:
        parameters: what is trained, in place.
        noisy_mean: of a step's contributions: all that a step learns of the documents.
        plan: number of steps, and how the mean is applied.
        ledger: of spent steps.
        progress: told of every step.
    """
    optimizer = _optimizer(parameters, plan)
    progress.stage("private training, steps", plan.steps)
    spent = ledger.restore(parameters, optimizer)
    progress.advance(spent)
    for _ in range(plan.steps - spent):
        step = ledger.spend()
        apply_mean(parameters, noisy_mean(step), optimizer)
        ledger.keep(parameters, optimizer, last=step == plan.steps - 1)
        progress.advance()


def sample_units(units: Sequence[Unit], sample_rate: float, random: RandomSource) -> list[Unit]:
    """The units whose own coin has fallen so: maybe none, maybe all."""
    coins = random.coins(len(units), sample_rate)
    return [unit for unit, taken in zip(units, coins, strict=True) if taken]


def sum_contributions(
    parameters: Parameters,
    drawn: Sequence[Unit],
    draw: Callable[[Unit], DrawnUnit | None],
    contributions: Contributions,
    plan: MechanismPlan,
) -> Sum:
    """The sum of the clipped contributions of units, a chunk after the other; zero without units.

    Raises:
        TrainingError: it is not finite.
    """
    total: Sum | None = None
    for chunk in _chunks(drawn, plan.chunk):
        samples = [found for found in map(draw, chunk) if found is not None]
        if not samples:
            continue
        part = contributions.clipped_sum(samples, plan.max_norm).total
        total = dict(part) if total is None else {name: total[name] + part[name] for name in total}
    if total is None:
        total = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    refuse_not_finite(total)
    return {name: tensor.detach() for name, tensor in total.items()}


def add_noise(total: Mapping[str, torch.Tensor], noise: float, random: RandomSource, divisor: float) -> Sum:
    """The sum with noise of this standard deviation in every coordinate, divided by a constant.

    Noise is added in float64 on the CPU; only a step rounds it, so that rounding is a function of what is private, and
    shows nothing of the last bits of either.
    """
    noisy: Sum = {}
    for name, tensor in total.items():
        if noise:
            exact = tensor.to("cpu", torch.float64) + noise * random.normal(tensor.shape).to(torch.float64)
            noisy[name] = (exact / divisor).to(tensor.device, tensor.dtype)
        else:
            noisy[name] = tensor / divisor
    return noisy


def apply_mean(
    parameters: Parameters, mean: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer | None
) -> None:
    """Take a step: the optimizer's with the mean as gradient, or without one add the mean."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            if optimizer is None:
                parameter.add_(mean[name].to(parameter.device, parameter.dtype))
            else:
                parameter.grad = mean[name].to(parameter.device, parameter.dtype)
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def refuse_not_finite(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse a sum that no noise could hide.

    Raises:
        TrainingError: one number is not finite.
    """
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise TrainingError(
            "a unit's contribution is not a finite number: the training broke down",
            "give a lower --learning-rate, or another --reference pretrained",
        )


def _optimizer(parameters: Parameters, plan: MechanismPlan) -> torch.optim.Optimizer | None:
    if plan.optimizer == "add":
        return None
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.SGD
    return kind(list(parameters.values()), lr=plan.learning_rate)


def _draw_at(draw: Draw, step: int, unit: Unit) -> DrawnUnit | None:
    return draw(unit, step)


def _chunks(units: Sequence[Unit], size: int) -> Iterator[Sequence[Unit]]:
    return (units[start : start + size] for start in range(0, len(units), size))
