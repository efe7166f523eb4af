"""Memorisation of question-answering models: what they answer when the answer is gone (Pinto et al. 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.description import import_when_asked
from audit.attacks.memorisation.description import MemorisationDescription

if TYPE_CHECKING:
    from audit.attacks.memorisation.attack import Memorisation

__all__ = ["Memorisation"]

__getattr__ = import_when_asked(MemorisationDescription, "Memorisation")
