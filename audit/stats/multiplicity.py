"""Many tests at once: p-values adjusted so that a false alarm among all of them stays rare (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")


def holm(p_values: Mapping[Key, float | None], weights: Mapping[Key, float] | None = None) -> dict[Key, float]:
    """Adjust p-values by Holm's step-down rule (1979), over those that there are; ties in the order given.

    The chance that any true null has an adjusted p of at most alpha is at most alpha, however the tests go together.

    Args:
        p_values: by test; None: the test was not made.
        weights: positive, by test, fixed before the tests; a larger weight gives a test a larger share of alpha (Holm's
            weighted rule). None: equal shares.
    """
    share = {key: 1.0 if weights is None else weights[key] for key in p_values}
    tested = sorted(
        ((p / share[key], order, key) for order, (key, p) in enumerate(p_values.items()) if p is not None), key=_by_p
    )
    remaining = sum(share[key] for _, _, key in tested)
    adjusted: dict[Key, float] = {}
    running = 0.0
    for ratio, _, key in tested:
        running = max(running, min(1.0, ratio * remaining))
        adjusted[key] = running
        remaining -= share[key]
    return adjusted


def _by_p(item: tuple[float, int, Any]) -> tuple[float, int]:
    return item[:2]
