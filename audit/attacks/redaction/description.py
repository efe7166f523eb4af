"""Redaction-context leakage as policies and reports know it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from audit.attacks.description import Description
from audit.attacks.redaction.report import CLASSIFIERS, REPORT, WITHOUT_TEXT
from audit.attacks.reporting import AttackReport
from audit.attacks.splits import AUDITED
from audit.corpus.kinds import CATEGORIES, MASKS

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

BLIND = tuple(WITHOUT_TEXT)
"""Who sees the values' lengths only, and who knows only how common each category is."""
GATED = ("lift_share", "worst_class")
"""The share told of what naming the commonest category leaves untold, and the category that is told best."""
BASES = ("accuracy", "macro_f1", "lift", "lift_over_length", *GATED)
EXCESS = ("target_gain", "target_gain.uncommon")
GAINS = (*EXCESS, *(f"target_gain.{split}" for split in AUDITED))
METRICS = (
    *BASES,
    *(f"{base}.{mask}" for base, mask in product(BASES, MASKS)),
    *(f"{base}.{name}" for base, name in product(BASES, CLASSIFIERS)),
    *(f"{base}.{mask}.{name}" for base, mask, name in product(BASES, MASKS, CLASSIFIERS)),
    *(f"{base}.{who}" for base, who in product(BASES[:2], BLIND)),
    *(f"{what}.{category}" for what, category in product(("recall", "precision"), CATEGORIES)),
    "dictionary_share",
    *GAINS,
)
"""Without a mask: under that of the manifest. Without a classifier: the first of the parameters; where it is the only
one, no number is named after it."""


class RedactionContextDescription(Description):
    """What is told of `RedactionContext` without running it."""

    name: ClassVar[str] = "redaction"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    caps: ClassVar[Mapping[str, float]] = dict.fromkeys(("lift", "lift_over_length"), 0.5)
    report: ClassVar[AttackReport] = REPORT
    text_metrics: ClassVar[tuple[str, ...]] = tuple(name for name in METRICS if name not in GAINS)

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.redaction.attack import RedactionContext

        return RedactionContext
