"""Change the question while a model is used.

By paraphrases and random strings (Pinto et al. 2024, section 4).

Both follow Somepalli et al. (2023). Random choices follow from the question, so that an answer
depends on its query alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from audit.corpus.paraphrases import paraphrase
from audit.defenses.interface import QueryDefense
from audit.defenses.rewording import Reworded, reworded
from audit.targets.interface import Target

N_DIGITS = 6
"""As in the paper: "a short 6-digit random string"."""


@dataclass(frozen=True)
class Paraphrase(QueryDefense):
    """Put the question in other words, so that memory of the very words of training finds no hold.

    Attributes:
        seed: together with the question it chooses among the ways to put it. An attacker who knows
            the countermeasure can ask in several ways himself, so this is one draw, not the best of
            many.
    """

    seed: int = 0
    name = "paraphrase"
    title = "Question paraphrased"

    def seeded(self, seed: int) -> Paraphrase:
        """Return the same countermeasure with this seed."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """Return a target that paraphrases every question."""
        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        """Return a paraphrase of the question, which follows from it and the seed."""
        return paraphrase(question, _seed_of(self.seed, self.name, question))


@dataclass(frozen=True)
class RandomString(QueryDefense):
    """Put six random digits, set off by a space, before or after the question.

    In use they would be drawn anew each time; here they follow from the question, which is one such
    draw and can be repeated.

    Attributes:
        where: before the question, or after it.
        seed: together with the question it gives the digits.
    """

    where: Literal["before", "after"] = "before"
    seed: int = 0

    @property
    def name(self) -> str:
        """Return the countermeasure's name in commands and records."""
        return f"random-{self.where}"

    @property
    def title(self) -> str:
        """Return the countermeasure's heading in reports."""
        return f"Random string {self.where} the question"

    def seeded(self, seed: int) -> RandomString:
        """Return the same countermeasure with this seed."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """Return a target that adds a random string to every question."""
        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        """Return the question with a random number before or behind it, by the seed."""
        rng = np.random.default_rng(_seed_of(self.seed, self.name, question))
        digits = f"{rng.integers(10**N_DIGITS):0{N_DIGITS}}"
        return f"{digits} {question}" if self.where == "before" else f"{question} {digits}"


def _seed_of(seed: int, name: str, question: str) -> int:
    """Derive 63 bits from the seed, the name of the countermeasure and the question."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{question}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


BEFORE = RandomString("before")
AFTER = RandomString("after")
