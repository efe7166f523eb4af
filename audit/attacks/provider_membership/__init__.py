"""Provider membership: did documents of this provider train the model (Tito et al. 2024)?"""

from audit.attacks.provider_membership.attack import ProviderMembership
