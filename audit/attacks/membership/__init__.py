"""Document membership: was this document trained on? (METHODS.md, section 3b)."""

from audit.attacks.membership.attack import Membership

__all__ = ["Membership"]
