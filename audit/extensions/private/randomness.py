"""Coins and noise: from the operating system, or (without any guarantee) from a seed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import torch

from audit.arrays import Bools, Floats

_BITS = 53
_CHUNK = 2**20
"""Normal numbers that are made at once: 64 MiB of random bytes and their like in intermediate results."""
_PARTS = 4
"""Normal numbers in a sum: finding the noise from a float's last bits takes work that grows exponentially with it."""


class SystemRandom:
    """Coins and noise that nobody can draw again: their bits are the operating system's."""

    secure = True

    def coins(self, n: int, probability: float) -> Bools:
        """See `RandomSource.coins`."""
        return _uniform(n) < probability

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Independent standard normal numbers, float64, on the CPU.

        Each is half the sum of four (Holohan & Braghin 2021, section 4), made by Box and Muller's method.
        """
        n = math.prod(shape)
        drawn = np.empty(n)
        for start in range(0, n, _CHUNK):
            part = drawn[start : start + _CHUNK]
            part[:] = _normal(_PARTS * len(part)).reshape(_PARTS, -1).sum(axis=0) / math.sqrt(_PARTS)
        return torch.from_numpy(drawn).reshape(tuple(shape))


class SeededRandom:
    """Coins and noise that anybody can draw again who knows the seed: for tests, and no guarantee.

    Args:
        seed: at least 0.
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, *b"private training"])

    def coins(self, n: int, probability: float) -> Bools:
        """See `RandomSource.coins`."""
        return self._rng.random(n) < probability

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Independent standard normal numbers, float64, on the CPU."""
        return torch.from_numpy(np.asarray(self._rng.standard_normal(tuple(shape))))


def _uniform(n: int) -> Floats:
    """`n` uniform numbers, multiples of 2^-53 in [0, 1)."""
    words = np.frombuffer(os.urandom(8 * n), np.uint64) >> np.uint64(64 - _BITS)
    return words.astype(np.float64) * 2.0**-_BITS


def _normal(n: int) -> Floats:
    """`n` standard normal numbers, `n` even."""
    radius = np.sqrt(-2 * np.log1p(-_uniform(n // 2)))
    angle = 2 * np.pi * _uniform(n // 2)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
