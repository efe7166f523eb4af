"""Document membership: was this document trained on? (methods.md#document-membership)."""

from audit.attacks.membership.attack import MembershipInference
