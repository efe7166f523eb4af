"""The ledger of a private training: steps that were spent stay spent, however the training ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from audit.errors import EngineError
from audit.extensions.private.units import Parameters
from audit.files import write_atomically

SPENT, STATE = "spent", "state.safetensors"
_LINE = b"step\n"
_KEPT = "steps kept"


class Ledger:
    """Spent steps and the state after the last step that was kept, in a folder.

    A step is on the disk as spent before its coins fall. When a training is killed, the steps after the state that was
    kept last are lost and stay spent: fewer are left to take, and no noise is drawn twice for one step.

    Args:
        folder: made when missing; named after all that the training depends on.
        every: seconds between two states that are kept; the last step's always is.

    Raises:
        EngineError: the folder cannot be used.
    """

    def __init__(self, folder: Path, every: float = 60.0) -> None:
        self.folder = folder
        self.every = every
        self._kept = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(f"{folder}: {error.strerror or error}", "choose another folder") from None

    @property
    def spent(self) -> int:
        """Number of steps that were begun; a line that a kill cut short counts.

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
        """Count one more step as spent, on the disk; gives its number, from 0.

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

    def keep(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None, *, last: bool) -> None:
        """Keep parameters and optimizer, when it is time or this was the last step.

        Raises:
            EngineError: the disk does not take it.
        """
        if not last and time.monotonic() - self._kept < self.every:
            return
        tensors: dict[str, torch.Tensor] = {f"parameter/{name}": value for name, value in parameters.items()}
        for name, parameter in parameters.items():
            state = {} if optimizer is None else optimizer.state[parameter]
            tensors |= {f"optimizer/{key}/{name}": torch.as_tensor(value) for key, value in state.items()}
        tensors[_KEPT] = torch.tensor([self.spent])
        own = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
        write_atomically(self.folder / STATE, save(own), mode=0o600)
        self._kept = time.monotonic()

    def restore(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None) -> int:
        """Put parameters and optimizer back as they were kept; gives the steps spent so far.

        Raises:
            EngineError: the state is damaged, of another training, or later than the spent steps.
        """
        path = self.folder / STATE
        if not path.exists():
            return self.spent
        try:
            tensors = load(path.read_bytes())
            if int(tensors[_KEPT]) > self.spent:
                raise EngineError(f"{self.folder}: more steps were kept than spent", "remove it, and train anew")
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


def _state_of(name: str, tensors: dict[str, torch.Tensor], parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """An optimizer's state of one parameter: counters stay on the CPU, as PyTorch has them."""
    found = {}
    for key, value in tensors.items():
        part, _, rest = key.partition("/")
        field, _, owner = rest.partition("/")
        if part == "optimizer" and owner == name:
            found[field] = value.to(parameter.device) if value.shape == parameter.shape and value.dim() else value
    return found


def _sync_folder(folder: Path) -> None:
    """A new file's name is on the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
