"""Names of metrics of reconstruction."""

from __future__ import annotations

from audit.corpus.kinds import Split

DEFAULT, LOWEST_LOSS, TUNED = "default", "lowest_loss", "tuned"
METHODS = (DEFAULT, LOWEST_LOSS, TUNED)
PLAYERS = ("attack", "baseline")
GROUPS = ("unique", "repeated", "all")
EXCESSES = ("excess_pr", "excess_hamming")
POWER = "planted_detection.unique"
GAIN = "heldout_gain.unique"
LIMITED = (*(f"excess_pr.{group}" for group in GROUPS), *(f"excess_hamming.{group}" for group in ("unique", "all")))
"""Metrics of which every method has its own number."""
SERIES: tuple[tuple[Split, str], ...] = (("member", "attack"), ("member", "baseline"), ("heldout", "attack"))
"""Split and player of what is shown side by side."""


def named(name: str, method: str) -> str:
    """A player or a metric by a method; the default method's bear the bare name."""
    return name if method == DEFAULT else f"{name}.{method}"
