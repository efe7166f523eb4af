"""Counts of a verdict's decisions: what a headline says beside the one word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from audit.measurements import STRICT

if TYPE_CHECKING:
    from audit.policy.decision import Decision


@dataclass(frozen=True, config=STRICT)
class Counts:
    """Limits by what became of them, those that a verdict is reached on.

    Attributes:
        not_tested: limits of attacks that could be run and were not; the policy does without them.
        inapplicable: limits of attacks that this kind of model cannot be asked.
    """

    met: int = 0
    waived: int = 0
    violated: int = 0
    undecided: int = 0
    not_tested: int = 0
    inapplicable: int = 0

    @property
    def unexamined(self) -> int:
        """Limits that nothing is known of."""
        return self.not_tested + self.inapplicable

    @property
    def limits(self) -> int:
        """All of them."""
        return self.met + self.waived + self.violated + self.undecided + self.unexamined

    @property
    def examined(self) -> int:
        """Those with a decision: met, violated, or violated and waived."""
        return self.met + self.waived + self.violated

    @property
    def sentence(self) -> str:
        """The counts in words, the worst first: "2 of 8 limits met, 4 not tested, 2 not applicable"."""
        named = {
            "violated": self.violated,
            "undecided": self.undecided,
            "violated and waived": self.waived,
            "met": self.met,
            "not tested": self.not_tested,
            "not applicable": self.inapplicable,
        }
        first, *others = [(count, words) for words, count in named.items() if count] or [(0, "met")]
        rest = "".join(f", {count} {words}" for count, words in others)
        return f"{first[0]} of {self.limits} limits {first[1]}{rest}"


def count(decisions: Sequence[Decision]) -> Counts:
    """Count decisions by their outcome."""
    outcomes = Counter(decision.outcome for decision in decisions)
    return Counts(
        met=outcomes["passed"],
        waived=outcomes["waived"],
        violated=outcomes["violated"],
        undecided=outcomes["undecided"],
        not_tested=outcomes["not run"],
        inapplicable=outcomes["inapplicable"],
    )
