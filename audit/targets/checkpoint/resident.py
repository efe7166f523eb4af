"""Large models in memory: as many as there is room for, the others are read again from their folders when asked.

A model stays the object that it is, whoever holds it: only its weights go and come back, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from audit.errors import TargetError
from audit.targets.checkpoint import placing
from audit.targets.checkpoint.libraries import quiet

LARGE = 2_000_000_000
"""Parameters of a model that is too large for most machines in float32 (ours): 8 GB."""
MARGIN = 1.1
"""Memory that a model is given, in sizes of its weights (ours)."""


@dataclass
class _Source:
    """How a large model is read again, and whether it is in memory; `used` counts up with every use of any model."""

    again: Callable[[], Any]
    device: str
    present: bool = True
    held: int = 0
    used: int = 0


class Residents:
    """The large models of this process.

    Attributes:
        large: a model of more parameters may be dropped from memory.
        dropped: how many times one was.
        most: large models that were in memory at once, at most.
    """

    def __init__(self) -> None:
        self.large = LARGE
        self.dropped = self.most = 0
        self._sources: WeakKeyDictionary[Any, _Source] = WeakKeyDictionary()
        self._clock = 0

    def make_room(self, n_bytes: float, device: str) -> None:
        """Drop large models, the one that was used longest ago first, until there is room or none is left."""
        waiting = [(model, own) for model, own in self._sources.items() if own.present and not own.held]
        for model, own in sorted(waiting, key=lambda pair: pair[1].used):
            if placing.free_bytes(device) >= MARGIN * n_bytes:
                return
            if device == "cpu" and own.device == "cuda" and not placing.is_spread(model):
                continue  # takes none of that memory
            placing.drop_weights(model)
            own.present = False
            self.dropped += 1

    def admit(self, model: Any, device: str, again: Callable[[], Any]) -> Any:
        """Place a model that was just loaded; a large one may be dropped from now on.

        Args:
            model: in the memory of the CPU.
            device: see `put`.
            again: reads it again, as it is now.
        """
        if model.num_parameters() <= self.large:
            return placing.put(model, device)
        placed = self._place(model, device)
        self._sources[placed] = own = _Source(again, device)
        self._note(own)
        return placed

    def _place(self, model: Any, device: str) -> Any:
        if device == "cuda":
            self.make_room(placing.bytes_of(model), device)
        return placing.put(model, device)

    def _note(self, own: _Source) -> None:
        self._clock += 1
        own.used = self._clock
        self.most = max(self.most, sum(source.present for source in self._sources.values()))

    @contextmanager
    def hold(self, model: Any) -> Iterator[None]:
        """Within, the model is in memory.

        Raises:
            TargetError: its files cannot be read any more.
        """
        own = self._sources.get(model)
        if own is None:
            yield
            return
        own.held += 1
        try:
            if not own.present:
                self._bring_back(model, own)
            self._note(own)
            yield
        finally:
            own.held -= 1

    def _bring_back(self, model: Any, own: _Source) -> None:
        # What is made in inference mode could not be trained on one page later.
        with torch.inference_mode(False):
            placing.take_weights(model, own.again())
            self._place(model, own.device)
        own.present = True

    def keep(self, model: Any) -> None:
        """Keep a model in memory from now on: it is about to be trained, and its files will not tell what it is.

        Raises:
            TargetError: it is spread over devices, which nothing is trained over.
        """
        if placing.is_spread(model):
            raise TargetError(
                "the model does not fit into the memory of the GPU: it can be asked, not trained",
                "train it on a larger one, or an adapter over it elsewhere, and give docaudit what comes of it",
            )
        with self.hold(model):
            self._sources.pop(model, None)


RESIDENTS = Residents()
"""Those of this process: memory is shared by all that it loads."""


@contextmanager
def asking(model: Any) -> Iterator[None]:
    """Within, the model is in memory, nothing is trained, and libraries print nothing."""
    with RESIDENTS.hold(model), torch.inference_mode(), quiet():
        yield


def place(model: Any, device: str, again: Callable[[], Any] | None = None) -> Any:
    """Move a model that was just loaded to a device.

    Args:
        model: in the memory of the CPU.
        device: "cpu", "cuda" or "mps". What does not fit into a GPU's memory is spread over GPU, memory and disk.
        again: reads it again; with it a large model may be dropped from memory while others are asked, and whoever asks
            it must do so within `asking`.
    """
    if again is None or placing.is_quantised(model):
        return placing.put(model, device)
    return RESIDENTS.admit(model, device, again)
