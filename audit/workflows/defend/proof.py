"""Whether the guarantee of a training alone proves what a policy asks (methods.md#dp-training)."""

from __future__ import annotations

from audit.attacks.proven import asked_of_training, proves
from audit.attacks.provider_membership import ProviderMembership
from audit.corpus.documents import Corpus
from audit.errors import UsageError
from audit.extensions.private.options import Proves
from audit.policy import Policy


def proof_of(policy: Policy, corpus: Corpus) -> Proves:
    """Return the test whether a guarantee proves every limit of a policy on membership of documents and providers.

    Args:
        policy: what the owner accepts.
        corpus: where no member names a provider, limits on providers ask nothing.

    Raises:
        UsageError: the policy has no such limit.
    """
    named = any(document.provider for document in corpus.of("member"))
    asked = asked_of_training(limit for limit in policy.limits if named or limit.attack != ProviderMembership.name)
    if not any(most < 1 for _, most in asked):
        raise UsageError(
            f"policy {policy.name} has no limit on membership that could be proved", "give --epsilon instead"
        )
    return lambda unit, promised: proves(asked, unit, promised)
