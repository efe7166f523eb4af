"""Redaction: what does the text around a hidden value give away? (Beltrame et al. 2024)."""

from audit.attacks.redaction.attack import RedactionContext
