"""The attacks. A new one is a folder, which says everything about it, a line in `BATTERY` and a template."""

from __future__ import annotations

from audit.attacks.attributes.description import AttributeInferenceDescription
from audit.attacks.canaries.description import CanariesDescription
from audit.attacks.description import Battery, describe
from audit.attacks.membership.description import MembershipInferenceDescription
from audit.attacks.memorisation.description import MemorisationDescription
from audit.attacks.provider_membership.description import ProviderMembershipDescription
from audit.attacks.reconstruction.description import ReconstructionDescription
from audit.attacks.redaction.description import RedactionContextDescription
from audit.policy.of_attacks import Facts

BATTERY: Battery = Battery(
    (
        ReconstructionDescription,
        MemorisationDescription,
        AttributeInferenceDescription,
        MembershipInferenceDescription,
        ProviderMembershipDescription,
        RedactionContextDescription,
        CanariesDescription,
    )
)
"""Every attack this version knows, in the order in which they run and are reported: its class, or its description where
it has one, so that whoever only reads a record need not import it."""


def known_facts() -> dict[str, Facts]:
    """What the attacks say of their numbers before any is measured, by attack."""
    return {kind.name: Facts(frozenset(kind.text_metrics), kind.follows) for kind in describe(BATTERY)}


def known_caps() -> dict[str, dict[str, float | None]]:
    """The value that a limit must stay under, by attack and metric (see `Description.cap`)."""
    return {kind.name: {metric: kind.cap(metric) for metric in kind.metrics} for kind in describe(BATTERY)}


def known_metrics() -> dict[str, dict[str, float | None]]:
    """The metrics that a policy may ask for, by attack, each with the most that it can be (see `Metric.upper`)."""
    return {kind.name: {metric: kind.upper(metric) for metric in kind.metrics} for kind in describe(BATTERY)}
