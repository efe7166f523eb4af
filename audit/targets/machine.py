"""What torch finds on this machine, as JSON: `python -m audit.targets.machine`.

The process may break down alone.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch


def describe() -> dict[str, Any]:
    """Return torch's version, its devices, the memory of each GPU in bytes, and CPU threads."""
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {
        "version": str(torch.__version__),
        "cuda": [{"name": gpu.name, "memory": gpu.total_memory} for gpu in gpus]
        if torch.cuda.is_available()
        else [],
        "mps": torch.backends.mps.is_available(),
        "threads": torch.get_num_threads(),
    }


def peak_memory(device: str, *, restart: bool = False) -> int:
    """Return the peak memory in bytes, of all GPUs or of this process.

    Args:
        device: "cuda"; for all others the memory of the process counts.
        restart: begin a new peak; where the system cannot, the peak stays that of the whole
            process.
    """
    gpus = range(torch.cuda.device_count() if device == "cuda" else 0)
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    peak = sum(map(torch.cuda.max_memory_allocated, gpus)) if gpus else process
    if restart:
        for gpu in gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak


if __name__ == "__main__":
    print(json.dumps(describe()))
