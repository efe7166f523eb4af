"""What torch finds on this machine, as JSON: `python -m audit.targets.machine`, a process that may break down alone."""

from __future__ import annotations

import json
from typing import Any

import torch


def describe() -> dict[str, Any]:
    """Describe torch's version, its devices, the memory of each GPU in bytes, and CPU threads."""
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {
        "version": str(torch.__version__),
        "cuda": [{"name": gpu.name, "memory": gpu.total_memory} for gpu in gpus] if torch.cuda.is_available() else [],
        "mps": torch.backends.mps.is_available(),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    print(json.dumps(describe()))
