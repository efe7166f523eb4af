"""The device that a model's weights are put on; spread over GPU, memory and disk where the GPU is too small."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from audit.private import PrivateFolder

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
