"""Inference-time paraphrase (ITP; Pinto et al. 2024, section 4, after Somepalli et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from audit.defenses.interface import QueryDefense
from audit.defenses.randomness import seed_of

if TYPE_CHECKING:
    from audit.defenses.rewording import Reworded
    from audit.targets.interface import Target


@dataclass(frozen=True)
class Paraphrase(QueryDefense):
    """The model is asked the question in other words: memory that hangs on the very words of training finds no hold.

    Attributes:
        seed: together with the question it chooses among the ways to put it. An attacker who knows the countermeasure
            can ask in several ways himself, so this is one draw, not the best of many.
    """

    seed: int = 0

    @property
    def name(self) -> str:
        """See `Defense`."""
        return "paraphrase"

    @property
    def title(self) -> str:
        """See `Defense`."""
        return "Question paraphrased"

    def seeded(self, seed: int) -> Paraphrase:
        """See `QueryDefense.seeded`."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """See `QueryDefense.wrap`."""
        from audit.defenses.rewording import reworded

        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        from audit.corpus.paraphrases import paraphrase

        return paraphrase(question, seed_of(self.seed, self.name, question))
