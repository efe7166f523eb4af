"""Names of metrics of redaction-context leakage."""

from __future__ import annotations

from audit.attacks.splits import AUDITED

BLIND = ("length-only", "prior")
"""Who sees the values' lengths only, and who knows only how common each category is."""
GATED = ("lift_share", "worst_class")
"""The share told of what naming the commonest category leaves untold, and the category that is told best."""
EXCESS = ("target_gain", "target_gain.uncommon")
GAINS = (*EXCESS, *(f"target_gain.{split}" for split in AUDITED))
