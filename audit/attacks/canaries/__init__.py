"""Canaries: can planted secrets be read back out of the model? (METHODS.md, section 5)."""

from audit.attacks.canaries.attack import Canaries

__all__ = ["Canaries"]
