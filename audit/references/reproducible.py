"""Deterministic kernels for a training, and random states given back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def reproducible(device: str) -> Iterator[None]:
    """Deterministic kernels while training; the process's setting and random state are given back.

    On a GPU kernels without a deterministic form only warn: the weights of a reference may then differ in the last bits
    between two trainings, and the record names a checkpoint by its hash.

    Args:
        device: "cpu", "cuda" or "mps".
    """
    before, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng(enabled=True):
        torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
        # Nothing here reads memory it did not write; filling every new tensor costs a sixth of the time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        try:
            yield
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
            torch.use_deterministic_algorithms(before, warn_only=warned)
