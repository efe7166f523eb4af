"""Many tests at once: p-values adjusted so that a false alarm among all of them stays rare (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")


def holm(p_values: Mapping[Key, float | None]) -> dict[Key, float]:
    """Adjust p-values by Holm's step-down rule (1979), over those that there are; ties in the order given.

    The chance that any true null has an adjusted p of at most alpha is at most alpha, however the tests go together.
    """
    tested = sorted(((p, order, key) for order, (key, p) in enumerate(p_values.items()) if p is not None), key=_by_p)
    adjusted: dict[Key, float] = {}
    running = 0.0
    for rank, (p, _, key) in enumerate(tested):
        running = max(running, min(1.0, p * (len(tested) - rank)))
        adjusted[key] = running
    return adjusted


def _by_p(item: tuple[float, int, Any]) -> tuple[float, int]:
    return item[:2]
