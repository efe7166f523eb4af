"""The epsilon at which the guarantee of a training alone proves what a policy asks (methods.md#dp-training)."""

from __future__ import annotations

import math
from typing import Literal

from audit.attacks.proven import largest_epsilon
from audit.attacks.provider_membership import ProviderMembership
from audit.corpus.documents import Corpus
from audit.errors import UsageError
from audit.policy import Policy
from audit.training.dp.options import ProvableEpsilon


def epsilon_that_proves(policy: Policy, corpus: Corpus) -> ProvableEpsilon:
    """Give the largest epsilon that proves every limit of a policy on the membership of documents and providers.

    Args:
        policy: what the owner accepts.
        corpus: where no member names a provider, limits on providers ask nothing.
    """
    named = any(document.provider for document in corpus.of("member"))
    limits = [limit for limit in policy.limits if named or limit.attack != ProviderMembership.name]

    def epsilon(unit: Literal["document", "provider"], delta: float) -> float:
        found = largest_epsilon(limits, unit, delta)
        if found == math.inf:
            raise UsageError(
                f"policy {policy.name} has no limit on membership that could be proved", "give --epsilon instead"
            )
        if not found:
            raise UsageError(
                f"policy {policy.name} has a limit that no epsilon proves for a {unit} at delta {delta:.2g}",
                "protect providers (--unit provider), train on more units, raise the limit, or give --epsilon",
            )
        return found

    return epsilon
