"""Names of contexts and metrics of memorisation."""

from __future__ import annotations

from typing import Literal, get_args

Context = Literal[
    "exact",
    "decoy",
    "no_text",
    "paraphrased",
    "shuffled",
    "image_only",
    "constant",
    "rotation_5",
    "rotation_10",
    "shift_20",
    "shift_100",
    "brightness_50",
    "brightness_80",
    "brightness_130",
    "brightness_200",
]
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""Degrees, pixels and per cent stand in the names."""
DISCOVERABLE = "discoverable"
"""Beside the contexts: answers that sampling gives, page and question as in training."""
PLAYERS = ("target", "baseline")
IDENTIFIED = "identified"
"""Distinct personal values, beside a share of all questions: how many people and numbers a model gives away."""
GAP = "anls_gap.heldout"
EXTRACTABLE = "extractable_memorisation"
CONTEXTS_SHOWN: tuple[Context, ...] = ("decoy", "no_text", "paraphrased", "shuffled", "image_only", "brightness_130")
"""Contexts beside the exact one with a number of their own: those that a limit is held against, and those of an
attacker who holds the question or the page alone. The journal holds what every context that was tried gave."""
