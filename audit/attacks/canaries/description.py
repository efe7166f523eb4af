"""Canaries as policies and reports know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from audit.attacks.canaries.report import REPORT
from audit.attacks.description import Description
from audit.attacks.reporting import AttackReport

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

POWER = "most_bits"
LEAST_BITS = 6.65
"""The exposure of the first of 101 answers: a quick scan ranks a secret among 100 others."""
METRICS = (
    "excess",
    "excess_top3",
    "excess_exposure",
    "extracted",
    "extracted.control",
    "extracted.optimiser",
    "hdt",
    "hdt.control",
    "hdt.optimiser",
    "top3",
    "top3.control",
    "exposure",
    "exposure.control",
    POWER,
)
"""`control`: canaries whose coin left them out; `optimiser`: without exhaustive search and descent. With several
patterns all of them follow once more for each. The bound on epsilon is no metric for a policy: see `privacy`."""
FOLLOWS = {"excess": ("extracted", "extracted.control"), "excess_top3": ("top3", "top3.control")}
"""An excess can be had wherever both sides have two canaries."""


class CanariesDescription(Description):
    """What is told of `Canaries` without running them."""

    name: ClassVar[str] = "canaries"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    unbounded: ClassVar[tuple[str, ...]] = ("excess_exposure", "exposure", POWER)
    caps: ClassVar[Mapping[str, float]] = {"excess_exposure": LEAST_BITS, "exposure": LEAST_BITS}
    report: ClassVar[AttackReport] = REPORT
    power: ClassVar[str | None] = POWER
    follows: ClassVar[Mapping[str, tuple[str, ...]]] = FOLLOWS

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.canaries.attack import Canaries

        return Canaries
