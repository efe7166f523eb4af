"""Provider membership: did documents of this provider train the model (papers/privacy-aware-docvqa.txt)?"""

from audit.attacks.provider_membership.attack import ProviderMembership

__all__ = ["ProviderMembership"]
