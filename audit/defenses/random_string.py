"""A random string before or after the question (PR, AR; Pinto et al. 2024, section 4, after Somepalli et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from audit.defenses.interface import QueryDefense
from audit.defenses.randomness import seed_of

if TYPE_CHECKING:
    from audit.defenses.rewording import Reworded
    from audit.targets.interface import Target

N_DIGITS = 6
"""As in the paper: "a short 6-digit random string"."""


@dataclass(frozen=True)
class RandomString(QueryDefense):
    """Six random digits, set off by a space, stand before or after the question.

    In use they would be drawn anew each time; here they follow from the question, which is one such draw and can be
    repeated.

    Attributes:
        where: before the question, or after it.
        seed: together with the question it gives the digits.
    """

    where: Literal["before", "after"] = "before"
    seed: int = 0

    @property
    def name(self) -> str:
        """See `Defense`."""
        return f"random-{self.where}"

    @property
    def title(self) -> str:
        """See `Defense`."""
        return f"Random string {self.where} the question"

    def seeded(self, seed: int) -> RandomString:
        """See `QueryDefense.seeded`."""
        return replace(self, seed=seed)

    def wrap(self, target: Target) -> Reworded:
        """See `QueryDefense.wrap`."""
        from audit.defenses.rewording import reworded

        return reworded(self.name, target, self._reword)

    def _reword(self, question: str) -> str:
        import numpy as np

        rng = np.random.default_rng(seed_of(self.seed, self.name, question))
        digits = f"{rng.integers(10**N_DIGITS):0{N_DIGITS}}"
        return f"{digits} {question}" if self.where == "before" else f"{question} {digits}"
