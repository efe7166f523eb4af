"""What a model showed of one question, in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.engine.interface import Json


@dataclass(frozen=True)
class QuestionScores:
    """What a model showed of one question; a page of a token classifier is one question. None: there is no such number.

    Attributes:
        loss: the training loss, nats a token.
        confidence: that of its own answer, in [0, 1].
        accuracy: of its own answer, in [0, 1].
        similarity: of its own answer to the true one, in [0, 1].
    """

    loss: float
    confidence: float | None = None
    accuracy: float | None = None
    similarity: float | None = None

    def as_json(self, pretrained: QuestionScores | None, memory_similarity: float | None = None) -> dict[str, Json]:
        """For the journal, beside what the reference showed of the same question; None where not finite."""
        known = None
        if pretrained is not None:
            known = {"loss": finite(pretrained.loss), "confidence": finite(pretrained.confidence)}
        return {
            "loss": finite(self.loss),
            "confidence": finite(self.confidence),
            "accuracy": finite(self.accuracy),
            "similarity": finite(self.similarity),
            "memory_similarity": finite(memory_similarity),
            "pretrained": known,
        }


def finite(value: float | None) -> float | None:
    """The number, or None where there is none, or it is infinite or NaN, which JSON does not know."""
    return value if value is not None and math.isfinite(value) else None
