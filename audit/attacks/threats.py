"""Threat model of an attack, and the bounds that private training puts on its metrics, as its text declares them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from audit.attacks.figure_text import StrictModel

Access = Literal["weights", "scores", "answers", "copies"]
"""What an attacker has of a model, most first; copies: no model, redacted copies of its documents alone."""
Protected = Literal["document", "provider"]
"""Whoever a metric is about."""
ACCESS_LABELS: dict[Access, str] = {
    "weights": "the model’s weights",
    "scores": "its losses or probabilities",
    "answers": "its answers alone",
    "copies": "no model: redacted copies alone",
}


class Threat(StrictModel):
    """Threat model, as the attack is run here.

    Attributes:
        access: what all of the attack needs of the model.
        knowledge: what the attacker knows beside it, as the end of a sentence.
        least: what a weaker part of the attack can do with; None: no part can do with less.
        least_for: that part, in a few words.
        effort: parameters that set the cost of one trial, by name, with labels that follow their number.
    """

    access: Access
    knowledge: str
    least: Access | None = None
    least_for: str = ""
    effort: dict[str, str] = Field(default_factory=dict)


class Provable(StrictModel):
    """The bound that a training's (epsilon, delta) puts on a metric, see `audit.stats.dp_bounds`.

    Attributes:
        kind: the bound; an advantage is a rate among those that are in minus that among those that are out.
        of: whoever is in or out.
        fpr: the largest rate among those that are out.
    """

    kind: Literal["tpr", "advantage", "balanced accuracy", "auc"]
    of: Protected
    fpr: float = 1.0
