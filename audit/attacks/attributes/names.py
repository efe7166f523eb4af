"""Names of metrics of attribute inference."""

from __future__ import annotations

LOSS, CALIBRATED = "loss", "calibrated"
METHODS = (LOSS, CALIBRATED)
GROUPS = ("unique", "all")
EXCESS, CHOSEN, LISTED, POWER = "excess", "chosen", "candidates", "planted_choice"


def named(name: str, method: str) -> str:
    """A metric by a method; those by the loss bear the bare name."""
    return name if method == LOSS else f"{name}.{method}"
