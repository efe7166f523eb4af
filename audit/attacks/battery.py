"""The code of every attack. Importing it takes a second: who only reads a record needs `audit.attacks.TEXTS`."""

from __future__ import annotations

from audit import plugins
from audit.attacks.attributes import AttributeInference
from audit.attacks.canaries import Canaries
from audit.attacks.interface import Attack
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.redaction import RedactionContext

BATTERY: tuple[type[Attack], ...] = (
    Reconstruction,
    Memorisation,
    AttributeInference,
    MembershipInference,
    ProviderMembership,
    RedactionContext,
    Canaries,
    *plugins.load("docaudit.attacks").values(),
)
"""Every attack, those of extensions last, in the order in which they run and are reported."""
