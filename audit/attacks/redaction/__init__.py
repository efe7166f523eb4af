"""Redaction: what does the text around a hidden value give away? (papers/redactbuster.txt)."""

from audit.attacks.redaction.attack import RedactionContext

__all__ = ["RedactionContext"]
