"""Threat model of an attack: what its attacker holds and knows, and which parameters its cost follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Access = Literal["weights", "scores", "answers", "copies"]
"""What an attacker has of a model, most first; copies: no model, redacted copies of its documents alone."""
ACCESS_LABELS: dict[Access, str] = {
    "weights": "the model’s weights",
    "scores": "its losses or probabilities",
    "answers": "its answers alone",
    "copies": "no model: redacted copies alone",
}


@dataclass(frozen=True)
class Threat:
    """Threat model, as the attack is run here.

    Attributes:
        access: what all of the attack needs of the model.
        knowledge: what the attacker knows beside it, as the end of a sentence.
        least: what a weaker part of the attack can do with; None: no part can do with less.
        least_for: that part, in a few words.
        effort: parameters that say what one trial costs, by name, with labels that follow their number.
    """

    access: Access
    knowledge: str
    least: Access | None = None
    least_for: str = ""
    effort: Mapping[str, str] = field(default_factory=dict)
