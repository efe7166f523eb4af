"""Redaction: what does the text around a hidden value give away? (Beltrame et al. 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.description import import_when_asked
from audit.attacks.redaction.description import RedactionContextDescription

if TYPE_CHECKING:
    from audit.attacks.redaction.attack import RedactionContext

__all__ = ["RedactionContext"]

__getattr__ = import_when_asked(RedactionContextDescription, "RedactionContext")
