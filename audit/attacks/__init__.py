"""The attacks. A new one is a folder, which says everything about it, a line in `BATTERY` and a template."""

from __future__ import annotations

from audit.attacks.attributes import AttributeInference
from audit.attacks.canaries import Canaries
from audit.attacks.interface import Attack
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.redaction import RedactionContext
from audit.policy.of_attacks import Facts

BATTERY: tuple[type[Attack], ...] = (
    Reconstruction,
    Memorisation,
    AttributeInference,
    MembershipInference,
    ProviderMembership,
    RedactionContext,
    Canaries,
)
"""Every attack this version knows, in the order in which they run and are reported."""


def known_facts() -> dict[str, Facts]:
    """What the attacks say of their numbers before any is measured, by attack."""
    return {kind.name: Facts(frozenset(kind.text_metrics), kind.follows) for kind in BATTERY}


def known_metrics() -> dict[str, dict[str, float | None]]:
    """The metrics that a policy may ask for, by attack, each with the most that it can be (see `Metric.upper`)."""
    return {kind.name: {metric: kind.upper(metric) for metric in kind.metrics} for kind in BATTERY}
