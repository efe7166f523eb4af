"""Labels and forms of measurements, of every attack and of what the model is good for; needs no template."""

from __future__ import annotations

from audit.attacks import BATTERY
from audit.attacks.description import describe
from audit.attacks.reporting import AttackReport, MetricText

UTILITY = AttackReport(
    metrics={
        "masked_token_accuracy": MetricText("Hidden words guessed correctly", form="share"),
        "entity_f1": MetricText("Fields found (F1)", form="share", counted=False),
        "class_accuracy": MetricText("Pages classified correctly", form="share"),
        "intent_accuracy": MetricText("Intents named correctly", form="share"),
        "link_f1": MetricText("Links between fields found (F1)", form="share", counted=False),
        "anls": MetricText("Answers given (ANLS)", form="share", counted=False),
        "accuracy": MetricText("Correct decisions", form="share"),
    }
)
"""Labels of the measurements of what the model is good for."""


def report_of(attack: str) -> AttackReport:
    """Return what an attack says about itself; the generic report for one that this version does not know."""
    return next((kind.report for kind in describe(BATTERY) if kind.name == attack), AttackReport())
