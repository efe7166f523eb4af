"""Peak memory of a GPU, and of the process where there is none."""

from __future__ import annotations

import resource

import torch


def reset_peak(device: str) -> None:
    """Begin to look for a new peak; the peak of a process cannot be forgotten."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak_megabytes(device: str) -> float:
    """The peak since then: allocated on the GPU, or resident on the CPU."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
