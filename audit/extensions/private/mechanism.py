"""The mechanism of private training.

A sample of units, their clipped contributions, Gaussian noise, a constant divisor.

Abadi et al. 2016, algorithm 1, and for local steps and clients Tito et al. 2024, algorithm 1
(FL-PROVIDER-DP), all parties of which are simulated in one process. Nothing here looks at how many
units were drawn, at a loss or at a norm: the noisy sum alone leaves a step.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from audit.arrays import Bools, Floats
from audit.cards import PrivacyCard
from audit.engine.interface import Progress
from audit.errors import EngineError
from audit.extensions.private.gradients import Contribute, Tensors, clipped_sum
from audit.extensions.private.units import DrawnUnit, Parameters, Unit
from audit.files import write_atomically

Draw = Callable[[Unit, int], DrawnUnit | None]
"""Draws the samples of a unit in a step; they may depend on the unit and the step alone."""
_BITS = 53
_CHUNK = 2**20
"""Normal numbers that are made at once: 64 MiB of random bytes and their like in intermediate
results."""
_PARTS = 4
"""Normal numbers in a sum: finding the noise from a float's last bits takes work that grows
exponentially with it."""


class SystemRandom:
    """Coins and noise that nobody can draw again: their bits are the operating system's."""

    def coins(self, n: int, probability: float) -> Bools:
        """Flip `n` independent coins that fall true with this probability."""
        return _uniform(n) < probability

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Draw independent standard normal numbers, float64, on the CPU.

        Each is half the sum of four (Holohan & Braghin 2021, section 4), made by Box and Muller's
        method.
        """
        drawn = np.empty(math.prod(shape))
        for start in range(0, len(drawn), _CHUNK):
            part = drawn[start : start + _CHUNK]
            part[:] = _normal(_PARTS * len(part)).reshape(_PARTS, -1).sum(axis=0) / math.sqrt(
                _PARTS
            )
        return torch.from_numpy(drawn).reshape(tuple(shape))


class SeededRandom:
    """Coins and noise that anybody can draw again who knows the seed.

    They are for tests, and no guarantee.
    """

    def __init__(self, seed: int) -> None:
        """Seed the numbers of tests; a seed known to others would void the privacy."""
        self._rng = np.random.default_rng([seed, *b"private training"])

    def coins(self, n: int, probability: float) -> Bools:
        """Return `n` coins drawn from the seed, so that a test can repeat them."""
        return self._rng.random(n) < probability

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Return standard normal numbers drawn from the seed, so that a test can repeat them."""
        return torch.from_numpy(np.asarray(self._rng.standard_normal(tuple(shape))))


RandomSource = SystemRandom | SeededRandom


def run_mechanism(
    parameters: Parameters,
    clients: Sequence[Sequence[Unit]],
    draw: Draw,
    contribute: Contribute,
    card: PrivacyCard,
    random: RandomSource,
    ledger: Ledger,
    progress: Progress,
) -> None:
    """Change the parameters in place by the steps left; note each as spent before it is drawn.

    Args:
        parameters: what is trained.
        clients: the units of each client; of a central training all of them together.
        draw: gives the samples of a unit that takes part.
        contribute: computes what it contributes.
        card: the numbers of the training.
        random: source of randomness of coins and noise.
        ledger: ledger of spent steps: a training that was killed goes on with what is left.
        progress: receiver of the progress, told of every step, and of nothing else.

    Raises:
        TrainingError: a contribution is not finite.
    """
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    kind = kinds.get(card.optimizer)
    optimizer = None if kind is None else kind(list(parameters.values()), lr=card.learning_rate)
    progress.stage("private training, steps", card.steps)
    spent = ledger.restore(parameters, optimizer)
    progress.advance(spent)
    for _ in range(card.steps - spent):
        step = ledger.spend()
        mean = noisy_mean(parameters, clients, draw, contribute, card, random, step)
        with torch.no_grad():
            for name, parameter in parameters.items():
                if optimizer is None:
                    parameter.add_(mean[name])
                else:
                    parameter.grad = mean[name]
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        ledger.keep(parameters, optimizer, last=step == card.steps - 1)
        progress.advance()


def noisy_mean(
    parameters: Parameters,
    clients: Sequence[Sequence[Unit]],
    draw: Draw,
    contribute: Contribute,
    card: PrivacyCard,
    random: RandomSource,
    step: int,
) -> Tensors:
    """Return the noisy sum of a step's clipped contributions, divided by the constant q N.

    It is all that a step learns of the documents.

    With K clients taking part each adds noise of variance (sigma C)^2 / K, and where none does the
    server adds all of it: together (sigma C)^2, which is drawn at once here. Noise is added in
    float64 on the CPU; only a step rounds it, so that rounding shows nothing of the last bits of
    the sum. For arguments see `run_mechanism`.
    """
    units = sample_units(clients, card, random)
    samples = (found for found in (draw(unit, step) for unit in units) if found is not None)
    total = clipped_sum(parameters, samples, contribute, card.max_norm)
    std = card.noise_multiplier * card.max_norm
    mean = {}
    for name, tensor in total.items():
        noisy = (
            tensor.to("cpu", torch.float64) + std * random.normal(tensor.shape) if std else tensor
        )
        mean[name] = (noisy / card.expected_units).to(
            parameters[name].device, parameters[name].dtype
        )
    return mean


def sample_units(
    clients: Sequence[Sequence[Unit]], card: PrivacyCard, random: RandomSource
) -> list[Unit]:
    """Return the units that take part in a step, drawn by a coin for each.

    Then the units of those by a coin each: maybe none, maybe all.
    """
    # A rate of 1 needs no coin, so that a federated training of one client is the central one in
    # every bit.
    takes_part = (
        random.coins(len(clients), card.client_rate)
        if card.client_rate < 1
        else [True] * len(clients)
    )
    drawn: list[Unit] = []
    for units, invited in zip(clients, takes_part, strict=True):
        if invited:
            coins = random.coins(len(units), card.unit_rate)
            drawn += [unit for unit, taken in zip(units, coins, strict=True) if taken]
    return drawn


def _uniform(n: int) -> Floats:
    """Return `n` uniform numbers from the system's randomness, multiples of 2^-53 in [0, 1)."""
    words = np.frombuffer(os.urandom(8 * n), np.uint64) >> np.uint64(64 - _BITS)
    return words.astype(np.float64) * 2.0**-_BITS


def _normal(n: int) -> Floats:
    """Return `n` standard normal numbers from the system's randomness; `n` is even."""
    radius = np.sqrt(-2 * np.log1p(-_uniform(n // 2)))
    angle = 2 * np.pi * _uniform(n // 2)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])


SPENT = "spent"
STATE = "state.safetensors"
_LINE = b"step\n"
_KEPT = "steps kept"


class Ledger:
    """Spent steps and the state after the last step that was kept, in a folder.

    A step is on the disk as spent before its coins fall. When a training is killed, the steps after
    the state that was kept last are lost and stay spent: fewer are left to take, and no noise is
    drawn twice for one step.

    Args:
        folder: folder, made when missing; named after all that the training depends on.
        every: seconds between two states that are kept; the last step's always is.

    Raises:
        EngineError: the folder cannot be used.
    """

    def __init__(self, folder: Path, every: float = 60.0) -> None:
        """Open the ledger in a folder, which is made; it is saved every `every` seconds."""
        self.folder = folder
        self.every = every
        self._kept = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                f"{folder}: {error.strerror or error}", "choose another folder"
            ) from None

    @property
    def spent(self) -> int:
        """Return the number of steps that began; a line cut short by a kill counts.

        Raises:
            EngineError: the file cannot be read.
        """
        path = self.folder / SPENT
        try:
            return -(-path.stat().st_size // len(_LINE)) if path.exists() else 0
        except OSError as error:
            raise EngineError(
                f"{path}: {error.strerror or error}", "restore it: without it no budget is known"
            ) from None

    def spend(self) -> int:
        """Write on the disk that one more step is spent; return its number, from 0.

        Raises:
            EngineError: the disk does not take it.
        """
        number = self.spent
        path = self.folder / SPENT
        try:
            with path.open("ab") as stream:
                stream.truncate(number * len(_LINE)) if number else None
                stream.write(_LINE)
                stream.flush()
                os.fsync(stream.fileno())
            _sync_folder(self.folder)
        except OSError as error:
            raise EngineError(
                f"{path}: {error.strerror or error}", "free some space: the training goes on then"
            ) from None
        return number

    def keep(
        self, parameters: Parameters, optimizer: torch.optim.Optimizer | None, *, last: bool
    ) -> None:
        """Save parameters and optimizer, if `every` seconds have passed or this is the last step.

        Raises:
            EngineError: the disk does not take it.
        """
        if not last and time.monotonic() - self._kept < self.every:
            return
        tensors: dict[str, torch.Tensor] = {
            f"parameter/{name}": value for name, value in parameters.items()
        }
        for name, parameter in parameters.items():
            state = {} if optimizer is None else optimizer.state[parameter]
            tensors |= {
                f"optimizer/{key}/{name}": torch.as_tensor(value) for key, value in state.items()
            }
        tensors[_KEPT] = torch.tensor([self.spent])
        own = {
            name: value.detach().to("cpu", copy=True).contiguous()
            for name, value in tensors.items()
        }
        write_atomically(self.folder / STATE, save(own), mode=0o600)
        self._kept = time.monotonic()

    def restore(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None) -> int:
        """Restore parameters and optimizer from the disk, and return the steps spent so far.

        Raises:
            EngineError: the state is damaged, of another training, or later than the spent steps.
        """
        path = self.folder / STATE
        if not path.exists():
            return self.spent
        try:
            tensors = load(path.read_bytes())
            if int(tensors[_KEPT]) > self.spent:
                raise EngineError(
                    f"{self.folder}: more steps were kept than spent", "remove it, and train anew"
                )
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(tensors[f"parameter/{name}"])
                    if optimizer is not None:
                        optimizer.state[parameter].update(_state_of(name, tensors, parameter))
        except (OSError, SafetensorError, LookupError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"{path}: not the state of this training ({type(error).__name__})", "restore it"
            ) from None
        return self.spent


def _state_of(
    name: str, tensors: dict[str, torch.Tensor], parameter: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return the optimizer's state of one parameter; counters stay on the CPU, as in PyTorch."""
    found = {}
    for key, value in tensors.items():
        part, _, rest = key.partition("/")
        field, _, owner = rest.partition("/")
        if part == "optimizer" and owner == name:
            found[field] = (
                value.to(parameter.device)
                if value.shape == parameter.shape and value.dim()
                else value
            )
    return found


def _sync_folder(folder: Path) -> None:
    """Flush a folder, so that the name of a new file survives a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
