"""Memory for models: the device of their weights, and large ones that are read again when they are asked."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from audit.errors import TargetError
from audit.private import PrivateFolder
from audit.targets.checkpoint.safety import quiet

SPARE = 0.85
"""Share of the free memory of a GPU that weights may take (ours); the rest is for what is computed."""
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_PATCHED = ("to", "cuda", "npu", "xpu", "mlu", "sdaa", "musa")
"""Methods that accelerate replaces in a model that it spreads."""


def bytes_of(model: Any) -> int:
    """The size of a model's weights and buffers, bytes."""
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def free_bytes(device: str) -> float:
    """The memory that is free for weights, bytes; infinite where this machine does not say (macOS)."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return float(free + unused)
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        return min(1024.0 * int(lines["MemAvailable"].split()[0]), _left_in_container())
    except (OSError, KeyError, ValueError):
        return math.inf


def _left_in_container() -> float:
    """What a container's limit leaves; infinite without one. Files that are cached give way."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return math.inf
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return float(int(limit) - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return math.inf


def put(model: Any, device: str) -> Any:
    """The model on the device; where a GPU has no room for it, spread over GPU, memory and disk.

    Args:
        model: in the memory of the CPU.
        device: "cpu", "cuda" or "mps".
    """
    if device != "cuda":
        return model.to(device)
    room = SPARE * free_bytes(device)
    if bytes_of(model) <= room or is_quantised(model):
        return model.to(device)
    return spread(model, {0: int(room), "cpu": int(min(free_bytes("cpu"), 2**50))}, "cuda:0")


def is_quantised(model: Any) -> bool:
    """True for weights that their library places itself."""
    return getattr(model, "hf_quantizer", None) is not None


def spread(model: Any, room: Mapping[int | str, int], computes: str) -> Any:
    """Spread a model over devices: each layer is brought to the one that computes when it runs.

    Args:
        model: in the memory of the CPU.
        room: bytes by device, as accelerate names them: a GPU's number, "cpu", "disk"; the disk is the last resort.
        computes: the device that layers which lie in memory or on disk are brought to.
    """
    from accelerate import dispatch_model, infer_auto_device_map

    model.tie_weights()
    whole = getattr(model, "_no_split_modules", None)
    places = infer_auto_device_map(model, max_memory=dict(room), no_split_module_classes=list(whole or ()))
    stored = list(model.state_dict())
    # accelerate cannot keep on disk what has buffers alone, which are not stored.
    places = {
        name: place if place != "disk" or any(f"{key}.".startswith(f"{name}.") for key in stored) else computes
        for name, place in places.items()
    }
    folder = PrivateFolder() if "disk" in places.values() else None
    place = None if folder is None else str(folder.path)
    dispatch_model(model, places, main_device=computes, offload_dir=place, force_hooks=True)
    if folder is not None:
        model.docaudit_offload = weakref.finalize(model, folder.remove)
    return model


def is_spread(model: Any) -> bool:
    """True where some of a model's weights are brought to the device only when they are needed."""
    return any(str(place) in ("cpu", "disk") for place in (getattr(model, "hf_device_map", None) or {}).values())


def drop_weights(model: Any) -> None:
    """Free the memory of a model's weights; whoever uses it without reading them again gets an error."""
    if hasattr(model, "hf_device_map"):
        from accelerate.hooks import remove_hook_from_submodules

        remove_hook_from_submodules(model)
        getattr(model, "docaudit_offload", int)()
        for name in (*_PATCHED, "hf_device_map", "docaudit_offload"):
            model.__dict__.pop(name, None)
    model.to("meta")
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def take_weights(model: Any, other: Any) -> None:
    """Have a model hold the weights and buffers of another of the same architecture; those that are tied stay so."""
    parts = dict(other.named_modules(remove_duplicate=False))
    for name, part in model.named_modules(remove_duplicate=False):
        for parameter in part._parameters:
            part._parameters[parameter] = parts[name]._parameters[parameter]
        for buffer in part._buffers:
            part._buffers[buffer] = parts[name]._buffers[buffer]


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
            if free_bytes(device) >= MARGIN * n_bytes:
                return
            if device == "cpu" and own.device == "cuda" and not is_spread(model):
                continue  # takes none of that memory
            drop_weights(model)
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
            return put(model, device)
        placed = self._place(model, device)
        self._sources[placed] = own = _Source(again, device)
        self._note(own)
        return placed

    def _place(self, model: Any, device: str) -> Any:
        if device == "cuda":
            self.make_room(bytes_of(model), device)
        return put(model, device)

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
            take_weights(model, own.again())
            self._place(model, own.device)
        own.present = True

    def keep(self, model: Any) -> None:
        """Keep a model in memory from now on: it is about to be trained, and its files will not tell what it is.

        Raises:
            TargetError: it is spread over devices, which nothing is trained over.
        """
        if is_spread(model):
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
    if again is None or is_quantised(model):
        return put(model, device)
    return RESIDENTS.admit(model, device, again)
