"""Provider membership: did documents of this provider train the model (Tito et al. 2024)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.description import import_when_asked
from audit.attacks.provider_membership.description import ProviderMembershipDescription

if TYPE_CHECKING:
    from audit.attacks.provider_membership.attack import ProviderMembership

__all__ = ["ProviderMembership"]

__getattr__ = import_when_asked(ProviderMembershipDescription, "ProviderMembership")
