"""Document membership: was this document trained on? (methods/document-membership.md)."""

from audit.attacks.membership.attack import MembershipInference
