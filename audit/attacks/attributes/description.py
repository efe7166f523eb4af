"""Attribute inference as policies and reports know it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, ClassVar

from audit.attacks.attributes.report import REPORT
from audit.attacks.description import Description
from audit.attacks.reporting import AttackReport
from audit.attacks.shared_report import BLIND_AUC, DOCUMENTS, VALUES
from audit.attacks.splits import AUDITED
from audit.corpus.kinds import CATEGORIES

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

LOSS, CALIBRATED = "loss", "calibrated"
METHODS = (LOSS, CALIBRATED)
GROUPS = ("unique", "repeated", "all")
EXCESS, CHOSEN, PUBLIC, LISTED, POWER = "excess", "chosen", "public", "candidates", "planted_choice"


def named(name: str, method: str) -> str:
    """A metric by a method; those by the loss bear the bare name."""
    return name if method == LOSS else f"{name}.{method}"


METRICS = (
    *(named(count, method) for count, method in product((VALUES, DOCUMENTS), METHODS)),
    *(named(f"{EXCESS}.{group}", method) for group, method in product((*GROUPS, *CATEGORIES), METHODS)),
    *(named(f"{CHOSEN}.{split}", method) for split, method in product(AUDITED, METHODS)),
    *(f"{PUBLIC}.{split}" for split in AUDITED),
    *(f"{what}.{split}.{name}" for what, split, name in product((CHOSEN, PUBLIC), AUDITED, (*GROUPS[:2], *CATEGORIES))),
    LISTED,
    POWER,
    BLIND_AUC,
)


class AttributeInferenceDescription(Description):
    """What is told of `AttributeInference` without running it."""

    name: ClassVar[str] = "attribute_inference"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    unbounded: ClassVar[tuple[str, ...]] = (LISTED, VALUES, DOCUMENTS)
    tallies: ClassVar[tuple[str, ...]] = (VALUES, DOCUMENTS)
    report: ClassVar[AttackReport] = REPORT
    power: ClassVar[str | None] = POWER

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.attributes.attack import AttributeInference

        return AttributeInference
