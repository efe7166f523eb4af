"""Extractable memorisation as policies and reports know it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from audit.attacks.description import Description
from audit.attacks.memorisation.report import REPORT
from audit.attacks.pii import CLASSES
from audit.attacks.reporting import AttackReport
from audit.attacks.shared_report import BLIND_AUC
from audit.attacks.splits import AUDITED

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

Context = Literal[
    "exact",
    "decoy",
    "no_text",
    "paraphrased",
    "shuffled",
    "image_only",
    "constant",
    "rotation_5",
    "rotation_10",
    "shift_20",
    "shift_100",
    "brightness_50",
    "brightness_80",
    "brightness_130",
    "brightness_200",
]
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""Degrees, pixels and per cent stand in the names."""
DISCOVERABLE = "discoverable"
"""Beside the contexts: answers that sampling gives, page and question as in training."""
PLAYERS = ("target", "baseline")
IDENTIFIED = "identified"
"""Distinct personal values, beside a share of all questions: how many people and numbers a model gives away."""
GAP = "anls_gap.heldout"
GROUPS = ("unique", "repeated")
EXTRACTABLE = ("extractable_memorisation", "extractable_simplicity")
MORE_CONTEXTS = CONTEXTS[1:]
METRICS = (
    "net",
    *(f"net.{group}" for group in GROUPS),
    "net.heldout",
    *(
        f"{what}.{split}"
        for what, split in product(("extracted", "baseline_extracted", "memorised", "forgotten"), AUDITED)
    ),
    "extracted_anls.member",
    *(f"{DISCOVERABLE}.{split}" for split in AUDITED),
    f"net.{DISCOVERABLE}",
    f"net.heldout.{DISCOVERABLE}",
    *(f"net.{name}" for name in CLASSES),
    *(
        name
        for context in MORE_CONTEXTS
        for name in (
            f"net.{context}",
            f"net.heldout.{context}",
            *(f"{what}.{split}.{context}" for what, split in product(("extracted", "memorised"), AUDITED)),
        )
    ),
    *(f"anls.heldout.{player}" for player in PLAYERS),
    GAP,
    IDENTIFIED,
    *EXTRACTABLE,
    "net.unproven",
)


class MemorisationDescription(Description):
    """What is told of `Memorisation` without running it."""

    name: ClassVar[str] = "memorisation"
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, BLIND_AUC)
    unbounded: ClassVar[tuple[str, ...]] = ("extractable_simplicity", IDENTIFIED)
    tallies: ClassVar[tuple[str, ...]] = (IDENTIFIED,)
    report: ClassVar[AttackReport] = REPORT
    power: ClassVar[str | None] = "anls.heldout.target"

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.memorisation.attack import Memorisation

        return Memorisation
