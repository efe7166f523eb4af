"""Canaries: can planted secrets be read back out of the model? (methods.md#canaries)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.canaries.description import CanariesDescription
from audit.attacks.description import import_when_asked

if TYPE_CHECKING:
    from audit.attacks.canaries.attack import Canaries

__all__ = ["Canaries"]

__getattr__ = import_when_asked(CanariesDescription, "Canaries")
