"""Labels and forms of measurements, of every attack and of what the model is good for; needs no template."""

from __future__ import annotations

from audit.attacks import text_of
from audit.attacks.text import AttackText, Metric

UTILITY = AttackText(
    metrics={
        "masked_token_accuracy": Metric(label="Hidden words guessed correctly", kind="share"),
        "entity_f1": Metric(label="Fields found (F1)", kind="share", counted=False),
        "class_accuracy": Metric(label="Pages classified correctly", kind="share"),
        "intent_accuracy": Metric(label="Intents named correctly", kind="share"),
        "link_f1": Metric(label="Links between fields found (F1)", kind="share", counted=False),
        "anls": Metric(label="Answers given (ANLS)", kind="share", counted=False),
        "accuracy": Metric(label="Correct decisions", kind="share"),
    }
)
"""Labels of the measurements of what the model is good for."""


def report_of(attack: str) -> AttackText:
    """Return what an attack says about itself; the generic report for one that this version does not know."""
    return text_of(attack)
