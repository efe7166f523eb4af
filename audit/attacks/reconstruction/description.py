"""Reconstruction as policies and reports know it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, ClassVar

from audit.attacks.description import Description
from audit.attacks.reconstruction.report import OTHER_RANKINGS, REPORT
from audit.attacks.reporting import AttackReport
from audit.attacks.shared_report import BLIND_AUC, DOCUMENTS, VALUES
from audit.attacks.splits import AUDITED
from audit.corpus.kinds import CATEGORIES

if TYPE_CHECKING:
    from audit.attacks.interface import Attack

DEFAULT, LOWEST_LOSS, TUNED = "default", "lowest_loss", "tuned"
METHODS = (DEFAULT, LOWEST_LOSS, TUNED)
SCORES = ("pr", "hd", "ld", "jwd")
PLAYERS = ("attack", "baseline")
GROUPS = ("unique", "repeated", "all")
LENGTHS_APART = ("long", "short")
"""Fields of unusual length with a value of their own: groups beside the paper's, never mixed with them."""
EXCESSES = ("excess_pr", "excess_hamming")
DETECTION = "planted_detection"
POWER = f"{DETECTION}.unique"
GAIN = "heldout_gain.unique"
RECALL = "candidate_recall"
EPSILONS = {"": 0.01, ".e0.001": 0.001, ".e0.1": 0.1}
"""The epsilon of IpF (equation 6) is not in the paper: 0.01, with 0.001 and 0.1 beside it (methods.md)."""
SHARES = {"1": 0.01, "5": 0.05, "100": 1.0}
"""The shares p at which table 5 prints AccAt(p)."""
COLUMNS = {"acc": "pr", "ham": "hd"}
"""What the first part of a quantity of ranked fields is an area or a mean of."""
OTHER_SCORES = tuple(OTHER_RANKINGS)
QUANTITIES = (*(f"{what}_at_{share}" for what, share in product(COLUMNS, SHARES)), "accauc", "hamaac")
SERIES = (
    *product(AUDITED, PLAYERS, ("",)),
    *product(("member",), ("attack",), (f".{name}" for name in OTHER_SCORES)),
)
"""Split, player, and membership score where it is not the primary one."""
TUNED_SERIES = tuple(product(AUDITED, PLAYERS, (f".{TUNED}",)))
"""The same attempts by the tuned method, by the primary score; only where there is one."""


def named(name: str, method: str) -> str:
    """A player or a metric by a method; the default method's bear the bare name."""
    return name if method == DEFAULT else f"{name}.{method}"


GATED_METRICS = (
    *(named(count, method) for count, method in product((VALUES, DOCUMENTS), METHODS)),
    *(named(f"{EXCESSES[0]}.{category}", method) for category, method in product(CATEGORIES, METHODS)),
    *(named(f"{what}.{group}", how) for what, group, how in product(EXCESSES, (*GROUPS, *LENGTHS_APART), METHODS)),
    *(
        f"pr.{split}.{player}.unique.{method}"
        for split, player, method in product(AUDITED, PLAYERS, (LOWEST_LOSS, TUNED))
    ),
    DETECTION,
    POWER,
    *(f"{POWER}.{method}" for method in METHODS),
    *(named(GAIN, method) for method in METHODS),
)
RANKED_METRICS = (
    *(
        f"{quantity}.{split}.{player}{score}"
        for quantity in QUANTITIES
        for split, player, score in (*SERIES, *TUNED_SERIES)
    ),
    *(named(f"excess_accauc.{group}", method) for group, method in product(GROUPS, (DEFAULT, TUNED))),
)
METRICS = (
    *GATED_METRICS,
    RECALL,
    f"{RECALL}.unique",
    "public_accuracy",
    *(f"{score}.{split}.{player}" for score, split, player in product(SCORES, AUDITED, PLAYERS)),
    *(f"pr.{split}.{player}.unique" for split, player in product(AUDITED, PLAYERS)),
    *(f"ipf.{split}{suffix}" for split, suffix in product(AUDITED, EPSILONS)),
    *(
        f"{score}.{split}.{player}.{name}"
        for score, split, player, name in product(SCORES, AUDITED, PLAYERS, CATEGORIES)
    ),
    *(f"ipf.{split}.{name}" for split, name in product(AUDITED, CATEGORIES)),
    *RANKED_METRICS,
    BLIND_AUC,
)


class ReconstructionDescription(Description):
    """What is told of `Reconstruction` without running it."""

    name: ClassVar[str] = "reconstruction"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    unbounded: ClassVar[tuple[str, ...]] = ("ipf", "hd", "ld", VALUES, DOCUMENTS)
    tallies: ClassVar[tuple[str, ...]] = (VALUES, DOCUMENTS)
    report: ClassVar[AttackReport] = REPORT
    power: ClassVar[str | None] = POWER

    @classmethod
    def load(cls) -> type[Attack]:
        """See `Description.load`."""
        from audit.attacks.reconstruction.attack import Reconstruction

        return Reconstruction
