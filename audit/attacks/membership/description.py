"""Document membership as policies and reports know it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from audit.attacks.description import Description
from audit.attacks.membership.report import REPORT
from audit.attacks.membership.report import SCORES as LABELLED
from audit.attacks.reporting import AttackReport
from audit.attacks.shared_report import BLIND_AUC, DOCUMENTS, LOW, RATES, SCORE_CAPS

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

SCORES = tuple(LABELLED)
POWER = "reference_power"
LIMITED = ("auc", LOW, DOCUMENTS)
"""What policies limit: held against the strongest of the scores."""
METRICS = (
    *LIMITED,
    *(f"tpr_at_fpr_{rate}" for rate in RATES),
    *(f"fpr_at_{rate}" for rate in RATES),
    POWER,
    *(f"{what}.{score}" for what, score in product((*LIMITED, *(f"tpr_at_fpr_{rate}" for rate in RATES)), SCORES)),
)
"""Without a suffix: of the primary score. `fpr_at_...` is what the threshold gave on the evaluated documents."""


class MembershipInferenceDescription(Description):
    """What is told of `MembershipInference` without running it."""

    name: ClassVar[str] = "membership"
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, BLIND_AUC)
    unbounded: ClassVar[tuple[str, ...]] = (DOCUMENTS,)
    tallies: ClassVar[tuple[str, ...]] = (DOCUMENTS,)
    caps: ClassVar[Mapping[str, float]] = SCORE_CAPS
    report: ClassVar[AttackReport] = REPORT
    power: ClassVar[str | None] = POWER

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.membership.attack import MembershipInference

        return MembershipInference
