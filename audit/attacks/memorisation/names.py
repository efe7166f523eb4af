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
GROUPS = ("unique", "repeated")
EXTRACTABLE = ("extractable_memorisation", "extractable_simplicity")
MORE_CONTEXTS = CONTEXTS[1:]
